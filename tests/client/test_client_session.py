from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import math

import anyio
import numpy as np
import pytest
from tests.support.client_doubles import BACKENDS, CAMERA, SOUND, VIDEO, ScriptedTransport, packet
from tests.support.kept_session import KeptSession

from reactor_trio.client import Client, running
from reactor_trio.client.running import TaskBlock
from reactor_trio.client.session_view import internals
from reactor_trio.errors import CommandError, ProtocolError, SessionEnded

every_backend = pytest.mark.parametrize("backend", BACKENDS)


def session(backend, story, *tracks):
    """Run `story(client, server)` in a session that has begun, and return the server's end."""

    async def main():
        server = ScriptedTransport()
        server.welcome(*tracks)
        try:
            async with running(Client(server)) as client:
                await story(client, server)
        finally:
            server.let_go()
        return server

    return anyio.run(main, backend=backend)


async def seqs(frames):
    return [frame.seq async for frame in frames]


@every_backend
def test_a_session_begins_with_what_the_welcome_says(backend):
    async def story(client, server):
        assert (client.session_id, client.name, client.role) == ("s1", "glow", "control")
        assert client.schema == {"commands": []}
        assert [track.name for track in client.tracks] == ["main_video", "sound"]
        assert client.position is None
        assert client.ended is None

    server = session(backend, story, VIDEO, SOUND)
    assert server.closed_with == 1000


@every_backend
def test_the_values_of_settings_follow_the_model_and_are_read_only(backend):
    async def story(client, server):
        assert client.state == {}
        server.say("reactor.state", {"level": 1, "words": ["a"]}, n=2)
        server.say("note", {}, n=3)
        await anext(client.messages())
        state = client.state
        assert state == {"level": 1, "words": ["a"]}
        with pytest.raises(TypeError):
            client.state["level"] = 2

        async def answer():
            asked = await server.command()
            server.say("reactor.ack", {"step": 1}, id=asked["id"], n=4)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            await client.command("set_level", level=np.float32(0.5))
        assert state == {"level": 0.5, "words": ["a"]}

    session(backend, story)


@every_backend
def test_the_queue_position_is_reported(backend):
    async def main():
        server = ScriptedTransport()
        heard = []
        client = Client(server, on_queued=lambda position, total: heard.append((client.position, position, total)))
        server.say("reactor.queued", {"position": 2, "total": 2})
        server.say("reactor.queued", {"position": 1, "total": 3})
        server.welcome()
        async with running(client):
            assert heard == [(2, 2, 2), (1, 1, 3)]
            assert client.position is None
        server.let_go()

    anyio.run(main, backend=backend)


@every_backend
@pytest.mark.parametrize(
    ("last", "reason", "says", "code"),
    [
        (lambda server: server.say("reactor.bye", {"reason": "no_room", "message": "full"}), "no_room", "full", 1000),
        (lambda server: server.close(1006), "lost", r"lost: the connection closed \(code 1006\)$", 1000),
        (lambda server: server.say("progress"), "protocol_error", r"progress came before reactor\.welcome", 1002),
    ],
)
def test_a_session_that_ends_before_it_begins(backend, last, reason, says, code):
    async def main():
        server = ScriptedTransport()
        last(server)
        with pytest.raises(SessionEnded, match=says) as caught:
            async with running(Client(server)):
                pytest.fail("entered")
        assert caught.value.reason == reason
        assert server.closed_with == code
        server.let_go()

    anyio.run(main, backend=backend)


@every_backend
def test_cancelled_in_the_queue_it_leaves_politely(backend):
    async def main():
        server = ScriptedTransport()
        server.say("reactor.queued", {"position": 1, "total": 1})
        with anyio.CancelScope() as scope:
            async with running(Client(server, on_queued=lambda position, total: scope.cancel())):
                pytest.fail("entered")
        assert server.closed_with == 1000
        server.let_go()

    anyio.run(main, backend=backend)


@every_backend
def test_commands_return_their_own_answers(backend):
    async def story(client, server):
        replies = {}

        async def send(key, name, /, **arguments):
            replies[key] = await client.command(name, **arguments)

        async def dim():
            with pytest.raises(CommandError, match=r"Expected float <= 2\.0") as caught:
                await client.command("set_brightness", brightness=9)
            replies["code"] = caught.value.code

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, "spin", "spin")
            tasks.start_soon(dim)
            tasks.start_soon(lambda: send("named", "rename", name="x", self="y"))
            by_name = {command["type"]: command for command in [await server.command() for _ in range(3)]}
            refusal = {"code": "invalid_command", "message": "Expected float <= 2.0 - at $.brightness"}
            server.say("reactor.error", refusal, id=by_name["set_brightness"]["id"])
            server.say("reactor.ack", {"step": 3, "reply": "renamed"}, id=by_name["rename"]["id"])
            server.say("reactor.ack", {"step": 3, "reply": {"angle": 1}}, id=by_name["spin"]["id"])
        assert replies == {"spin": {"angle": 1}, "named": "renamed", "code": "invalid_command"}
        assert by_name["rename"]["data"] == {"name": "x", "self": "y"}
        assert sorted(command["id"] for command in by_name.values()) == [1, 2, 3]
        assert client.statistics().command_to_ack.count == 2

    session(backend, story)


@every_backend
def test_nan_is_not_sent(backend):
    async def story(client, server):
        with pytest.raises(CommandError, match=r"at \$\.brightness"):
            await client.command("set_brightness", brightness=math.nan)
        assert server.sent == []

    session(backend, story)


@every_backend
def test_a_cancelled_command_leaves_the_session_usable(backend):
    async def story(client, server):
        async def second():
            assert await client.command("second") == "two"

        async with anyio.create_task_group() as first:
            first.start_soon(client.command, "first")
            assert (await server.command())["id"] == 1
            first.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second)
            assert (await server.command())["id"] == 2
            server.say("reactor.ack", {"step": 1, "reply": "one"}, id=1)
            server.say("reactor.ack", {"step": 1, "reply": "two"}, id=2)
        assert client.statistics().command_to_ack.count == 1

    session(backend, story)


@every_backend
@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda server: server.say("reactor.bye", {"reason": "model_error"}), "model_error"),
        (lambda server: server.say("reactor.bye", {"reason": "done"}), "done"),
        (lambda server: server.close(1006), "lost"),
        (lambda server: server.close(1009), "too_big"),
        (lambda server: server.say_raw(b"no packet"), "protocol_error"),
    ],
)
def test_the_session_ends_during_a_command(backend, end, reason):
    async def story(client, server):
        async def send():
            with pytest.raises(SessionEnded) as caught:
                await client.command("spin")
            assert caught.value.reason == reason

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await server.command()
            end(server)
        assert client.ended == reason
        with pytest.raises(SessionEnded):
            await client.command("spin")
        with pytest.raises(SessionEnded):
            await client.feedback(None, 0)

    session(backend, story)


@every_backend
def test_a_command_answered_just_before_the_end_has_its_answer(backend):
    async def story(client, server):
        async def send():
            assert await client.command("finish") == "finished"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            command = await server.command()
            # Taken one after the other, before `send` runs again.
            take = internals(client).receiver._take_text
            take(json.dumps({"type": "reactor.ack", "data": {"step": 1, "reply": "finished"}, "id": 1}))
            take(json.dumps({"type": "reactor.bye", "data": {"reason": "done"}}))
            assert command["id"] == 1

    session(backend, story)


@every_backend
def test_a_command_into_a_closed_connection_tells_the_servers_last_words(backend):
    async def story(client, server):
        server.say("reactor.bye", {"reason": "draining"})
        server.close(1001)
        server.takes_nothing = True  # sending fails before the client has read why
        with pytest.raises(SessionEnded) as caught:
            await client.command("spin")
        assert caught.value.reason == "draining"

    session(backend, story)


@every_backend
def test_frames_carry_what_their_packet_says(backend):
    async def story(client, server):
        server.frame(3, bytes([1, 2, 3, 4, 5, 6]), command=7)
        frame = await anext(client.frames("main_video"))
        assert frame.data.tolist() == [[[1, 2, 3], [4, 5, 6]]]
        assert (frame.seq, frame.pts, frame.command_id, frame.step) == (3, 0.3, 7, 3)
        assert (frame.keyframe, frame.track, frame.meta) == (True, "main_video", {})
        assert frame.received_at <= anyio.current_time()

    session(backend, story)


@every_backend
def test_a_2_7_megabyte_frame_is_not_copied(backend):
    payload = bytes(range(256)) * (1280 * 720 * 3 // 256)

    async def story(client, server):
        server.frame(0, payload)
        frame = await anext(client.frames())
        assert frame.data.shape == (720, 1280, 3)
        assert frame.data.tobytes() == payload
        assert frame.data.base is not None
        assert not frame.data.flags.writeable

    session(backend, story, VIDEO | {"width": 1280, "height": 720})


@every_backend
@pytest.mark.parametrize("began", [True, False])
def test_a_lazy_consumer_gets_the_newest_64_of_70_frames(backend, began):
    async def story(client, server):
        frames = client.frames() if began else None
        for seq in range(70):
            server.frame(seq)
        await anyio.wait_all_tasks_blocked()
        lost = 6 if began else 0  # what no iterator wanted yet is not lost
        assert client.statistics().tracks["main_video"].dropped == lost
        frames = frames or client.frames()
        assert (await anext(frames)).seq == 6
        for seq in range(70, 72):
            server.frame(seq)
        server.say("reactor.bye", {"reason": "done"})
        await anyio.wait_all_tasks_blocked()
        assert await seqs(frames) == list(range(8, 72))
        track = client.statistics().tracks["main_video"]
        assert (track.frames, track.missing, track.dropped, track.skipped) == (72, 0, lost + 1, 0)

    session(backend, story)


@pytest.mark.parametrize("begun", [False, True])
@every_backend
def test_what_waits_for_an_iterator_is_bounded_in_bytes(backend, monkeypatch, begun):
    monkeypatch.setattr(Client, "queued_bytes", sum(len(packet(seq)) for seq in range(3, 8)))

    async def story(client, server):
        frames, messages = (client.frames(), client.messages()) if begun else (None, None)
        for seq in range(8):
            server.frame(seq)
            server.say("progress", {"done": seq, "text": "x" * 200})
        server.say("progress", {"done": 8})
        server.say("reactor.bye", {"reason": "done"})
        await anyio.wait_all_tasks_blocked()
        assert await seqs(frames or client.frames()) == list(range(3, 8))
        assert [message.data["done"] async for message in messages or client.messages()] == [8]
        statistics = client.statistics()
        assert statistics.messages_dropped == 8
        assert statistics.tracks["main_video"].dropped == (3 if begun else 0)  # what no iterator wanted yet is not lost

    session(backend, story)


@every_backend
def test_one_message_may_be_larger_than_what_may_wait(backend, monkeypatch):
    monkeypatch.setattr(Client, "queued_bytes", 100)

    async def story(client, server):
        messages = client.messages()
        for text in "ab":
            server.say("progress", {"text": text * 200})
        server.say("reactor.bye", {"reason": "done"})
        await anyio.wait_all_tasks_blocked()
        assert [message.data["text"] async for message in messages] == ["b" * 200]

    session(backend, story)


@every_backend
def test_latest_gives_the_newest_only(backend):
    async def story(client, server):
        for seq in range(3):
            server.frame(seq)
        await anyio.wait_all_tasks_blocked()
        frames = client.frames(latest=True)
        assert (await anext(frames)).seq == 2
        for seq in range(3, 8):
            server.frame(seq)
        await anyio.wait_all_tasks_blocked()
        assert (await anext(frames)).seq == 7
        track = client.statistics().tracks["main_video"]
        assert (track.dropped, track.skipped) == (0, 6)

    session(backend, story)


@every_backend
def test_each_iterator_gets_every_frame_and_its_own_end(backend):
    async def story(client, server):
        got = {}

        async def take(key, frames):
            got[key] = await seqs(frames)

        server.frame(0)
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, "first", client.frames())
            tasks.start_soon(take, "second", client.frames())
            for seq in range(1, 4):
                server.frame(seq)
            server.say("reactor.bye", {"reason": "client_left"})
        # What came before the first call belongs to the first iterator.
        assert got == {"first": [0, 1, 2, 3], "second": [1, 2, 3]}
        assert await seqs(client.frames()) == []

    session(backend, story)


@every_backend
def test_an_abandoned_iterator_takes_no_more_frames(backend):
    async def story(client, server):
        server.frame(0)
        async for _ in client.frames():
            break
        for seq in range(1, 200):
            server.frame(seq)
        await anyio.wait_all_tasks_blocked()
        assert client.statistics().tracks["main_video"].dropped == 0

    session(backend, story)


@every_backend
def test_frames_come_from_the_track_that_is_named(backend):
    async def story(client, server):
        server.frame(0, b"\x01\x00\x02\x00", track=1)
        server.frame(0, bytes(6))
        assert (await anext(client.frames("sound"))).data.tolist() == [[1, 2]]
        assert (await anext(client.frames())).track == "main_video"
        with pytest.raises(ValueError, match="no output track 'depth'; this session has sound, main_video"):
            client.frames("depth")
        with pytest.raises(ValueError, match="no output track 'camera'"):
            client.frames("camera")

    session(backend, story, CAMERA, SOUND, VIDEO)

    async def blind(client, server):
        with pytest.raises(ValueError, match="no video output track; this session has sound"):
            client.frames()

    session(backend, blind, SOUND)


@every_backend
def test_a_frame_is_decoded_with_the_description_that_it_came_under(backend):
    async def story(client, server):
        server.frame(0, bytes(6))
        server.say("reactor.track", VIDEO | {"width": 1, "height": 3})
        server.frame(1, bytes(9))
        await anyio.wait_all_tasks_blocked()
        frames = client.frames()
        assert [(await anext(frames)).data.shape, (await anext(frames)).data.shape] == [(1, 2, 3), (3, 1, 3)]
        assert client.tracks[0].height == 3

    session(backend, story)


@every_backend
def test_a_frame_that_cannot_be_decoded_is_the_consumers_error(backend):
    async def story(client, server):
        server.frame(0, bytes(5))
        server.frame(1, bytes(6))
        frames = client.frames()
        with pytest.raises(ProtocolError, match="a raw frame of 2x1 has 6 bytes, got 5"):
            await anext(frames)
        assert (await anext(frames)).seq == 1

    session(backend, story)


@every_backend
def test_a_cancelled_wait_loses_no_frame(backend):
    async def story(client, server):
        frames = client.frames()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(frames.__anext__)
            await anyio.wait_all_tasks_blocked()
            server.frame(0)
            tasks.cancel_scope.cancel()
        assert (await anext(frames)).seq == 0

    session(backend, story)


@every_backend
def test_messages_of_the_model(backend):
    async def story(client, server):
        server.say("progress", {"done": 1}, n=2)
        server.say("reactor.something_new", {}, n=3)
        server.say("progress", {"done": 2}, n=4)
        server.say("reactor.bye", {"reason": "done"})
        heard = [(message.type, message.data["done"], message.n) async for message in client.messages()]
        assert heard == [("progress", 1, 2), ("progress", 2, 4)]

    session(backend, story)


@every_backend
def test_the_newest_1024_of_1030_messages_wait(backend):
    async def story(client, server):
        for number in range(1030):
            server.say("progress", {"done": number})
        server.say("reactor.bye", {"reason": "done"})
        await anyio.wait_all_tasks_blocked()
        assert client.statistics().messages_dropped == 6
        assert [message.data["done"] async for message in client.messages()] == list(range(6, 1030))

    session(backend, story)


@every_backend
@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda server: server.say("reactor.bye", {"reason": "done"}), None),
        (lambda server: server.say("reactor.bye", {"reason": "client_left"}), None),
        (lambda server: server.close(1000), None),
        (lambda server: server.say("reactor.bye", {"reason": "model_error", "message": "in step 3"}), "model_error"),
        (lambda server: server.say("reactor.bye", {"reason": "draining"}), "draining"),
        (lambda server: server.close(1006), "lost"),
        (lambda server: server.close(1011), "lost"),
        (lambda server: server.say_raw("no json"), "protocol_error"),
    ],
)
def test_iterators_stop_after_a_polite_end_and_raise_after_any_other(backend, end, reason):
    async def story(client, server):
        server.frame(0)
        server.say("progress", {})
        end(server)
        for items in (client.frames(), client.messages()):
            await anext(items)
            for _ in range(2):
                if reason is None:
                    assert [item async for item in items] == []
                else:
                    with pytest.raises(SessionEnded) as caught:
                        await anext(items)
                    assert caught.value.reason == reason
        assert client.ended == (reason or client.ended)

    session(backend, story)


@every_backend
def test_only_the_first_reason_counts(backend):
    async def story(client, server):
        server.say("reactor.bye", {"reason": "model_error"})
        server.close(1011)
        await anyio.wait_all_tasks_blocked()
        assert client.ended == "model_error"
        await client.aclose()
        assert client.ended == "model_error"

    session(backend, story)


@every_backend
def test_the_clients_close_ends_iterators_and_commands(backend):
    async def story(client, server):
        async def send():
            with pytest.raises(SessionEnded) as caught:
                await client.command("spin")
            assert caught.value.reason == "client_left"

        async def watch():
            assert await seqs(client.frames()) == [0]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            tasks.start_soon(watch)
            server.frame(0)
            await server.command()
            await client.aclose()
        assert client.ended == "client_left"

    assert session(backend, story).closed_with == 1000


@every_backend
def test_feedback_names_the_track_by_its_index(backend):
    async def story(client, server):
        await client.feedback("sound", 12)
        await client.feedback(None, 5)
        assert server.sent == [
            {"type": "reactor.feedback", "data": {"track": 1, "seq": 12}},
            {"type": "reactor.feedback", "data": {"track": 0, "seq": 5}},
        ]

    session(backend, story, VIDEO, SOUND)


@every_backend
@pytest.mark.parametrize("error", [ValueError("a"), KeyboardInterrupt(), ExceptionGroup("b", [ValueError("c")])])
def test_an_exception_of_the_block_comes_out_as_it_is(backend, error):
    async def main():
        server = ScriptedTransport()
        server.welcome()
        with pytest.raises(type(error)) as caught:
            async with running(Client(server)):
                raise error
        assert caught.value is error
        assert error.__context__ is None
        assert server.closed_with == 1000
        server.let_go()

    anyio.run(main, backend=backend)


@every_backend
def test_the_block_ends_although_the_transport_goes_on_receiving(backend):
    class Endless(ScriptedTransport):
        def close(self, code, reason=""):
            pass

    async def main():
        server = Endless()
        server.welcome()
        async with running(Client(server)):
            pass
        assert server.closed_with == 1000
        server.let_go()

    anyio.run(main, backend=backend)


@every_backend
def test_a_cancelled_block_ends_as_cancelled(backend):
    async def main():
        server = ScriptedTransport()
        server.welcome()
        with anyio.CancelScope() as scope:
            async with running(Client(server)) as client:
                scope.cancel()
                await anext(client.frames())
        assert scope.cancelled_caught
        assert server.closed_with == 1000
        server.let_go()

    anyio.run(main, backend=backend)


class Leaving(ScriptedTransport):
    """Says when the client has left."""

    def __init__(self):
        super().__init__()
        self.left = anyio.Event()
        self.welcome()

    async def aclose(self, code=1000, reason=""):
        await super().aclose(code, reason)
        self.left.set()


def let_run(main, backend):
    """Run `main` to its end. Trio says afterwards that a nursery was not left."""
    ended = []

    async def whole():
        await main()
        ended.append(True)

    with contextlib.suppress(RuntimeError):
        anyio.run(whole, backend=backend)
    assert ended


async def test_an_interrupt_while_the_block_is_left_is_not_swallowed():
    async def interrupted():
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyboardInterrupt

    with pytest.raises(BaseExceptionGroup) as caught:
        async with TaskBlock("block", interrupted, anyio.lowlevel.checkpoint):
            await anyio.wait_all_tasks_blocked()
            raise ValueError
    assert caught.group_contains(KeyboardInterrupt)


@every_backend
@pytest.mark.parametrize("call", ["on_ending", "on_lost", "on_resumed"])
def test_what_a_callback_raises_ends_the_session_and_leaves_the_block_as_it_is(backend, call):
    kept, error = KeptSession(), ValueError("in a callback")

    def fail(*_):
        raise error

    async def main():
        with pytest.raises(ValueError, match="in a callback") as caught:
            async with running(kept.client(**{call: fail})):
                await anyio.wait_all_tasks_blocked()
                if call == "on_ending":
                    kept.say("reactor.ending", {"reason": "idle", "seconds": 5})
                else:
                    kept.link.cut()
                await anyio.sleep_forever()
        assert caught.value is error

    anyio.run(main, backend=backend)
    kept.assert_let_go()


@every_backend
def test_another_task_that_leaves_the_block_ends_the_session_and_reads_what_to_do(backend):
    said = []

    async def main():
        server = Leaving()
        block = running(Client(server))
        await block.__aenter__()

        async def leave():
            try:
                await block.__aexit__(None, None, None)
            except RuntimeError as error:
                said.append(str(error))

        if backend == "asyncio":
            await asyncio.create_task(leave())
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave)
        await anyio.lowlevel.checkpoint()
        assert server.closed_with == 1000
        server.let_go()

    let_run(main, backend)
    assert len(said) == 1
    assert said[0].startswith("another task left the block of connect() than entered it. The block has ended")


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # Trio's own advice
@every_backend
def test_a_dropped_async_generator_ends_its_session_and_harms_no_other(backend, caplog):
    said = []

    async def main():
        server = Leaving()
        server.frame(0)

        async def pictures():
            async with running(Client(server)) as client:
                async for frame in client.frames():
                    yield frame

        if backend == "asyncio":
            asyncio.get_running_loop().set_exception_handler(lambda _, what: said.append(str(what["exception"])))
        async for _ in pictures():
            break
        await server.left.wait()
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        gc.collect()
        assert server.closed_with == 1000
        server.let_go()

    let_run(main, backend)
    assert "async with contextlib.aclosing(generator)" in "".join(said) + caplog.text


@every_backend
def test_jpeg_arrives_as_rgb(backend):
    import simplejpeg

    picture = np.full((16, 16, 3), (200, 100, 0), np.uint8)

    async def story(client, server):
        server.frame(0, simplejpeg.encode_jpeg(picture, quality=95, colorspace="RGB"))
        frame = await anext(client.frames())
        assert np.abs(frame.data.astype(int) - picture).max() <= 3

    session(backend, story, VIDEO | {"codec": "jpeg", "width": 16, "height": 16})
