"""Blocking sessions in virtual time, and the promises of `get_ctx()` about threads."""

from __future__ import annotations

import threading
import time
from collections import Counter

import numpy as np
import pytest
import trio

from reactor_trio import (
    AudioIn,
    AudioOut,
    CommandError,
    DeclarationError,
    InputField,
    OutputError,
    TrackPayload,
    VideoIn,
    VideoModel,
    VideoOut,
    command,
    get_ctx,
    model,
)
from reactor_trio.errors import ModelFailed, SessionEnded
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.kinds import blocking_context
from reactor_trio.testing import open_server, open_session
from tests.support.behaviour_models import in_all_placements, picture, raw_peer, shown
from tests.support.resume_peers import returner

IN_MEMORY_OR_FRAMED = pytest.mark.parametrize("placement", [{}, {"websocket": True}], ids=["memory", "websocket"])


class Script(VideoModel):
    """Plays the script of its test in each session."""

    def __init__(self, config):
        self.script = config["script"]
        self.value = 0
        self.threads = [threading.current_thread()]

    @command("set_value", description="the picture's value")
    def set_value(self, value: int):
        self.value = value
        self.threads.append(threading.current_thread())
        return {"was": value}

    @command("fail")
    def fail(self, own: bool):
        if own:
            raise CommandError("no_such_thing", "there is none")
        raise ValueError("the author's mistake")

    def start_session(self):
        self.threads.append(threading.current_thread())
        self.script(self)


def block(*values):
    return np.stack([picture(value) for value in values])


def wait_for_stop():
    while not get_ctx().should_stop():
        time.sleep(0.1)


def times(frames):
    return [frame.pts for frame in frames]


def exactly(values):
    return pytest.approx(values, abs=2e-6)  # the wire counts microseconds


def playing(script, **options):
    return open_session(Script, config={"script": script}, **options)


# ---- frames ----------------------------------------------------------------------------------------------------------


@IN_MEMORY_OR_FRAMED
async def test_a_frame_and_a_block_arrive_in_order(autojump_clock, placement):
    def script(self):
        get_ctx().emit_block(picture(1))
        get_ctx().emit_block(block(2, 3, 4))
        wait_for_stop()

    async with playing(script, **placement) as client:
        frames = await client.take(4)
        assert shown(frames) == [1, 2, 3, 4]
        assert times(frames) == exactly([0, 1 / 16, 2 / 16, 3 / 16])  # nothing is known of the rate: 16 a second


async def test_none_is_one_black_frame_after_the_queued_ones(autojump_clock):
    def script(self):
        get_ctx().emit_block(None)
        get_ctx().emit_block(block(1, 2))
        get_ctx().emit_block(None)
        get_ctx().emit_block(block(3))
        wait_for_stop()

    async with playing(script) as client:
        frames = await client.take(5)
        assert shown(frames) == [0, 1, 2, 0, 3]
        assert [frame.data.shape for frame in frames] == [(720, 1280, 3), *[(2, 2, 3)] * 4]


async def test_the_last_frame_stays_on_screen(autojump_clock):
    def script(self):
        get_ctx().emit_block(block(1, 2))
        wait_for_stop()

    async with open_server(Script, config={"script": script}) as server, server.connect() as client:
        assert shown(await client.take(2)) == [1, 2]
        with trio.move_on_after(100) as passed:
            await client.take(1, within=200)
        assert passed.cancelled_caught
        async with server.connect(role="viewer") as viewer:
            assert shown(await viewer.take(1)) == [2]


@pytest.mark.parametrize("wrong", [np.zeros((2, 2), np.uint8), np.zeros((1, 1, 2, 2, 3), np.uint8)])
async def test_an_array_of_another_dimension_is_a_value_error(autojump_clock, wrong):
    raised = []

    def script(self):
        with pytest.raises(ValueError, match=r"emit_block: expected uint8 \(H, W, 3\) or \(N, H, W, 3\), got uint8") as info:
            get_ctx().emit_block(wrong)
        raised.append(info.value)
        get_ctx().emit_block(picture(1))
        wait_for_stop()

    async with playing(script) as client:
        await client.take(1)
        assert len(raised) == 1


async def test_a_wrong_dtype_ends_the_session_with_the_authors_line(autojump_clock):
    def script(self):
        get_ctx().emit_block(picture(1).astype(np.float32))

    with pytest.raises(OutputError, match="float32"):
        async with playing(script) as client:
            await client.take(1)


# ---- rate ------------------------------------------------------------------------------------------------------------


def blocks_with_a_pause(pause):
    def script(self):
        for _ in range(3):
            time.sleep(1.0)
            get_ctx().emit_block(block(*[1] * 12))
        pause()
        get_ctx().emit_block(block(*[2] * 12))
        wait_for_stop()

    return script


async def test_blocks_of_twelve_each_second_are_twelve_a_second(autojump_clock):
    async with playing(blocks_with_a_pause(lambda: time.sleep(1.0))) as client:
        frames = await client.take(48)
        assert times(frames[:12]) == exactly([1 + n / 16 for n in range(12)])
        assert times(frames[12:]) == exactly([2 + n / 12 for n in range(36)])


async def test_a_pause_without_notice_slows_the_stream(autojump_clock):
    async with playing(blocks_with_a_pause(lambda: time.sleep(10.0))) as client:
        frames = await client.take(48)
        assert times(frames[36:]) == exactly([13 + n / 1.2 for n in range(12)])


async def test_an_announced_pause_does_not_slow_the_stream(autojump_clock):
    def pause():
        get_ctx().disable_monitoring()
        time.sleep(9.0)
        get_ctx().enable_monitoring()
        time.sleep(1.0)

    async with playing(blocks_with_a_pause(pause)) as client:
        frames = await client.take(48)
        assert times(frames[36:]) == exactly([13 + n / 12 for n in range(12)])


async def test_disabling_the_monitoring_repeatedly_is_harmless(autojump_clock):
    def pause():
        for _ in range(100):
            get_ctx().disable_monitoring()
            time.sleep(0.09)
        for _ in range(3):
            get_ctx().enable_monitoring()
        time.sleep(1.0)

    async with playing(blocks_with_a_pause(pause)) as client:
        frames = await client.take(48)
        assert np.diff(times(frames[36:])) == exactly(1 / 12)


async def test_a_backlog_raises_the_rate_until_it_is_gone(autojump_clock):
    def script(self):
        get_ctx().emit_block(block(*[1] * 12))
        time.sleep(0.5)  # eight are shown, the ninth is on screen, three wait
        get_ctx().emit_block(block(*[2] * 12))
        wait_for_stop()

    async with playing(script) as client:
        frames = await client.take(24)
        assert np.diff(times(frames[10:])) == exactly(1 / ((12 + 3 - 1) / 0.5))


@pytest.mark.parametrize(("seconds", "fps"), [(0.01, 60), (30.0, 1)])
async def test_the_rate_is_clamped(autojump_clock, seconds, fps):
    def script(self):
        for _ in range(4):
            get_ctx().emit_block(block(1, 1))
            time.sleep(seconds)
        wait_for_stop()

    async with playing(script) as client:
        frames = await client.take(8)
        assert np.diff(times(frames[-2:])) == exactly([1 / fps])


async def test_a_rate_that_a_track_fixes_is_not_measured(autojump_clock):
    class Fixed(Script):
        main_video = VideoOut(rate=20)

    async with open_session(Fixed, config={"script": blocks_with_a_pause(lambda: time.sleep(10.0))}) as client:
        frames = await client.take(48)
        assert np.diff(times(frames[36:])) == exactly(1 / 20)


# ---- commands and messages -------------------------------------------------------------------------------------------


@IN_MEMORY_OR_FRAMED
async def test_a_sent_dict_arrives_unchanged_and_before_later_frames(autojump_clock, placement):
    def script(self):
        get_ctx().send({"type": "progress", "data": {"frames_generated": 12, "by": np.float32(0.5)}})
        get_ctx().send({"level": 3})
        with pytest.raises(TypeError, match="send"):
            get_ctx().send({"what": object()})
        with pytest.raises(ValueError, match=r"reactor\.bye"):
            get_ctx().send({"type": "reactor.bye", "data": {}})
        get_ctx().emit_block(picture(1))
        wait_for_stop()

    async with playing(script, **placement) as client:
        await client.take(1)
        messages = [await client.next_message() for _ in range(2)]
        assert [(m.type, m.data) for m in messages] == [
            ("progress", {"frames_generated": 12, "by": 0.5}), ("message", {"level": 3}),
        ]  # fmt: skip


async def test_a_command_in_mid_block_changes_the_next_block(autojump_clock):
    def script(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(block(*[self.value] * 4))

    async with playing(script, step_cost=1.0) as client:
        await trio.sleep(0.5)
        await client.command("set_value", value=7)
        assert trio.current_time() == 0.5  # a handler does not wait for the block
        frames = await client.take(8)
        assert shown(frames) == [0] * 4 + [7] * 4
        assert [frame.command_id for frame in frames] == [None] * 4 + [1] * 4
        assert [frame.step for frame in frames] == [0] * 4 + [1] * 4


async def test_sessions_run_on_one_thread_and_handlers_on_another(autojump_clock):
    def script(self):
        get_ctx().emit_block(picture(1))
        wait_for_stop()

    async with open_server(Script, config={"script": script}) as server:
        for _ in range(2):
            async with server.connect() as client:
                await client.take(1)
                assert await client.command("set_value", value=3) == {"was": 3}
        made, first, handler, second, again = server.model.threads
        assert made is first is second
        assert handler is again is not made


async def test_a_handlers_errors_are_answered_and_the_session_goes_on(autojump_clock):
    def script(self):
        get_ctx().emit_block(picture(1))
        wait_for_stop()

    async with playing(script, debug=True) as client:
        for own, message in ((True, "there is none"), (False, "ValueError: the author's mistake")):
            with pytest.raises(CommandError, match=message):
                await client.command("fail", own=own)
        with pytest.raises(CommandError, match=r"Expected int, got str - at \$\.value"):
            await client.command("set_value", value="3")
        assert await client.command("set_value", value=4) == {"was": 4}


async def test_a_handler_may_emit_and_may_wait_for_the_session_code(autojump_clock):
    class Both(VideoModel):
        def __init__(self):
            self.asked, self.answered = threading.Event(), threading.Event()

        @command("ask")
        def ask(self):
            self.asked.set()
            self.answered.wait()
            get_ctx().emit_block(picture(5))

        def start_session(self):
            get_ctx().emit_block(picture(1))
            self.asked.wait()
            self.answered.set()
            wait_for_stop()

    async with open_session(Both) as client:
        await client.command("ask")
        assert shown(await client.take(2)) == [1, 5]


async def test_a_handler_that_emits_in_mid_block_is_answered_with_the_block_after_that(autojump_clock):
    class Flash(VideoModel):
        @command("flash")
        def flash(self):
            get_ctx().emit_block(picture(5))

        def start_session(self):
            get_ctx().emit_block(picture(1))
            wait_for_stop()  # in the block after the flash, so only the next one sees the command

    async with open_server(Flash) as server, returner(server, "raw") as peer:
        await trio.sleep(0.25)
        await peer.command("flash")
        await trio.sleep(0.25)
        assert [packet.step for _, packet in peer.frames] == [0, 1]
        assert peer.of("reactor.ack") == [{"step": 3, "reply": None}]


async def test_a_handler_that_emits_may_wait_for_room(autojump_clock):
    class Prefills(VideoModel):
        @command("prefill")
        def prefill(self):
            for _ in range(8):
                get_ctx().emit_block(picture(9))

        def start_session(self):
            while not get_ctx().should_stop():
                get_ctx().emit_block(picture(1))
                time.sleep(0.05)

    async with open_session(Prefills) as client:
        await client.take(2)
        await client.command("prefill")
        with trio.fail_after(60):
            while shown(await client.take(1)) == [1]:
                pass
            assert sum(shown(await client.take(40))) > 40


async def test_a_handler_that_emits_while_the_session_code_waits_for_room_has_a_step_of_its_own(autojump_clock):
    class Flash(VideoModel):
        @command("flash")
        def flash(self):
            get_ctx().emit_block(block(*[5] * 30))  # a large block, for which there is room at once

        def start_session(self):
            for number in range(5):
                get_ctx().emit_block(block(*[10 * number] * 12))  # the third waits for room
            wait_for_stop()

    async with open_server(Flash, max_fps=12) as server, returner(server, "raw") as peer:
        await trio.sleep(0.5)
        await peer.command("flash")
        await trio.sleep(10)
        frames = Counter((packet.step, packet.payload[0]) for _, packet in peer.frames)
        assert frames == dict.fromkeys([(0, 0), (1, 10), (2, 20), (4, 30), (5, 40)], 12) | {(3, 5): 30}
        assert peer.of("reactor.ack")[0]["step"] == 4  # the session code begins it after the command


@pytest.mark.parametrize(
    ("act", "at", "after", "reported"),
    [
        (lambda: get_ctx().emit_block(block(*[5] * 24)), 1.5, 2.4, 1),  # it waits for room, too, and for longer, to 4 s
        (lambda: get_ctx().enable_monitoring(), 0.1, 1.8, 1),
        (lambda: get_ctx().disable_monitoring(), 0.1, 1.8, 0),
    ],
    ids=["emits", "enables", "disables"],
)
async def test_what_a_handler_does_while_the_session_code_waits_for_room_leaves_the_watch_of_that_alone(
    autojump_clock, caplog, act, at, after, reported
):
    class Acts(VideoModel):
        @command("act")
        def act(self):
            act()

        def start_session(self):
            for _ in range(3):
                get_ctx().emit_block(block(*[1] * 24))  # the third waits for room, for 2 s
            time.sleep(20)

    async with open_server(Acts, max_fps=12, stuck_after=after) as server, server.connect() as client:
        await trio.sleep(at)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.command, "act")
            await trio.sleep(1.95 - at)
            assert "has emitted nothing" not in caplog.text
            await trio.sleep(10)
        assert caplog.text.count(f"start_session() has emitted nothing for {after} s") == reported
        await trio.sleep(15)


# ---- the end of a session --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaving", ["close", "vanish"])
async def test_should_stop_turns_true_when_the_client_leaves_and_stays_true(autojump_clock, leaving):
    seen = []

    def script(self):
        ctx = get_ctx()
        before = ctx.should_stop()
        get_ctx().emit_block(picture(1))
        began = time.monotonic()
        while not ctx.should_stop():
            time.sleep(0.1)
        seen.append((before, ctx.should_stop(), ctx, began))

    async with open_server(Script, config={"script": script}) as server:
        async with server.connect() as client:
            await client.take(1)
            await trio.sleep(5)
            await getattr(client, leaving)()
            await server.wait_left(client)
            assert trio.current_time() == pytest.approx(5.1)
        async with server.connect() as client:
            await client.take(1)
            (first,) = seen
            assert first[:2] == (False, True)
            assert first[2].should_stop()  # the past session's, although another one runs
            await trio.to_thread.run_sync(first[2].emit_block, picture(9))
            await trio.to_thread.run_sync(first[2].send, {"late": True})
            with trio.move_on_after(1):
                await client.take(1)
                pytest.fail("a frame of a past session was shown")


async def test_a_session_that_waits_for_input_makes_room_for_the_next(autojump_clock):
    def script(self):
        while not self.value:
            if get_ctx().should_stop():
                return
            time.sleep(0.1)
        get_ctx().emit_block(picture(self.value))
        self.value = 0
        wait_for_stop()

    async with open_server(Script, config={"script": script}) as server:
        async with server.connect():
            await trio.sleep(1)
        async with server.connect() as client:
            await client.command("set_value", value=8)
            assert shown(await client.take(1)) == [8]


async def test_the_model_is_made_once_and_the_second_user_sees_what_the_first_saw(autojump_clock):
    made = []

    class Warm(VideoModel):
        def __init__(self, config):
            made.append(config.weights.layers[0].width)

        def start_session(self):
            for value in range(5):
                get_ctx().emit_block(picture(value))
            wait_for_stop()

    outputs = []
    async with open_server(Warm, config={"weights": {"layers": [{"width": 3}]}}) as server:
        for _ in range(2):
            async with server.connect() as client:
                outputs.append([(frame.pts, frame.data.tolist()) for frame in await client.take(5)])
    assert outputs[0] == outputs[1]
    assert made == [3]


async def test_a_session_that_raises_ends_and_the_next_is_served(autojump_clock, caplog):
    def script(self):
        get_ctx().emit_block(picture(1))
        if not self.value:
            self.value = 1
            raise ValueError("the author's mistake")
        wait_for_stop()

    async with open_server(Script, config={"script": script}) as server:
        async with server.connect() as client:
            with pytest.raises(ValueError, match="the author's mistake"):
                await client.take(2)
        (record,) = [r for r in caplog.records if r.levelname == "ERROR"]
        assert "the model raised" in record.message
        async with server.connect() as client:
            await client.take(1)


async def test_a_session_that_returns_is_done(autojump_clock):
    def script(self):
        get_ctx().emit_block(block(1, 2))

    async with open_server(Script, config={"script": script}) as server:
        async with server.connect() as client:
            with pytest.raises(SessionEnded) as ended:
                while True:
                    await client.take(1)
            assert ended.value.reason == "done"
        async with server.connect():
            pass


async def test_a_session_that_does_not_stop_is_reported_and_the_next_client_learns_why_it_waits(autojump_clock, caplog):
    def script(self):
        get_ctx().emit_block(picture(1))
        time.sleep(60)  # as a loop that never asks should_stop()

    async with open_server(Script, config={"script": script}, stuck_after=5.0) as server:
        async with server.connect() as first:
            await first.take(1)
        async with raw_peer(server) as early:
            place = {"type": "reactor.queued", "data": {"position": 1, "total": 1, "wait": None, "heartbeat": 10}}
            assert await early.hear() == place
            why = "a step of Script still computes for session "
            assert (await early.hear())["data"]["reason"].startswith(why)
            assert trio.current_time() == pytest.approx(5)
        assert "still computes 5 s after the session ended" in caplog.text
        assert "time.sleep(60)" in caplog.text
        assert server.http("/health").status == 503
        async with server.connect() as second:
            await second.take(1)
            assert trio.current_time() == pytest.approx(60)
        await trio.sleep(60)


# ---- get_ctx ---------------------------------------------------------------------------------------------------------


async def test_there_is_no_context_outside_a_session(autojump_clock):
    def outside():
        with pytest.raises(RuntimeError, match=r"get_ctx\(\)"):
            get_ctx()

    def script(self):
        get_ctx().emit_block(picture(1))
        wait_for_stop()

    outside()
    async with open_server(Script, config={"script": script}) as server:
        outside()
        async with server.connect() as client:
            await client.take(1)
            outside()  # the test's own thread is older than the session
        outside()


async def test_get_ctx_works_from_any_function_and_thread_of_the_session_and_from_none_of_a_past_one(autojump_clock):
    results, go, leftovers = [], threading.Event(), []

    def deep():
        get_ctx().emit_block(picture(2))

    def left_over(number):
        go.wait()
        try:
            results.append((number, get_ctx()))
        except RuntimeError as error:
            results.append((number, str(error)))

    def script(self):
        thread = threading.Thread(target=deep)
        thread.start()
        thread.join()
        deep()
        leftovers.append(threading.Thread(target=left_over, args=(len(leftovers),)))
        leftovers[-1].start()
        if len(leftovers) == 2:
            go.set()
            for leftover in leftovers:
                leftover.join()
        wait_for_stop()

    async with open_server(Script, config={"script": script}) as server:
        for _ in range(2):
            async with server.connect() as client:
                assert shown(await client.take(2)) == [2, 2]
    found = dict(results)
    assert "no session runs in this thread" in found[0]  # a thread of the first session, asking during the second
    assert not isinstance(found[1], str)


# ---- tracks and declarations -----------------------------------------------------------------------------------------


async def test_tracks_that_share_a_bucket_are_shown_together(autojump_clock):
    class Two(Script):
        left = VideoOut()
        right = VideoOut()

    def script(self):
        for value in (1, 2):
            get_ctx().get_track("left").emit(picture(value))
        with pytest.raises(RuntimeError, match="no track 'up'; it has: left, right"):
            get_ctx().get_track("up")
        with pytest.raises(ValueError, match="left, right"):
            get_ctx().emit_block(picture(1))
        get_ctx().get_track("right").emit(picture(12), bucket=1)
        get_ctx().get_track("right").emit(picture(11), bucket=0)
        wait_for_stop()

    async with open_session(Two, config={"script": script}) as client:
        both = [(await client.take(2, "left")), (await client.take(2, "right"))]
        assert [shown(frames) for frames in both] == [[2, 1], [12, 11]]  # complete first, shown first
        assert times(both[0]) == times(both[1])


async def test_a_frame_whose_place_in_a_bucket_another_one_takes_is_counted(autojump_clock):
    class Two(Script):
        left = VideoOut()
        right = VideoOut()

    def script(self):
        for value in (1, 2):
            get_ctx().get_track("left").emit(picture(value), bucket=7)
        get_ctx().get_track("right").emit(picture(9), bucket=7)
        wait_for_stop()

    async with open_server(Two, config={"script": script}) as server, server.connect() as client:
        assert shown(await client.take(1, "left")) == [2]
        assert b'reactor_frames_dropped_total{place="model",reason="incomplete"} 1.0' in server.runtime.metrics.exposition()


class Pair(Script):
    left = VideoOut()
    right = VideoOut()


async def test_a_frame_for_a_bucket_is_copied_when_it_is_emitted(autojump_clock):
    def script(self):
        left, right, buffer, caption = get_ctx().get_track("left"), get_ctx().get_track("right"), picture(1), {"n": 1}
        left.emit(TrackPayload(buffer, caption))
        buffer[...], caption["n"] = 9, 9
        right.emit(picture(2))
        wait_for_stop()

    async with open_session(Pair, config={"script": script}) as client:
        (left,) = await client.take(1, "left")
        assert (shown([left]), left.meta["metadata"]) == ([1], {"n": 1})


async def test_a_mistaken_frame_for_a_bucket_is_refused_in_the_line_that_emits_it(autojump_clock):
    """What was emitted before on the other track stays, so the next frame completes it."""

    def script(self):
        left, right = get_ctx().get_track("left"), get_ctx().get_track("right")
        right.emit(picture(2))
        with pytest.raises(OutputError, match=r"track left: expected uint8 .* \(at .*test_blocking.py:\d+\)"):
            left.emit(np.zeros((2, 2, 3)))
        left.emit(picture(1))
        left.emit(block(1, 2))
        with pytest.raises(OutputError, match="left has 2 and right has 3"):
            right.emit(block(1, 2, 3))
        wait_for_stop()

    async with open_server(Pair, config={"script": script}) as server, server.connect() as client:
        assert shown([*await client.take(1, "left"), *await client.take(1, "right")]) == [1, 2]
        await trio.sleep(1)
        assert server.runtime.metrics.drops() == {("model", "incomplete"): 1}  # what left had for it


async def test_frames_that_wait_for_their_other_track_are_bounded_in_bytes(autojump_clock, monkeypatch):
    monkeypatch.setattr(blocking_context, "OPEN_BYTES", 5 * picture(0).nbytes)

    def script(self):
        left, right = get_ctx().get_track("left"), get_ctx().get_track("right")
        for value in range(8):
            left.emit(picture(value))
        left.emit(picture(77), bucket=7)  # in place of an older one: the others stay
        for value in range(3, 8):
            right.emit(picture(value), bucket=value)
        left.emit(block(*range(9)))  # one that is too large by itself may wait
        right.emit(block(*range(9)))
        wait_for_stop()

    async with open_server(Pair, config={"script": script}) as server, server.connect() as client:
        assert shown(await client.take(14, "left")) == [3, 4, 5, 6, 77, *range(9)]
        assert server.runtime.metrics.drops() == {("model", "incomplete"): 4}


@IN_MEMORY_OR_FRAMED
async def test_frames_that_wait_in_vain_for_their_other_track_are_counted(autojump_clock, placement):
    class Two(Script):
        left = VideoOut()
        right = VideoOut()

    def script(self):
        left, right = get_ctx().get_track("left"), get_ctx().get_track("right")
        for value in range(67):
            left.emit(picture(value))
        right.emit(picture(100), bucket=66)
        wait_for_stop()

    async with open_server(Two, config={"script": script}, **placement) as server:
        async with server.connect() as client:
            assert shown([*await client.take(1, "left"), *await client.take(1, "right")]) == [66, 100]
            assert server.runtime.metrics.drops() == {("model", "incomplete"): 3}  # of 67, 64 may wait
            await client.close()
        await server.settle()
        assert server.runtime.metrics.drops() == {("model", "incomplete"): 66}  # with those that waited at the end


async def test_sound_goes_with_its_picture(autojump_clock):
    class Talking(Script):
        main_video = VideoOut()
        voice = AudioOut()

    def script(self):
        for value in range(3):
            get_ctx().get_track().emit(picture(value))
            get_ctx().get_track("voice").emit(np.full((1, 4800), value, np.int16))
        wait_for_stop()

    async with open_session(Talking, config={"script": script}) as client:
        pictures, voice = await client.take(3), await client.take(3, "voice")
        assert times(pictures) == times(voice) == exactly([0, 0.1, 0.2])


async def test_frames_of_the_client_reach_on_frame_in_order_and_latest(autojump_clock):
    class Watching(Script):
        voice = AudioIn()
        eye = VideoIn()

        def on_frame(self, frame):
            self.threads.append(threading.current_thread())
            self.seen = [*getattr(self, "seen", []), int(frame[0, 0, 0])]

    def script(self):
        track = get_ctx().get_track("eye")
        assert track.latest() is None
        with pytest.raises(TypeError, match="from the client"):
            track.emit(picture(1))
        with pytest.raises(TypeError, match="to the client"):
            get_ctx().get_track().latest()
        get_ctx().emit_block(picture(0))
        while track.latest() is None or track.latest()[0, 0, 0] != 3:
            time.sleep(0.1)
        get_ctx().emit_block(track.latest())
        assert get_ctx().get_track("voice").latest().shape == (1, 480)
        wait_for_stop()

    async with open_server(Watching, config={"script": script}) as server:
        async with server.connect() as client:
            assert shown(await client.take(1)) == [0]
            await client.push("voice", np.ones((1, 480), np.int16))
            await client.push("eye", picture(1), picture(2), picture(3))
            assert shown(await client.take(1)) == [3]
            assert server.model.seen == [1, 2, 3]
            assert {thread.name for thread in server.model.threads[2:]} == {"reactor-handlers"}


async def test_what_waits_for_the_handlers_thread_does_not_hold_the_virtual_clock_of_what_runs_there(autojump_clock):
    class Watching(Script):
        eye = VideoIn()

        def on_frame(self, frame):
            time.sleep(0.35)

    async with open_server(Watching, config={"script": lambda _: wait_for_stop()}) as server, server.connect() as client:
        await client.push("eye", picture(1), picture(2))
        await trio.sleep(0.1)
        began = trio.current_time()
        with trio.fail_after(10):
            await client.command("set_value", value=1)
        assert trio.current_time() - began == pytest.approx(0.25)


def test_a_model_with_on_frame_takes_a_camera():
    class Watching(VideoModel):
        def on_frame(self, frame):
            pass

    assert [(t.name, t.direction) for t in declaration_of(Watching).tracks] == [("main_video", "out"), ("camera", "in")]


def test_a_blocking_model_declares_its_tracks_and_commands():
    class Declared(VideoModel):
        @command("move", description="go there")
        def move(self, x: float = InputField(default=0.0, ge=-1, le=1), far: bool = False):
            """Not this text."""

    schema = declaration_of(Declared).schema()
    assert schema["tracks"] == [{"name": "main_video", "kind": "video", "direction": "out"}]
    (move,) = schema["commands"]
    assert (move["name"], move["description"]) == ("move", "go there")
    assert move["schema"]["properties"]["x"] == {"type": "number", "minimum": -1, "maximum": 1, "default": 0.0}


def test_mistakes_are_reported_when_the_class_is_made():
    with pytest.raises(DeclarationError, match="cannot be async"):

        class Async(VideoModel):
            @command("move")
            async def move(self):
                pass

    with pytest.raises(DeclarationError, match=r"VideoOut\(\), with parentheses"):

        class Bare(VideoModel):
            main_video = VideoOut

    with pytest.raises(DeclarationError, match="on a subclass of VideoModel"):
        model(name="x")(int)


@in_all_placements
async def test_a_blocking_model_in_the_kits_placements(autojump_clock, placement):
    def script(self):
        get_ctx().emit_block(picture(3))
        wait_for_stop()

    if "thread" in placement:
        with pytest.raises(ModelFailed, match="not for a VideoModel"):
            async with open_server(Script, config={"script": script}, **placement):
                pass
        return
    async with playing(script, **placement) as client:
        assert shown(await client.take(1)) == [3]
