"""A blocking model's session where its threads and the model loop meet: one of them is held where the other may come."""

from __future__ import annotations

import threading
import time

import pytest
import trio
from tests.support.behaviour_models import picture, shown

from reactor_trio import (
    VideoIn,
    VideoModel,
    VideoOut,
    command,
    connected,
    disconnected,
    get_ctx,
    session_ended,
    session_started,
)
from reactor_trio.concurrency.author_thread import AuthorThread
from reactor_trio.crossing.local_channel import LocalEnd
from reactor_trio.crossing.messages import Answer
from reactor_trio.errors import SessionEnded
from reactor_trio.lost_part import ModelPartLost
from reactor_trio.testing import open_server, open_session, virtual_time

#: seconds of real time for which a thread is waited for that a mistake may keep
PATIENCE = 5


class Steered(VideoModel):
    """Emits the value of its command."""

    value = 0

    @command("set_value")
    def set_value(self, value: int):
        self.value = value

    def start_session(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(picture(self.value))


class Ends(Steered):
    """A command or a frame of the client ends the program."""

    eye = VideoIn()

    @command("exit")
    def exit(self):
        raise SystemExit(3)

    @command("lose")
    def lose(self):
        raise ModelPartLost("a rank is gone")

    def on_frame(self, frame):
        raise SystemExit(4)

    def start_session(self):
        while not get_ctx().should_stop():
            time.sleep(0.25)
            get_ctx().emit_block(picture(1))


async def by_frame(client):
    await client.push("eye", picture(1))


def by_command(name):
    async def send(client):
        with pytest.raises(SessionEnded):
            await client.command(name)

    return send


@pytest.mark.parametrize(
    ("happens", "error"),
    [(by_command("exit"), SystemExit), (by_command("lose"), ModelPartLost), (by_frame, SystemExit)],
    ids=["a command exits", "a command loses a part", "a frame exits"],
)
async def test_what_ends_the_program_beside_the_session_ends_it_at_once(autojump_clock, happens, error):
    async with open_server(Ends) as server, server.connect() as client:
        await client.take(4)
        with trio.fail_after(0.5):
            await happens(client)
            with pytest.raises(SessionEnded) as ended:
                async for _ in client.frames():
                    pass
        assert isinstance(server.model_error(ended.value, client).__cause__, error)
        assert server.runtime.journal.phase == "failed"


async def test_a_block_may_begin_while_the_model_loop_answers_a_command(autojump_clock, monkeypatch):
    """The thread goes on from `emit_block` between the change of the newest command and the end of its answer."""
    held, answers, goes_on = threading.Event(), threading.Event(), threading.Event()
    call_loop, send = AuthorThread.call_loop, LocalEnd.send

    class Held(Steered):
        def start_session(self):
            while not get_ctx().should_stop():
                get_ctx().emit_block(picture(self.value))
                if held.is_set():
                    goes_on.set()

    def call(self, function, *args, **options):
        result = call_loop(self, function, *args, **options)
        if self.thread.name == "reactor-session" and client_has_taken and not held.is_set():
            held.set()
            answers.wait(PATIENCE)  # the answer is made
        return result

    def sends(self, message):
        send(self, message)
        if isinstance(message, Answer) and held.is_set():
            answers.set()
            goes_on.wait(PATIENCE)  # the thread has begun its next block, if it could

    client_has_taken: list[bool] = []
    monkeypatch.setattr(virtual_time, "TURN_TIMEOUT", 0.1)  # until the handler runs, although the other thread computes
    monkeypatch.setattr(AuthorThread, "call_loop", call)
    monkeypatch.setattr(LocalEnd, "send", sends)
    async with open_session(Held) as client:
        await client.take(1)
        client_has_taken.append(True)
        await trio.to_thread.run_sync(held.wait)
        await client.command("set_value", value=7)
        assert goes_on.is_set()
        while shown(await client.take(1)) != [7]:
            pass


class Two(VideoModel):
    """Emits on one of its tracks, in a bucket of its own."""

    left = VideoOut()
    right = VideoOut()

    def __init__(self):
        self.bucket: int = 0

    def start_session(self):
        self.ctx = get_ctx()
        self.ctx.get_track("left").emit(picture(1), bucket=self.bucket)
        while not self.ctx.should_stop():
            time.sleep(0.25)


async def test_a_thread_may_complete_a_bucket_while_the_end_of_the_session_drops_it(autojump_clock):
    class Looked(int):
        """Looking for it while the session ends has a thread of the author emit what it lacks."""

        def __hash__(self):
            if server.model.ctx.should_stop() and threading.current_thread() is threading.main_thread():
                thread.start()
                thread.join(0.1)  # it waits for the end of the drop, or has completed the bucket
            return int.__hash__(self)

    async with open_server(Two) as server:
        server.model.bucket = Looked(5)
        thread = threading.Thread(target=lambda: server.model.ctx.get_track("right").emit(picture(2), bucket=5))
        async with server.connect() as client:
            await trio.sleep(1)
            await client.close()
        await trio.to_thread.run_sync(thread.join)
        await server.settle()
        assert server.runtime.metrics.drops() == {("model", "incomplete"): 2}


async def test_a_frame_that_lacks_its_other_track_after_the_end_of_the_session_is_counted(autojump_clock):
    async with open_server(Two) as server:
        async with server.connect() as client:
            await trio.sleep(1)
            await client.close()
        await server.settle()
        assert server.runtime.metrics.drops() == {("model", "incomplete"): 1}
        server.model.ctx.get_track("right").emit(picture(2))
        await server.settle()
        assert server.runtime.metrics.drops() == {("model", "incomplete"): 2}


class Hooked(Steered):
    """Notes the thread of each hook, and that it has come to its end."""

    camera = VideoIn()

    def __init__(self):
        self.ran: list[tuple[str, str]] = []

    def note(self, what):
        time.sleep(1)  # virtual time, if the thread is one of the author's
        self.ran.append((what, threading.current_thread().name))

    @session_started
    def starts(self):
        self.note("session_started")

    @connected
    def comes(self):
        self.note("connected")

    @command("set_value")
    def set_value(self, value: int):
        self.note("command")

    def on_frame(self, frame):
        self.note("on_frame")

    @disconnected
    def goes(self):
        self.note("disconnected")

    @session_ended
    def ends(self):
        self.note("session_ended")


async def test_hooks_handlers_and_frames_of_the_client_share_a_thread(autojump_clock):
    async with open_server(Hooked) as server:
        async with server.connect() as client:
            await client.take(1)
            assert trio.current_time() >= 2
            await client.command("set_value", value=1)
            await client.push("camera", picture(1))
            await trio.sleep(2)
        await server.settle()
    names = ["session_started", "connected", "command", "on_frame", "disconnected", "session_ended"]
    assert server.model.ran == [(name, "reactor-handlers") for name in names]


@pytest.mark.parametrize(("seconds", "lines"), [(4, []), (60, ["@disconnected took 60 s"])])
async def test_a_hook_of_the_end_that_cannot_be_cancelled_is_logged_with_its_time(autojump_clock, caplog, seconds, lines):
    class Busy(Steered):
        @disconnected
        def goes(self):
            time.sleep(seconds)

    async with open_server(Busy) as server:
        async with server.connect() as client:
            await client.take(1)
            await client.close()
            await server.wait_left(client)
    found = [each.getMessage() for each in caplog.records if "it is cancelled" in each.getMessage()]
    assert [each.partition(": ")[2].partition(";")[0] for each in found] == lines


async def test_async_hooks_are_awaited(autojump_clock):
    ran = []

    class Async(Steered):
        @connected
        async def comes(self):
            await trio.sleep(1)
            ran.append("connected")

        @disconnected
        async def goes(self):
            await trio.sleep(1)
            ran.append("disconnected")

    async with open_server(Async) as server:
        async with server.connect() as client:
            await client.take(1)
        await server.settle()
    assert ran == ["connected", "disconnected"]


class Waits(Steered):
    """A handler waits for the end of the session, on the thread on which the hooks of that end run. An hour at most."""

    camera = VideoIn()

    def __init__(self):
        self.seen: list[tuple[str, bool]] = []

    def wait(self, what):
        self.seen.append((what, get_ctx()._stop_evt.wait(3600)))

    @command("wait")
    def waits(self):
        self.wait("command")

    def on_frame(self, frame):
        self.wait("on_frame")

    @disconnected
    def goes(self):
        self.seen.append(("disconnected", True))


async def ended_command(client, name):
    with pytest.raises(SessionEnded):
        await client.command(name)


@pytest.mark.parametrize("what", ["command", "on_frame"])
async def test_what_waits_for_the_end_does_not_keep_the_hooks_of_the_end_waiting(autojump_clock, what):
    async with open_server(Waits) as server, trio.open_nursery() as nursery:
        async with server.connect() as client:
            await client.take(1)
            if what == "command":
                nursery.start_soon(ended_command, client, "wait")
            else:
                await client.push("camera", picture(1))
            await trio.sleep(2)
            at = trio.current_time()
            await client.close()
            await server.wait_left(client)
            assert trio.current_time() == at
        assert server.model.seen == [(what, True), ("disconnected", True)]
