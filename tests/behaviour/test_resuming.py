"""A client that is lost and comes back to its session."""

from __future__ import annotations

import json
import math
from urllib.parse import quote

import numpy as np
import pytest
import trio
import trio.testing

from reactor_trio.errors import ConnectionRefused
from reactor_trio.interface import Output, ReactorModel, ReactorPipeline, Video, VideoModel, event, get_ctx, model
from reactor_trio.testing import Link, open_server
from reactor_trio.testing.memory_connection import Stall
from tests.support.behaviour_models import in_all_placements, picture
from tests.support.models import Picture
from tests.support.resume_peers import Said, World, returner


def ns(peer):
    return [text["n"] for text in peer.texts]


@in_all_placements
async def test_a_client_that_comes_back_within_30_s_finds_the_same_session_and_state(autojump_clock, placement):
    async with open_server(World, step_cost=0.1, resume_window=30, **placement) as server:
        async with returner(server) as peer:
            first = peer.welcome
            assert (first["resume_window"], first["resumed"], first["received"], first["missed"]) == (30, False, 0, 0)
            await peer.command("add", value=1)
            await trio.sleep(1.05)
            await peer.vanish()
            await trio.sleep(29.9)
            await peer.connect()
            assert peer.welcome == first | {"resumed": True, "received": 1}
            await peer.command("add", value=2)
            await trio.sleep(0.5)
            assert server.model.added == [1, 2]
            assert peer.answers == [1, 2]
            assert ns(peer) == list(range(2, 6))
            assert len(server.sessions) == 1
            assert len(server.runtime.session_manager.away) == 0
            # After 30 s it is a fresh one.
            await peer.vanish()
            assert len(server.runtime.session_manager.away) == 1
            await trio.sleep(30.2)
            assert len(server.runtime.session_manager.away) == 0
            assert server.sessions[0].reason == "client_left"
            peer.last = 1
            await peer.connect(resume=first["resume_token"], after=5)
            fresh = peer.welcome
            assert not fresh["resumed"]
            assert fresh["session_id"] != first["session_id"]
            assert fresh["resume_token"] != first["resume_token"]
            assert (fresh["received"], fresh["missed"]) == (0, 0)


async def test_with_an_infinite_window_the_session_stays_until_the_server_stops(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=math.inf) as server, returner(server) as peer:
        assert peer.welcome["resume_token"]
        assert peer.welcome["resume_window"] is None
        await trio.sleep(0.25)
        await peer.vanish()
        await trio.sleep(80_000)
        assert not server.sessions[0].ended.is_set()
        await peer.connect()
        assert peer.welcome["resumed"]
        await peer.vanish()
        await server.drain()
        assert server.sessions[0].reason == "draining"
        assert server.model.log[-2:] == [(80_000.25, "disconnected"), (80_000.25, "closed")]


@in_all_placements
async def test_the_window_ends_at_its_exact_time_as_a_disconnect_does(autojump_clock, placement):
    async with open_server(World, step_cost=0.1, resume_window=5, **placement) as server, returner(server) as peer:
        await trio.sleep(0.25)
        await peer.vanish()
        lost = trio.current_time()
        await trio.sleep(4.999)
        assert not server.sessions[0].ended.is_set()
        assert server.model.connected.is_set()
        await trio.sleep(0.002)
        assert server.sessions[0].ended.is_set()
        assert server.model.log[-2:] == [(lost + 5, "disconnected"), (lost + 5, "closed")]
        assert [what for _, what in server.model.log].count("connected") == 1


async def test_the_world_stops_while_no_client_watches(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=30) as server, returner(server, "raw") as peer:
        await trio.sleep(0.35)
        await peer.vanish()
        steps = len(server.model.log)
        await trio.sleep(10)
        assert len(server.model.log) == steps, "no step was begun"
        before = len(peer.frames)
        await peer.connect()
        await trio.sleep(0.34)
        again = [(at, packet.seq, packet.payload[0], round(packet.pts_us / 1e6, 6)) for at, packet in peer.frames[before:]]
        # The last picture at once, then the one that was computed when the link broke, and so on at the old rate.
        assert again == [
            (10.35, 2, 2, 0.3), (10.35, 3, 3, 10.35), (10.45, 4, 4, 10.45), (10.55, 5, 5, 10.55), (10.65, 6, 6, 10.65),
        ]  # fmt: skip


async def test_an_idle_world_shows_its_last_picture_at_once(autojump_clock):
    class Still(ReactorPipeline):
        output: Picture

        def inference(self):
            yield picture(7)
            while True:
                yield None

    async with open_server(Still, step_cost=0.1, resume_window=30) as server, returner(server, "jpeg") as peer:
        await trio.sleep(1)
        await peer.vanish()
        await trio.sleep(5)
        await peer.connect(video="raw")
        await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        at, packet = peer.frames[-1]
        assert (at, packet.seq, bytes(packet.payload)) == (6.0, 0, bytes([7] * 12))
        assert peer.of("reactor.track")[-1]["codec"] == "raw", "not what came again of the other connection"


async def test_a_codec_between_frames_begins_with_a_keyframe(autojump_clock):
    pytest.importorskip("av")

    class Frame(Output):
        main_video: Video

    class Wide(ReactorPipeline):
        output: Frame
        fps = 10

        def inference(self):
            number = 0
            while True:
                yield np.full((64, 64, 3), number % 256, np.uint8)
                number += 1

    async with open_server(Wide, step_cost=0.1, resume_window=30) as server, returner(server, "h264") as peer:
        await trio.sleep(0.55)
        await peer.vanish()
        before = len(peer.frames)
        assert [packet.flags & 1 for _, packet in peer.frames] == [1] + [0] * (before - 1)
        await trio.sleep(5)
        await peer.connect()
        await trio.sleep(0.3)
        assert [packet.flags & 1 for _, packet in peer.frames[before:]] == [1] + [0] * (len(peer.frames) - before - 1)
        assert len(peer.frames) - before >= 3


async def test_viewers_keep_watching_and_then_the_world_goes_on(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=30) as server, returner(server) as peer:
        async with server.connect(role="viewer") as viewer:
            await viewer.take(2)
            await peer.vanish()
            assert len(await viewer.take(50)) == 50
        await server.settle()
        steps = len(server.model.log)
        await trio.sleep(5)
        assert len(server.model.log) - steps <= 1, "the last viewer has left"
        await peer.connect()
        await trio.sleep(1)
        assert len(server.model.log) > steps + 5


@pytest.mark.parametrize("drop", [False, True])
async def test_a_run_loop_waits_in_emit(autojump_clock, drop):
    class Loop(ReactorModel):
        output: Picture
        fps = 10
        emitted = 0

        async def run(self):
            while True:
                await self.connected.wait()
                await self.emit(picture(1), drop=drop)
                self.emitted += 1
                await trio.sleep(0.1 if drop else 0)

        @event
        def look(self) -> int:
            return self.emitted

    async with open_server(Loop, resume_window=30) as server, returner(server) as peer:
        await trio.sleep(1)
        await peer.vanish()
        count = server.model.emitted
        await trio.sleep(10)
        assert server.model.emitted == count, "it waits with its frame, and does not drop it"
        await peer.connect()
        await trio.sleep(1)
        assert server.model.emitted - count == (11 if drop else 14), "ten a second, and what filled the empty buffer"


async def test_a_blocking_model_waits_in_emit_block_and_its_rate_does_not_suffer(autojump_clock):
    @model(name="blocking")
    class Blocks(VideoModel):
        blocks = 0

        def start_session(self):
            context = get_ctx()
            while not context.should_stop():
                context.emit_block(picture(1))
                self.blocks += 1

    async with open_server(Blocks, step_cost=0.1, resume_window=30) as server, returner(server, "raw") as peer:
        await trio.sleep(2)
        await peer.vanish()
        count = server.model.blocks
        await trio.sleep(10)
        assert server.model.blocks - count <= 1
        await peer.connect()
        before = len(peer.frames)
        await trio.sleep(2)
        times = [at for at, _ in peer.frames[before + 1 :]]
        assert np.diff(times).max() < 0.15, "the time that it stood still is not its own"


async def test_a_paused_time_is_no_slowness(autojump_clock):
    """The rate, the margin and the tempo after the window are those from before."""
    async with open_server(World, step_cost=0.05, resume_window=30) as server, returner(server, "raw") as peer:
        await trio.sleep(3)
        for pause in (0.02, 0.51, 7.77):
            await peer.vanish()
            await trio.sleep(pause)
            before = len(peer.frames)
            await peer.connect()
            await trio.sleep(1.5)
            times = [at for at, _ in peer.frames[before + 2 :]]
            assert np.allclose(np.diff(times), 0.1, atol=1e-5)
        assert [packet.seq for _, packet in peer.frames] == sorted(packet.seq for _, packet in peer.frames)


@pytest.mark.parametrize("code", [1000, 1005])
async def test_a_client_that_closes_politely_cannot_resume(autojump_clock, code):
    async with open_server(World, step_cost=0.1, resume_window=30) as server, returner(server) as peer:
        await trio.sleep(0.55)
        await peer.leave(code)
        await trio.sleep(0.1)
        assert server.sessions[0].ended.is_set()
        assert server.sessions[0].reason == "client_left"


async def test_a_page_that_navigates_away_may_resume(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=30) as server, returner(server) as peer:
        await peer.leave(1001)
        await trio.sleep(20)
        await peer.connect()
        assert peer.welcome["resumed"]


async def test_a_flood_is_not_forgiven(autojump_clock):
    limits = {"unanswered_commands": 4, "commands_per_second": 100}
    async with open_server(World, step_cost=1.0, resume_window=30, limits=limits) as server, returner(server) as peer:
        await trio.sleep(0.5)
        for value in range(6):
            await peer.command("add", value=value)
        await trio.sleep(5)
        assert peer.byes == ["flood"]
        assert server.sessions[0].reason == "flood"


async def test_a_client_that_reads_nothing_is_too_slow_and_comes_back_to_all_it_missed(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=30, limits={"stall": 2}) as server:
        async with returner(server) as peer:
            await peer.vanish()
            link = Link(bits_per_second=1_000_000)
            await peer.connect(link)
            await peer.command("chatter", count=200, size=2000)
            await trio.sleep(0.5)
            link.stall()  # in the middle of them
            await trio.sleep(3)
            assert len(server.runtime.session_manager.away) == 1
            heard = len(peer.of("said"))
            assert 20 < heard < 40
            await peer.connect()
            await trio.sleep(0.1)
            assert [said["value"] for said in peer.of("said")] == list(range(200))
            assert peer.answers == [1]


async def test_more_messages_than_a_connection_may_queue_are_not_lost(autojump_clock):
    """Its connection is closed as too slow; what it was told meanwhile is all there."""
    limits = {"unanswered_commands": 100}
    async with open_server(World, step_cost=0.1, resume_window=30, limits=limits) as server, returner(server) as peer:
        await peer.vanish()
        link = Link(bits_per_second=1_000_000)
        await peer.connect(link)
        link._reader.stall()
        await peer.command("chatter", count=300, size=200)
        await trio.sleep(5)
        assert len(server.runtime.session_manager.away) == 1
        await peer.connect()
        await trio.sleep(0.1)
        assert [said["value"] for said in peer.of("said")] == list(range(300))
        assert peer.answers == [1]


async def test_a_half_open_connection_is_ended_and_what_it_still_says_is_not_heard(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=30) as server, returner(server) as old:
        await old.command("add", value=1)
        await trio.sleep(0.5)
        async with returner(server, resume=old.welcome["resume_token"], after=old.last) as new:
            assert (new.welcome["resumed"], new.welcome["received"]) == (True, 1)
            await old.command("add", value=99)
            await trio.sleep(0.5)
            assert old.byes == ["taken_over"]
            assert old.gone.is_set()
            new.commands = list(old.commands)
            await new.command("add", value=2)
            await trio.sleep(0.5)
            assert server.model.added == [1, 2]
            assert ns(new) == [old.last + 1, old.last + 2], "the goodbye of a connection is no message of the session"
            assert len(server.sessions) == 1


async def test_what_comes_on_a_connection_that_was_given_up_is_not_heard(autojump_clock):
    """It takes no goodbye for a while, so it is still there; what it says now will be said again on the new one."""
    async with open_server(World, step_cost=0.1, resume_window=30) as server, returner(server) as old:
        await old.vanish()
        link = Link(bits_per_second=100_000)
        await old.connect(link)
        await old.command("chatter", count=50, size=2000)
        await trio.sleep(0.2)
        link._reader.stall()
        async with returner(server, resume=old.welcome["resume_token"], after=old.last) as new:
            await old.command("add", value=99)
            await trio.sleep(0.5)
            assert server.model.added == []
            await trio.sleep(1)
            assert old.gone.is_set()
            assert [text["n"] for text in new.texts] == list(range(old.last + 1, 53))


async def test_the_tracks_of_this_connection_follow_those_that_come_again(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=30) as server, returner(server, "jpeg") as peer:
        async with server.connect(role="viewer", video=["raw"]) as viewer:
            await viewer.take(3)
            await peer.vanish()
            peer.last = 1
            await peer.connect(video="raw")
            await viewer.take(1)
            assert [track["codec"] for track in peer.of("reactor.track")] == ["jpeg", "jpeg", "raw"]


async def test_of_two_that_race_with_one_token_the_later_one_has_it(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=30) as server, returner(server) as lost:
        await trio.sleep(0.25)
        await lost.vanish()
        token = lost.welcome["resume_token"]
        async with trio.open_nursery() as nursery, returner(server, resume=token) as one:
            async with returner(server, resume=token) as other:
                for peer in (one, other):
                    nursery.start_soon(lambda peer=peer: peer.command("add", value=5))
                await trio.sleep(1)
                assert one.byes == ["taken_over"]
                assert other.byes == []
                assert server.model.added == [5]


async def test_an_unknown_token_begins_a_fresh_session_and_a_malformed_number_is_refused(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=30) as server:
        async with returner(server, resume="no-such-token", after=12) as peer:
            assert not peer.welcome["resumed"]
        for after in ("-1", "x", "1.5", "9" * 16, "١"):
            with pytest.raises(ConnectionRefused) as refused:
                await server._open_memory(f"ws://127.0.0.1/ws?video=none&resume=y&after={quote(after)}", Stall())
            assert refused.value.status == 400
    async with open_server(World, step_cost=0.1) as server, returner(server, resume="any", after=3) as peer:
        assert peer.welcome["resume_token"] is None
        assert not peer.welcome["resumed"]


async def test_the_queue_waits_behind_a_session_whose_client_may_resume(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=5) as server, returner(server) as lost:
        await trio.sleep(0.25)
        await lost.vanish()
        at = trio.current_time()
        health = json.loads(server.http("/health").body)
        assert (health["sessions"], health["away"], health["clients"]) == (1, 1, 0)
        places = []
        async with server.connect(on_queued=lambda *place: places.append(place)):
            assert trio.current_time() == at + 5
            assert places == [(1, 1)]


async def test_draining_ends_a_session_without_its_client_at_once(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=60, drain_notice=20) as server, returner(server) as lost:
        await trio.sleep(0.25)
        await lost.vanish()
        began = trio.current_time()
        await server.drain()
        assert trio.current_time() == pytest.approx(began + 0.05), "its step has ended"
        assert server.sessions[0].reason == "draining"


async def test_a_client_that_is_lost_while_the_server_goes_down_is_not_waited_for(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=60, drain_notice=20) as server, returner(server) as peer:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.drain)
            await trio.sleep(3)
            await peer.vanish()
        assert trio.current_time() - began < 3.2
        assert server.sessions[0].reason == "draining"


async def test_a_client_whose_access_is_revoked_while_disconnected_cannot_resume(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=60) as server, returner(server) as peer:
        await peer.vanish()
        assert server.runtime.revoke(peer.welcome["session_id"])
        await trio.sleep(1)
        assert server.sessions[0].reason == "revoked"
        peer.last = 1
        await peer.connect()
        assert not peer.welcome["resumed"]


async def test_a_session_whose_client_is_disconnected_may_be_taken_over(autojump_clock):
    async with open_server(World, step_cost=0.1, resume_window=60, takeover="anyone") as server, returner(server) as lost:
        await lost.vanish()
        async with server.connect():
            assert server.sessions[0].reason == "taken_over"
        lost.last = 1
        await lost.connect()
        assert not lost.welcome["resumed"]


async def test_the_limits_of_a_session_go_on_while_its_client_is_away(autojump_clock):
    limits = {"session_length": 10, "end_warning": 2}
    async with open_server(World, step_cost=0.1, resume_window=60, limits=limits) as server, returner(server) as peer:
        await trio.sleep(0.999)
        await peer.vanish()
        await trio.sleep(7.5)
        await peer.connect()
        await trio.sleep(0.1)
        assert [ending["reason"] for ending in peer.of("reactor.ending")] == ["expired", "expired"]
        assert peer.of("reactor.ending")[-1]["seconds"] == pytest.approx(1.5, abs=0.01)
        await peer.vanish()
        await trio.sleep(1.45)
        assert server.sessions[0].reason == "expired"


class Talking(ReactorPipeline):
    """Says something with each picture."""

    output: Picture
    fps = 10
    size = 0

    async def inference(self):
        number = 0
        while True:
            await self.send(Said(value=number, text="x" * self.size))
            yield picture(number % 256)
            number += 1


@pytest.mark.parametrize(("limit", "size", "kept"), [({"resume_messages": 5}, 0, 5), ({"resume_bytes": 4096}, 1000, 3)])
async def test_kept_messages_are_bounded_and_lost_ones_are_reported_and_counted(autojump_clock, limit, size, kept):
    async with open_server(Talking, step_cost=0.1, resume_window=60, limits=limit) as server, returner(server) as peer:
        server.model.size = size
        async with server.connect(role="viewer"):  # for whom the world goes on
            await trio.sleep(0.55)
            await peer.vanish()
            heard = len(peer.of("said"))
            await trio.sleep(2)
            last = peer.last
            await peer.connect()
            await trio.lowlevel.checkpoint()
        assert peer.welcome["missed"] == 20 - kept
        assert peer.texts[heard]["n"] == last + 1 + 20 - kept
        await trio.sleep(0.5)
        values = [said["value"] for said in peer.of("said")]
        assert values == [*range(heard), *range(heard + 20 - kept, values[-1] + 1)]
        figures = server.runtime.metrics.exposition().decode()
        assert f"reactor_messages_missed_total {20 - kept}.0" in figures
        assert "reactor_sessions_resumed_total 1.0" in figures


async def test_with_the_window_off_nothing_is_kept(autojump_clock):
    async with open_server(World, step_cost=0.1) as server, returner(server) as peer:
        await peer.command("chatter", count=10)
        await trio.sleep(1)
        (stay,) = server.runtime.session_manager.running
        assert stay.detached.message_log.after(0) == []
        await peer.vanish()
        assert server.sessions[0].reason == "client_left"
