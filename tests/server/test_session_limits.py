"""How long a session lasts: its length, its client's idle time, a server that goes down with notice, an operator's word.

Each limit is stayed within and exceeded, in virtual time.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import numpy as np
import pytest
import trio
import trio.testing

from reactor_trio import issue_ticket
from reactor_trio.configuration.settings import AuthSettings, Settings
from reactor_trio.connection import ConnectRequest
from reactor_trio.errors import ConnectionRefused, SessionEnded
from reactor_trio.interface import (
    DistributedPipeline,
    Input,
    InputState,
    Output,
    ReactorPipeline,
    UploadedFile,
    Video,
    disconnected,
    event,
)
from reactor_trio.server.waiting_room import RoomEntry
from reactor_trio.testing import open_server


class Picture(Output):
    main_video: Video


class Camera(Input):
    camera: Video


class State(InputState):
    level: int = 0


class Model(ReactorPipeline):
    state: State
    output: Picture
    input: Camera
    fps = 4

    def load(self, config):
        self.ends = []

    @event
    def look_at(self, file: UploadedFile):
        pass

    @disconnected
    def note_end(self):
        self.ends.append(trio.current_time())

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


@dataclass
class Told:
    """What a client was told of its end, each with the time."""

    told: list[tuple[float, str, float | None]] = field(default_factory=list)

    def __call__(self, reason, seconds):
        self.told.append((trio.current_time(), reason, seconds))


PIXELS = np.zeros((2, 2, 3), np.uint8)


async def ended(client) -> tuple[str, float]:
    """Why the session of `client` ends, and when."""
    with pytest.raises(SessionEnded) as over:
        await client.take(1 << 19)
    return over.value.reason, trio.current_time()


# ---- length -----------------------------------------------------------------------------------------------------------


async def test_a_session_lasts_as_long_as_it_may_and_is_told_before(autojump_clock):
    told, watched = Told(), Told()
    async with open_server(Model, step_cost=0.25, limits={"session_length": 100}) as server:
        async with server.connect(on_ending=told) as client:
            await trio.sleep(89.9)
            assert (told.told, client.ending) == ([], None)
            async with server.connect(role="viewer", on_ending=watched) as viewer:
                await trio.sleep_until(99.9)
                assert client.ended is None
                assert client.ending.reason == "expired"
                assert client.ending.seconds == pytest.approx(0.1)
                reason, at = await ended(client)
                assert (reason, at) == ("expired", 100)
                assert (await ended(viewer))[0] == "expired"
        assert told.told == watched.told == [(90, "expired", 10)]
        assert server.model.ends == [100]
        assert server.sessions[0].reason == "expired"


async def test_a_session_without_limits_goes_on(autojump_clock):
    told = Told()
    async with open_server(Model, step_cost=0.25) as server, server.connect(on_ending=told, video=[]) as client:
        await trio.sleep(200)
        assert (client.ended, told.told) == (None, [])


@pytest.mark.parametrize(("own", "lasts"), [(20.0, 20), (200.0, 100), (None, 100)])
async def test_a_client_may_have_less_time_than_the_server_gives(autojump_clock, own, lasts):
    key = "k" * 32
    limits, auth = {"session_length": 100}, {"ticket_keys": [key]}
    async with open_server(Model, step_cost=0.25, limits=limits, auth=auth) as server:
        told = Told()
        async with server.connect(token=issue_ticket(key, max_session=own), on_ending=told) as client:
            assert await ended(client) == ("expired", lasts)
        assert told.told == [(lasts - 10, "expired", 10)]


async def test_a_short_limit_is_told_at_its_half_and_no_warning_is_none(autojump_clock):
    for warning, expected in ((10, [(3, "expired", 3)]), (0, [])):
        told, began = Told(), trio.current_time()
        limits = {"session_length": 6, "end_warning": warning}
        async with open_server(Model, step_cost=0.25, limits=limits) as server, server.connect(on_ending=told) as client:
            assert (await ended(client))[0] == "expired"
        assert [(at - began, *rest) for at, *rest in told.told] == expected


async def test_who_joins_when_the_end_is_in_sight_is_told(autojump_clock):
    async with open_server(Model, step_cost=0.25, limits={"session_length": 100}) as server, server.connect():
        await trio.sleep(94)
        late = Told()
        async with server.connect(role="viewer", on_ending=late) as viewer:
            await viewer.take(1)
            assert late.told == [(94, "expired", 6)]


async def test_a_step_that_does_not_end_keeps_nobody_waiting_for_the_goodbye(autojump_clock):
    async with open_server(Model, step_cost=50, limits={"session_length": 10}) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            for one in (client, viewer):
                assert await ended(one) == ("expired", 11)
            assert not server.sessions[0].ended.is_set(), "the step still computes"
            await server.sessions[0].ended.wait()
            assert (trio.current_time(), server.sessions[0].reason) == (50, "expired")


class OnRanks(DistributedPipeline):
    output: Picture
    fps = 4

    def load(self, config):
        pass

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


WAYS = {"thread": (Model, {}), "process": (Model, {"isolation": "process"}), "ranks": (OnRanks, {"ranks": 2})}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("leave", "ends"), [("close", 10), ("lost", 10), ("lost, and not back", 15)])
async def test_viewers_hear_a_second_after_the_controller_has_left_that_a_long_step_was_the_last(
    autojump_clock, way, leave, ends
):
    model, placed = WAYS[way]
    async with open_server(model, step_cost=50, resume_window=5 * (leave == "lost, and not back"), **placed) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            await trio.sleep(10)
            await (client.aclose() if leave == "close" else client.vanish())
            assert await ended(viewer) == ("client_left", ends + 1)
            async with server.connect(role="viewer") as late:
                assert await ended(late) == ("client_left", ends + 1), "a viewer that comes then hears it at once"
            assert not server.sessions[0].ended.is_set(), "the step still computes"
            await server.sessions[0].ended.wait()
            assert server.sessions[0].reason == "client_left"


# ---- idle -------------------------------------------------------------------------------------------------------------


async def test_a_client_that_does_nothing_is_idle_at_the_limit(autojump_clock):
    told = Told()
    async with open_server(Model, step_cost=0.25, limits={"session_idle": 60}) as server:
        async with server.connect(on_ending=told, feedback=True) as client:
            await client.feedback(None, 0)
            assert await ended(client) == ("idle", 60)
    assert told.told == [(50, "idle", 10)]


async def test_pings_and_acknowledgements_are_not_a_person(autojump_clock):
    async with open_server(Model, step_cost=0.25, websocket=True, limits={"session_idle": 60}) as server:
        async with server.connect(feedback=True) as client:
            assert await ended(client) == ("idle", 60)


async def act_command(client):
    await client.command("set_level", level=1)


async def act_refused(client):
    with pytest.raises(Exception, match="Expected"):
        await client.command("set_level", level="x")


async def act_input(client):
    await client.push("camera", PIXELS)


async def act_upload(client):
    await client.upload(b"data")


@pytest.mark.parametrize("act", [act_command, act_refused, act_input, act_upload])
async def test_a_client_that_acts_just_in_time_is_never_idle(autojump_clock, act):
    told = Told()
    async with open_server(Model, step_cost=0.25, limits={"session_idle": 60}) as server:
        async with server.connect(on_ending=told) as client:
            for turn in range(1, 3):
                await trio.sleep_until(turn * 59)
                await act(client)
                await server.settle()
                assert client.ending is None
            reason, at = await ended(client)
            assert reason == "idle"
            assert at == 2 * 59 + 60
    assert [(reason, seconds) for _, reason, seconds in told.told] == [("idle", 10), ("idle", None)] * 2 + [("idle", 10)]


async def test_before_the_warning_an_act_is_told_to_nobody(autojump_clock):
    told = Told()
    async with open_server(Model, step_cost=0.25, limits={"session_idle": 60}) as server:
        async with server.connect(on_ending=told) as client:
            for _ in range(3):
                await trio.sleep(49)
                await client.command("set_level", level=1)
    assert told.told == []


async def test_an_upload_that_takes_long_is_not_idle(autojump_clock):
    async def slow() -> AsyncIterator[bytes]:
        for _ in range(10):
            await trio.sleep(10)
            yield b"x"

    async with open_server(Model, step_cost=0.25, limits={"session_idle": 30}) as server, server.connect() as client:
        await server.sessions[0].upload("a", "text/plain", 10, slow())
        assert trio.current_time() == 100
        assert await ended(client) == ("idle", 130)


async def test_a_viewer_keeps_no_session(autojump_clock):
    async with open_server(Model, step_cost=0.25, limits={"session_idle": 60}) as server, server.connect() as client:
        async with server.connect(role="viewer") as viewer:
            await trio.sleep(30)
            with pytest.raises(Exception, match="watches"):
                await viewer.command("set_level", level=1)
            assert await ended(client) == ("idle", 60)


async def test_of_two_ends_the_nearer_is_told(autojump_clock):
    told = Told()
    limits = {"session_length": 65, "session_idle": 60}
    async with open_server(Model, step_cost=0.25, limits=limits) as server, server.connect(on_ending=told) as client:
        await trio.sleep(57)
        await client.command("set_level", level=1)
        assert await ended(client) == ("expired", 65)
    assert told.told == [(50, "idle", 10), (57, "expired", 8)]


# ---- drain ------------------------------------------------------------------------------------------------------------


async def test_a_drain_gives_sessions_their_notice_and_then_ends_them(autojump_clock):
    told, watched, reasons = Told(), Told(), []
    async with open_server(Model, step_cost=0.25, drain_notice=60) as server, trio.open_nursery() as nursery:

        async def wait_for_a_place():
            with pytest.raises(SessionEnded) as over:
                async with server.connect():
                    pass
            reasons.append((over.value.reason, trio.current_time()))

        async with server.connect(on_ending=told) as client, server.connect(role="viewer", on_ending=watched) as viewer:
            nursery.start_soon(wait_for_a_place)
            await trio.sleep(10)
            nursery.start_soon(server.drain)
            nursery.start_soon(server.drain)  # a second one changes nothing
            await server.settle()
            assert reasons == [("draining", 10)]
            health = json.loads(server.http("/health").body)
            assert (server.http("/health").status, health["status"]) == (503, "draining")
            assert health["reason"] == "sessions may go on for 60 s"
            for role in ("control", "viewer"):
                with pytest.raises(ConnectionRefused) as refused:
                    async with server.connect(role=role):
                        pass
                assert refused.value.status == 503
            await trio.sleep_until(69)
            await client.command("set_level", level=1)
            assert (client.ended, server.runtime.journal.phase) == (None, "draining")
            for one in (client, viewer):
                assert await ended(one) == ("draining", 70)
        await server.settle()
        assert server.runtime.journal.phase == "drained"
    assert told.told == watched.told == [(10, "draining", 60)]
    assert server.sessions[0].reason == "draining"


async def test_a_drain_waits_no_longer_than_the_last_session(autojump_clock):
    async with open_server(Model, step_cost=0.25, drain_notice=600) as server, trio.open_nursery() as nursery:
        async with server.connect() as client:
            nursery.start_soon(server.drain)
            await trio.sleep(30)
            await client.close()
        await server.settle()
        assert server.runtime.journal.phase == "drained"
        assert trio.current_time() == 30


async def test_without_a_session_a_drain_is_done_at_once(autojump_clock):
    async with open_server(Model, drain_notice=600) as server:
        await server.drain()
        assert (trio.current_time(), server.runtime.journal.phase) == (0, "drained")


async def test_the_second_call_of_a_drain_returns_with_the_first(autojump_clock):
    async with open_server(Model, step_cost=0.25, drain_notice=5) as server, trio.open_nursery() as nursery:
        async with server.connect() as client:
            nursery.start_soon(server.drain)
            await trio.sleep(1)
            await server.drain()
            assert trio.current_time() == 5
            assert client.ended == "draining"
        await server.drain()


async def test_a_notice_does_not_prolong_a_session(autojump_clock):
    told = Told()
    limits = {"session_length": 50}
    async with open_server(Model, step_cost=0.25, drain_notice=60, limits=limits) as server:
        async with server.connect(on_ending=told) as client, trio.open_nursery() as nursery:
            await trio.sleep(5)
            nursery.start_soon(server.drain)
            assert await ended(client) == ("expired", 50)
    assert told.told == [(5, "draining", 60), (40, "expired", 10)]


async def test_a_server_that_restarts_its_model_gives_no_notice(autojump_clock):
    told = Told()
    async with open_server(Model, step_cost=0.25, drain_notice=60) as server, server.connect(on_ending=told) as client:
        await server.runtime.drain("model_restarting")
        assert await ended(client) == ("model_restarting", 0)
    assert told.told == []


async def test_after_the_notice_the_grace_bounds_a_step_that_does_not_end(autojump_clock):
    async with open_server(Model, step_cost=100, drain_notice=10, drain_grace=2) as server, server.connect() as client:
        await server.drain()
        assert trio.current_time() <= 12
        assert client.ended == "draining"


# ---- an operator's word -----------------------------------------------------------------------------------------------


async def test_a_session_that_is_revoked_ends_in_its_order(autojump_clock):
    async with open_server(Model, step_cost=0.25) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            await client.take(1)
            assert not server.runtime.revoke("another")
            assert server.runtime.revoke(client.session_id)
            for one in (client, viewer):
                assert (await ended(one))[0] == "revoked"
            assert len(server.model.ends) == 1
        async with server.connect() as another:
            assert not server.runtime.revoke(client.session_id)
            await another.take(1)


async def test_a_session_is_ended_by_http_with_the_token_of_the_server(autojump_clock):
    key = "a key of thirty-two bytes or more"
    auth = AuthSettings("the-token-of-controllers", "the-token-of-viewers", (key,))

    def end(session_id, token=None):
        return server.http(f"/v1/sessions/{session_id}", "DELETE", token and {"authorization": f"Bearer {token}"})

    async with open_server(Model, settings=Settings(auth=auth, max_sessions=2)) as server:
        async with (
            server.connect(token=issue_ticket(key)) as client,
            server.connect(token=issue_ticket(key)) as other,
        ):
            for shown, status in [
                (None, 401), ("of nobody", 401), (client.share_token, 401), (client.resume_token, 401),
                ("the-token-of-viewers", 403), (issue_ticket(key), 403), (issue_ticket(key, session=other.session_id), 403),
                (issue_ticket(key, session=client.session_id, role="viewer"), 403),
            ]:  # fmt: skip
                assert end(client.session_id, shown).status == status
            assert end("another", "the-token-of-controllers").status == 404
            assert end(client.session_id, "the-token-of-controllers").status == 202
            assert (await ended(client))[0] == "revoked"
            await other.take(1)
            assert end(other.session_id, issue_ticket(key, session=other.session_id)).status == 202
            assert (await ended(other))[0] == "revoked"
        for path in ("/v1/sessions/another", "/v1/sessions/"):
            assert server.http(path).status == (405 if path.endswith("r") else 404)


async def test_where_nobody_is_asked_who_they_are_nobody_ends_a_session_by_http(autojump_clock):
    async with open_server(Model) as server, server.connect() as client:
        refused = server.http(f"/v1/sessions/{client.session_id}", "DELETE")
        assert (refused.status, b"set runtime.auth.token" in refused.body) == (403, True)
        await client.take(1)


# ---- places that are not taken ----------------------------------------------------------------------------------------


async def test_a_place_that_is_not_claimed_in_time_goes_to_the_next(autojump_clock):
    heard = []
    async with open_server(Model) as server:
        room = server.runtime.waiting_room
        request, stays = ConnectRequest("control", ()), lambda: None
        sleepy = RoomEntry("a", room, request, print, lambda reason: heard.append((reason, trio.current_time())), stays)
        waiting = RoomEntry("b", room, request, lambda *_: None, lambda _: None, stays)
        room.enter(sleepy)
        room.enter(waiting)
        assert sleepy.admitted.is_set()
        with trio.fail_after(11):
            await waiting.admitted.wait()
        assert heard == [("unclaimed", 10)]
        assert trio.current_time() == 10
        waiting.claim()
        for entry in (sleepy, waiting):
            entry.release()
        await trio.sleep(100)
