"""Several clients of one session: one controls it, the others watch."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from reactor_trio.errors import CommandError, ConnectionRefused, SessionEnded
from reactor_trio.interface import (
    ClientInfo,
    InputField,
    InputState,
    ReactorPipeline,
    connected,
    disconnected,
    event,
)
from reactor_trio.testing import Link, assert_nothing_left, open_server
from tests.support.behaviour_models import in_all_placements, picture, shown
from tests.support.models import Picture, Said


class Level(InputState):
    level: int = InputField(default=1, ge=0, le=255)


class Stage(ReactorPipeline):
    """Ten pictures a second of `level`, and a log of what was called for whom."""

    output: Picture
    state: Level
    fps = 10

    def load(self, config):
        self.log = []

    @connected
    async def request(self, client: ClientInfo):
        self.log.append(("connected", client.id))
        await self.send(Said("hello"))

    @disconnected
    def goodbye(self, client: ClientInfo):
        self.log.append(("disconnected", client.id))

    @event(dedupe=True)
    def aim(self, client: ClientInfo, x: int):
        self.log.append(("aim", client.id, x))

    @event
    async def tell(self, text: str):
        await self.send(Said(text))

    @event
    async def whisper(self, client: ClientInfo, text: str):
        await client.send(Said(text))

    def inference(self):
        try:
            while True:
                yield picture(self.state.level)
        finally:
            self.log.append("closed")


async def texts(client, count):
    return [(await client.next_message()).data["text"] for _ in range(count)]


async def outcome(client, name, **arguments):
    try:
        return await client.command(name, **arguments)
    except CommandError as error:
        return error.code


# ---- commands --------------------------------------------------------------------------------------------------------


@in_all_placements
async def test_a_viewers_dedupe_event_is_refused_and_merges_with_no_other(autojump_clock, placement):
    async with open_server(Stage, step_cost=1.0, **placement) as server, server.connect() as client:
        async with server.connect(role="viewer") as viewer, trio.open_nursery() as nursery:
            answers = {}

            async def aim(name, who, x):
                answers[name] = await outcome(who, "aim", x=x)

            await trio.sleep(0.25)  # a step runs
            for at, (name, who, x) in enumerate((("first", client, 1), ("viewer", viewer, 2), ("second", client, 3))):
                await trio.sleep_until(server.sessions[0].began + 0.3 + at / 10)
                nursery.start_soon(aim, name, who, x)
            await trio.sleep(0.1)
            assert answers == {"viewer": "not_allowed"}, "it is told at once"
        assert answers == {"first": None, "viewer": "not_allowed", "second": None}
        (joined, *aimed) = server.model.log
        assert aimed == [("aim", joined[1], 3)], "once, for the client that controls, and with what it said last"


@in_all_placements
async def test_the_dedupe_events_of_two_sessions_run_once_each_in_their_own_session(autojump_clock, placement):
    async with open_server(Stage, step_cost=1.0, **placement) as server:
        async with server.connect() as first, trio.open_nursery() as nursery:
            await trio.sleep(0.25)
            nursery.start_soon(lambda: outcome(first, "aim", x=1))
            await first.take(1)
        async with server.connect() as second:
            await second.command("aim", x=2)
        await server.wait_left(second)
        aims = [entry for entry in server.model.log if entry[0] == "aim"]
        ids = [entry[1] for entry in server.model.log if entry[0] == "connected"]
        assert aims == [("aim", ids[0], 1), ("aim", ids[1], 2)]


@in_all_placements
@pytest.mark.parametrize("command", [("aim", {"x": 1}), ("set_level", {"level": 9}), ("no_such_command", {})])
async def test_a_viewer_commands_nothing(autojump_clock, placement, command):
    name, arguments = command
    async with open_server(Stage, step_cost=0.01, **placement) as server, server.connect() as client:
        async with server.connect(role="viewer") as viewer:
            with pytest.raises(CommandError, match="a viewer watches; only the controlling client may command") as refused:
                await viewer.command(name, **arguments)
            assert refused.value.code == "not_allowed"
            await trio.sleep(1)
            assert shown(await client.take(12))[-1] == 1
            assert [entry[0] for entry in server.model.log] == ["connected"]


# ---- messages --------------------------------------------------------------------------------------------------------


@in_all_placements
async def test_client_send_reaches_one_client_and_self_send_reaches_all(autojump_clock, placement):
    async with open_server(Stage, step_cost=0.01, **placement) as server, server.connect() as client:
        await client.take(1)
        async with server.connect(role="viewer") as one, server.connect(role="viewer") as other:
            for name, text in (("tell", "a"), ("whisper", "b"), ("tell", "c"), ("whisper", "d"), ("tell", "e")):
                await client.command(name, text=text)
            assert await texts(client, 6) == ["hello", "a", "b", "c", "d", "e"]
            for viewer in (one, other):
                assert await texts(viewer, 3) == ["a", "c", "e"], "hello was said before it came"
                with trio.move_on_after(10) as waiting:
                    await viewer.next_message()
                assert waiting.cancelled_caught


# ---- leaving ---------------------------------------------------------------------------------------------------------


@in_all_placements
async def test_two_viewers_share_a_session_and_one_leaves(autojump_clock, placement):
    async with open_server(Stage, step_cost=0.01, **placement) as server, server.connect() as client:
        async with server.connect(role="viewer") as resumables:
            async with server.connect(role="viewer") as leaves, server.connect(role="viewer") as vanishes:
                assert {viewer.session_id for viewer in (resumables, leaves, vanishes)} == {client.session_id}
                for viewer in (leaves, vanishes):
                    await viewer.take(3)
                await vanishes.vanish()
            await trio.sleep(1)
            assert server.model.connected.is_set()
            assert [entry[0] for entry in server.model.log] == ["connected"], "no hook, and the same generator"
            (session,) = server.sessions
            assert len(session._attachments) == 2
            seen = [[frame.seq for frame in await one.take(20)] for one in (client, resumables)]
            assert seen[0] == list(range(20))
            assert np.diff(seen[1]).tolist() == [1] * 19
    assert_nothing_left(server)


@in_all_placements
async def test_a_session_without_its_viewers_goes_on_and_without_its_client_ends(autojump_clock, placement):
    async with open_server(Stage, step_cost=0.01, **placement) as server:
        async with server.connect() as client:
            async with server.connect(role="viewer") as viewer:
                await viewer.take(2)
                await client.take(2)
                await client.close()
                with pytest.raises(SessionEnded) as ended:
                    await viewer.take(1000)
                assert ended.value.reason == "client_left"
                assert viewer.ended == "client_left"
        await server.sessions[0].ended.wait()
        assert [entry if isinstance(entry, str) else entry[0] for entry in server.model.log] == [
            "connected", "disconnected", "closed",
        ]  # fmt: skip
        async with server.connect() as client:
            assert shown(await client.take(1)) == [1], "the next one is served"


# ---- coming late, and the end ----------------------------------------------------------------------------------------


@in_all_placements
@pytest.mark.parametrize("codec", ["raw", "jpeg"])
async def test_a_viewer_that_comes_late_has_a_picture_at_once(autojump_clock, placement, codec):
    class Slow(Stage):
        fps = 1

    async with open_server(Slow, step_cost=0.01, **placement) as server, server.connect() as client:
        frames = await client.take(6)
        await trio.sleep(0.5)  # the next is half a second away
        began = trio.current_time()
        async with server.connect(role="viewer", video=[codec]) as viewer:
            (first,) = await viewer.take(1)
            assert trio.current_time() == began, "no wait for the next frame"
            assert (first.seq, first.pts, first.keyframe) == (frames[-1].seq, frames[-1].pts, True)
            assert [frame.seq for frame in await viewer.take(2)] == [6, 7]


async def test_over_a_link_it_has_it_a_delay_later(autojump_clock):
    async with open_server(Stage, step_cost=0.01) as server, server.connect() as client:
        await client.take(6)
        await trio.sleep(0.05)
        began = trio.current_time()
        async with server.connect(role="viewer", link=Link(delay=0.04)) as viewer:
            (first,) = await viewer.take(1)
            assert trio.current_time() - began == pytest.approx(0.04)
            assert first.seq == 5


@in_all_placements
async def test_viewers_may_come_and_go_before_the_first_picture(autojump_clock, placement):
    async with open_server(Stage, step_cost=5.0, **placement) as server, server.connect() as client:
        async with server.connect(role="viewer"):
            await trio.sleep(1)
        async with server.connect(role="viewer") as viewer:
            both = await client.take(1), await viewer.take(1)
            assert [frames[0].seq for frames in both] == [0, 0]


@in_all_placements
async def test_a_slow_viewer_changes_nothing_for_another(autojump_clock, placement):
    async with open_server(Stage, step_cost=0.01, **placement) as server, server.connect() as client:
        async with server.connect(role="viewer") as slow, server.connect(role="viewer") as quick:
            await slow.take(1)
            slow.stall()
            times = []
            for _ in range(40):
                await quick.take(1)
                times.append(trio.current_time())
            assert np.diff(times[2:]) == pytest.approx(0.1, abs=1e-6)
            assert [frame.seq for frame in await client.take(30)] == list(range(30))


async def test_a_viewer_without_a_session_is_refused_with_that_reason(autojump_clock):
    async with open_server(Stage) as server:
        with pytest.raises(ConnectionRefused, match="no session runs that a viewer could watch"):
            async with server.connect(role="viewer"):
                pass


class Growing(ReactorPipeline):
    """Pictures that are larger every half second, and smaller again."""

    output: Picture
    fps = 10

    def inference(self):
        for number in range(1000):
            side = 16 << (number // 5 % 4)
            yield np.full((side, side, 3), number % 256, np.uint8)


@pytest.mark.parametrize("codec", ["raw", "jpeg"])
async def test_viewers_share_an_encoder_from_the_first_frame_on_whatever_the_size(autojump_clock, codec):
    async with open_server(Growing, step_cost=0.01) as server:
        async with (
            server.connect(video=[codec]) as first,
            server.connect(video=[codec], role="viewer", feedback=True) as second,
        ):
            renditions = server.served[0].renditions
            one, other = [], []
            for _ in range(45):
                one += await first.take(1)
                other += await second.take(1)
                assert len(set(renditions.placed.values())) == 1
            assert [frame.seq for frame in one] == [frame.seq for frame in other] == list(range(45))
            assert [frame.data.shape[0] for frame in one] == [16 << (number // 5 % 4) for number in range(45)]


# ---- a fault of the runtime at one client ------------------------------------------------------------------------------


def break_offers(monkeypatch, session, number):
    """From its third frame on this client cannot be shown any."""
    sender, frames = session._attachments[number], []

    def offer(bundle, pts):
        frames.append(pts)
        if len(frames) > 2:
            raise ZeroDivisionError("of the test")
        return type(sender).offer(sender, bundle, pts)

    monkeypatch.setattr(sender, "offer", offer)


@in_all_placements
async def test_a_viewer_that_cannot_be_shown_frames_leaves_and_the_session_goes_on(
    autojump_clock, placement, monkeypatch, caplog
):
    async with open_server(Stage, **placement) as server, server.connect() as client:
        (session,) = server.sessions
        async with server.connect(role="viewer") as good, server.connect(role="viewer") as bad:
            break_offers(monkeypatch, session, max(session._attachments))
            with pytest.raises(SessionEnded) as ended:
                await bad.take(20)
            assert (ended.value.reason, len(session._attachments)) == ("replica_failed", 2)
            assert shown(await good.take(3)) == shown(await client.take(3)) == [1, 1, 1]
    (record,) = [record for record in caplog.records if record.exc_info]
    assert f"session {session.id}: client 3 cannot be shown a frame: please report this" in record.getMessage()


@in_all_placements
async def test_a_controlling_client_that_cannot_be_shown_frames_ends_its_session_alone(
    autojump_clock, placement, monkeypatch, caplog
):
    async with open_server(Stage, **placement) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            (session,) = server.sessions
            break_offers(monkeypatch, session, session.controller)
            for each in (client, viewer):
                with pytest.raises(SessionEnded) as ended:
                    await each.take(20)
                assert ended.value.reason == "replica_failed"
        async with server.connect() as client:
            assert shown(await client.take(3)) == [1, 1, 1]
            assert [call[0] for call in server.model.log] == ["connected", "disconnected", "c", "connected"]
