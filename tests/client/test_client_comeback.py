"""A client whose link is lost continues the same session: no command or message is lost, and none is applied twice."""

from __future__ import annotations

import random

import anyio
import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.client_doubles import BACKENDS, CAMERA, VIDEO, packet, welcome
from tests.support.encoded_streams import encoded, number_of, numbered
from tests.support.kept_session import KeptSession, other_transport
from trio.testing import MockClock

from reactor_trio.client import StateChanged, TransportChanged, TransportClosed, observe, running
from reactor_trio.client.outbox import Outbox
from reactor_trio.client.reconnecting import WINDOW
from reactor_trio.client.session_events import TrackChanged
from reactor_trio.client.session_view import internals
from reactor_trio.client.urls import resuming_url, session_url
from reactor_trio.errors import CommandError, ConnectionRefused, ProtocolError, SessionEnded
from reactor_trio.protocol import Packet, VideoChoice, decode_packet, encode_packet


async def here(work):
    """A worker thread would run beside the virtual clock."""
    return work()


every_backend = pytest.mark.parametrize("backend", BACKENDS)


async def lose_and_return(client, session):
    session.link.cut()
    await anyio.wait_all_tasks_blocked()
    assert not client.connected
    await internals(client).connection.wait_available()
    assert client.connected
    await anyio.wait_all_tasks_blocked()


def in_session(story, session=None, backend="trio", **options):
    """Run `story(client, session)`; on Trio in virtual time. Every connection must be released at the end."""
    session = session or KeptSession()

    async def main():
        async with running(session.client(**options)) as client:
            await story(client, session)

    if backend == "trio":
        trio.run(main, clock=MockClock(autojump_threshold=0))
    else:
        anyio.run(main, backend=backend)
    session.assert_let_go()
    return session


@every_backend
def test_the_client_continues_after_a_lost_link(backend):
    """Commands that the server has or has not read, frames and messages are as if the link had never broken."""
    heard = []

    async def story(client, session):
        frames, messages = client.frames(), client.messages()
        replies = {}

        async def command(x):
            replies[x] = await client.command("set_x", x=x)

        async def watch():
            heard.append([frame.seq async for frame in frames])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            session.frame(0)
            await command(1)
            session.answers = False
            tasks.start_soon(command, 2)  # read, and not answered
            await anyio.wait_all_tasks_blocked()
            session.link.cut(noticed=False)
            tasks.start_soon(command, 3)  # sent into a dead link
            await anyio.wait_all_tasks_blocked()
            session.say("progress", {"done": 1})
            session.answers = True
            assert client.connected
            session.link.notice()
            await anyio.wait_all_tasks_blocked()
            session.answer()
            await command(4)
            assert client.connected
            session.frame(1)
            assert (await anext(messages)).data == {"done": 1}
            session.say("reactor.bye", {"reason": "done"})
        assert replies == {1: 1, 2: 2, 3: 3, 4: 4}
        assert (await anext(messages, None)) is None
        statistics = client.statistics()
        assert statistics.comebacks == 1
        assert 0 < statistics.seconds_lost <= 0.2
        assert heard == ["the connection closed (code 1006)", statistics.seconds_lost, [0, 1]]

    session = in_session(story, backend=backend, on_lost=heard.append, on_resumed=heard.append)
    assert session.applied == [{"x": x} for x in (1, 2, 3, 4)]
    assert session.tries == [("resume-me", 2, None)]
    # An abandoned link is not closed with 1000, which would end the session.
    assert [connection.closed_with for connection in session.connections] == [1001, 1000]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_two_hundred_commands_over_a_link_that_breaks_anywhere(seed):
    """Each command is applied once and in order, and each caller gets its own answer."""
    dice = random.Random(seed)

    async def story(client, session):
        left = dice.randrange(60)

        def sometimes(_what):
            nonlocal left
            left -= 1
            if left < 0 and not session.link.cut_off:
                left = dice.randrange(60)
                session.link.cut(noticed=False)
                tasks.start_soon(notice, session.link, dice.random())

        async def notice(link, seconds):
            await anyio.sleep(seconds)
            link.notice()

        async def command(x):
            assert await client.command("move", x=x) == x + 1

        heard = []

        async def listen():
            async for message in client.messages():
                heard.append(message.data["i"])

        async with anyio.create_task_group() as tasks:
            session.hook = sometimes
            tasks.start_soon(listen)
            async with anyio.create_task_group() as commands:
                for x in range(200):
                    commands.start_soon(command, x)
                    await anyio.wait_all_tasks_blocked()
                    session.say("tick", {"i": x})
                    if dice.random() < 0.3:
                        await anyio.sleep(dice.random() / 10)
            session.hook = lambda _what: None
            await anyio.sleep(2)  # until a cut is noticed, and the client is back
            assert client.statistics().comebacks == len(session.tries) == len(session.connections) - 1
            tasks.cancel_scope.cancel()
        assert session.applied == [{"x": x} for x in range(200)]
        assert heard == list(range(200))
        assert len(internals(client).receiver.outbox) == 0

    in_session(story)


def test_waiting_commands_are_sent_slowly_after_a_reconnect():
    """A server refuses more than 200 commands a second."""

    async def story(client, session):
        async with anyio.create_task_group() as tasks:
            session.link.cut()
            await anyio.wait_all_tasks_blocked()
            for _ in range(300):
                tasks.start_soon(client.command, "move")
            await internals(client).connection.wait_available()
            begin = anyio.current_time()
            await anyio.sleep(0.0001)
            assert len(session.applied) == 100
            await anyio.sleep(1)
            assert 199 <= len(session.applied) <= 201
        assert anyio.current_time() - begin == pytest.approx(2, abs=0.02)

    in_session(story)


@every_backend
def test_a_link_that_breaks_again_and_again(backend):
    """The link also breaks while the client reconnects, before and after the welcome."""

    def meets(number):
        if number == 1:
            raise ConnectionError("cannot connect")
        if number == 2:
            raise ConnectionRefused(503, "draining", retry_after=0.05)
        if number == 3:
            return other_transport(TransportClosed(1006))
        return None

    async def story(client, session):
        session.on_reopen = meets
        for x in range(3):
            session.link.cut()
            assert await client.command("move", x=x) == x + 1
        assert client.statistics().comebacks == 3

    session = in_session(story, backend=backend)
    assert len(session.tries) == 6
    assert session.applied == [{"x": 0}, {"x": 1}, {"x": 2}]


def session_gone(**more):
    return {"type": "reactor.welcome", "data": welcome() | {"session_id": "s2", "resume_token": "b"} | more, "n": 1}


@pytest.mark.parametrize(
    ("meets", "reason", "says", "code"),
    [
        (lambda: other_transport(session_gone()), "lost", "when it was back the session was over", 1000),
        (lambda: other_transport(session_gone(resumed=True)), "lost", "when it was back the session was over", 1000),
        (
            lambda: other_transport({"type": "reactor.queued", "data": {"position": 1, "total": 1}}),
            "lost", "when it was back the session was over", 1000,
        ),
        (
            lambda: other_transport({"type": "reactor.bye", "data": {"reason": "client_left"}}),
            "lost", "when it was back the session was over", 1000,
        ),
        (
            lambda: other_transport({"type": "reactor.bye", "data": {"reason": "draining"}}),
            "draining", "draining", 1001,
        ),
        (lambda: other_transport({"type": "progress", "data": {}}), "protocol_error", "before reactor.welcome", 1002),
        (
            lambda: other_transport(session_gone(session_id="s1", resumed=True, received=7)),
            "protocol_error", "it claims to have read 7 of 1 commands", 1002,
        ),
    ],
    ids=["fresh", "other", "queued", "left", "bye", "nonsense", "more than was given"],
)  # fmt: skip
def test_a_session_that_is_gone_ends_the_client(meets, reason, says, code):
    met = []

    def meet(_number):
        met.append(meets())
        return met[0]

    async def story(client, session):
        session.on_reopen = meet
        session.link.cut()
        with pytest.raises(SessionEnded, match=says) as caught:
            await client.command("move")
        assert caught.value.reason == client.ended == reason
        assert not client.connected
        with pytest.raises(SessionEnded):
            await anext(client.frames())
        before = client.statistics().seconds_lost
        await anyio.sleep(1)
        assert client.statistics().seconds_lost == before

    in_session(story)
    assert met[0].closed_with == code


@pytest.mark.parametrize(
    ("status", "code"), [(400, None), (401, None), (403, None), (404, None), (401, "token_wrong"), (503, "wrong_model")]
)
def test_a_server_that_does_not_know_the_session_is_not_asked_again(status, code):
    """The code decides; a proxy gives none, and its status decides."""

    def refuse(_number):
        raise ConnectionRefused(status, "who are you", code=code)

    async def story(client, session):
        session.on_reopen = refuse
        session.link.cut()
        with pytest.raises(SessionEnded, match=f"no longer knows this session: refused with HTTP {status}: who are you"):
            await anext(client.messages())
        assert len(session.tries) == 1

    in_session(story)


@pytest.mark.parametrize(("status", "code"), [
    (408, None), (408, "request_timeout"), (429, None), (502, None), (503, None), (504, None),
])  # fmt: skip
def test_a_server_that_refuses_for_now_is_asked_again(status, code):
    def refuse_once(number):
        if number == 1:
            raise ConnectionRefused(status, "not now", code=code)

    async def story(client, session):
        session.on_reopen = refuse_once
        session.link.cut()
        await client.command("move")
        assert len(session.tries) == 2

    in_session(story)


@pytest.mark.parametrize("window", [5.0, None])
def test_the_resume_window_bounds_reconnecting(window):
    """The server is down, is silent, or asks for a longer wait than the window."""
    waits = window or WINDOW

    def meet(number):
        if number == 1:
            raise ConnectionRefused(503, "full", retry_after=1.0)
        if number % 3:
            raise ConnectionError("cannot connect")
        return other_transport()

    async def story(client, session):
        session.on_reopen = meet
        begin = anyio.current_time()
        session.link.cut()
        with pytest.raises(SessionEnded, match=f"the link did not come back within {waits:g} s: ") as caught:
            await client.command("move")
        assert caught.value.reason == "lost"
        assert anyio.current_time() - begin == pytest.approx(waits)
        assert client.statistics().seconds_lost == pytest.approx(waits)

    session = in_session(story, KeptSession(window=window))
    assert session.tries


@every_backend
@pytest.mark.parametrize("case", ["no token", "not wanted", "said goodbye", "closed", "too big"])
def test_the_client_does_not_reconnect_when_the_link_is_not_lost(backend, case):
    session = KeptSession(token=None) if case == "no token" else KeptSession()

    async def main():
        client = session.client()
        if case == "not wanted":
            internals(client).connection._reopen = None
        async with running(client):
            if case == "said goodbye":
                session.say("reactor.bye", {"reason": "taken_over"})
            session.link.notice({"closed": 1000, "too big": 1009}.get(case, 1006))
            await anyio.wait_all_tasks_blocked()
            await anyio.sleep(0.15)
        return client.ended

    reason = {"said goodbye": "taken_over", "closed": "done", "too big": "too_big"}.get(case, "lost")
    assert anyio.run(main, backend=backend) == reason
    assert session.tries == []
    session.assert_let_go()


def test_leaving_while_the_link_is_lost_ends_the_session():
    """The client leaves by the block's end, by `aclose` or by cancellation; in a wait, in a try, as a try succeeds."""
    for way in ("block", "aclose", "cancel"):
        for tenths in range(60):

            async def story(client, session, way=way, tenths=tenths):
                session.on_reopen = lambda number: None if number == 3 else other_transport()
                session.link.cut()
                await anyio.sleep(tenths / 10)
                if way == "aclose":
                    await client.aclose()
                    with pytest.raises(SessionEnded, match="client_left"):
                        await client.command("move")

            session = KeptSession()
            if way != "cancel":
                in_session(story, session)
                continue

            async def main(session=session, tenths=tenths):
                with anyio.move_on_after(tenths / 10), pytest.raises(BaseException):  # noqa: B017
                    async with running(session.client()) as client:
                        session.on_reopen = lambda number: None if number == 3 else other_transport()
                        session.link.cut()
                        await client.command("move")
                        await anyio.sleep_forever()

            trio.run(main, clock=MockClock(autojump_threshold=0))
            session.assert_let_go()


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope before its `step`-th scheduling of any task."""

    def __init__(self, step):
        self.step = step
        self.scope = trio.CancelScope()

    def before_task_step(self, task):
        self.step -= 1
        if self.step == 0:
            self.scope.cancel()


def test_cancellation_anywhere_leaves_nothing_open():
    step, finished = 0, False
    while not finished:
        step += 1
        session, canceller, done = KeptSession(), CancelAtStep(step), []

        async def main(session=session, canceller=canceller, done=done):
            with canceller.scope:
                async with running(session.client()) as client:
                    frames = client.frames()
                    session.frame(0)
                    await anext(frames)
                    session.on_reopen = lambda number: other_transport(TransportClosed(1006)) if number == 1 else None
                    session.link.cut()
                    await client.command("move")
                    await anext(client.messages())
                    done.append(True)
            done.append(canceller.scope.cancelled_caught)

        session.hook = lambda what, session=session: what == "read" and session.say("heard")
        trio.run(main, clock=MockClock(autojump_threshold=0), instruments=[canceller])
        session.assert_let_go()
        finished = done == [True, False]
        assert step < 2000
    assert step > 25


@pytest.mark.parametrize("begins", ["alone", "in the middle"])
def test_an_inter_frame_codec_restarts_at_a_keyframe_after_a_reconnect(begins):
    """The new connection starts at a keyframe, for which the client asks if need be; no picture is given twice."""
    asked = [] if begins == "alone" else ["reactor.keyframe"]
    pictures = numbered(4, 64, 48)
    stream = encoded("h264", pictures[:2]) + encoded("h264", pictures[1:])
    description = VIDEO | {"codec": "h264", "width": 64, "height": 48}

    def deliver(session, seq, number):
        data, key = stream[number]
        session.link.deliver(encode_packet(Packet(0, seq, seq * 33_333, int(key), None, seq, {}, memoryview(data))))

    async def story(client, session):
        client._run_in_thread = here
        frames = client.frames()
        for number in (0, 1):
            deliver(session, number, number)
        shown = [await anext(frames) for _ in range(2)]
        await lose_and_return(client, session)

        async def watch():
            shown.extend([await anext(frames) for _ in range(2)])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            if asked:
                deliver(session, 7, 1)  # useless without the packet before it
            await anyio.wait_all_tasks_blocked()
            assert [message["type"] for message in session.told] == asked
            for seq, number in ((1, 2), (8, 3), (9, 4)):
                deliver(session, seq, number)
        assert [(frame.seq, number_of(frame.data)) for frame in shown] == [(0, 0), (1, 1), (8, 2), (9, 3)]
        assert client.statistics().tracks["main_video"].dropped == len(asked)

    session = in_session(story, KeptSession(description))
    assert [message["type"] for message in session.told] == asked


@every_backend
def test_pushed_pictures_wait_for_the_link(backend):
    picture = np.zeros((16, 16, 3), np.uint8)

    async def story(client, session):
        assert await client.push_video("camera", picture, codec="raw")
        session.link.cut()
        await anyio.wait_all_tasks_blocked()
        assert await client.push_video("camera", picture, codec="raw")
        assert client.connected
        assert [decode_packet(packet).seq for packet in session.packets] == [0, 1]

    in_session(story, KeptSession(VIDEO, CAMERA), backend=backend)


@every_backend
def test_a_packet_is_not_repeated_if_the_link_breaks_under_it(backend):
    picture = np.zeros((16, 16, 3), np.uint8)

    async def story(client, session):
        link = session.link

        async def broken(_data):
            link.cut()
            raise TransportClosed(1006)

        link.send_bytes = broken
        assert not await client.push_video("camera", picture, codec="raw")
        assert internals(client).receiver.push_tracks._tracks[2].keyframe_wanted
        assert await client.push_video("camera", picture, codec="raw")
        assert session.link is not link

    in_session(story, KeptSession(VIDEO, CAMERA), backend=backend)


def test_a_reconnect_asks_for_the_newest_codecs():
    async def story(client, session):
        await client.request_video(["raw"])
        session.link.cut()
        await client.command("move")

    assert in_session(story).tries == [("resume-me", 1, VideoChoice(["raw"]))]
    address = session_url("ws://h/ws?x=1", video=["raw", "jpeg"], token=None)
    assert resuming_url(address, "a b", 7) == "ws://h/ws?x=1&video=raw,jpeg&role=control&worlds=1&resume=a+b&after=7"
    assert "video=none&" in resuming_url(address, "t", 0, VideoChoice(["none"]))
    of_tracks = resuming_url(f"{address}&video.depth=raw", "t", 0, VideoChoice(["none"], {"main": ["h264", "jpeg"]}))
    assert of_tracks == "ws://h/ws?x=1&video=none&role=control&worlds=1&video.main=h264,jpeg&resume=t&after=0"


def test_codecs_that_are_asked_for_while_a_connection_is_made_are_asked_for_on_it():
    async def story(client, session):
        async with anyio.create_task_group() as tasks:

            def asks(_number: int) -> None:
                tasks.start_soon(client.request_video, [], {"main_video": ["raw"]})

            session.on_reopen = asks
            session.link.cut()
            await client.command("move")
        assert [message["type"] for message in session.told] == ["reactor.video"]
        assert session.told[0]["data"] == {"video": ["none"], "tracks": {"main_video": ["raw"]}}

    assert in_session(story).tries == [("resume-me", 1, None)]


def test_an_observer_sees_what_changed_while_the_link_was_lost():
    async def story(client, session):
        seen = []
        session.data["state"] = {"x": 1, "y": 2}
        await lose_and_return(client, session)
        with observe(client, seen.append):
            session.data |= {"state": {"x": 1, "y": 3}, "paused": True, "tracks": [VIDEO | {"width": 4}]}
            await lose_and_return(client, session)
            assert (client.state, client.transport.paused) == ({"x": 1, "y": 3}, True)
            await lose_and_return(client, session)  # and nothing has changed
        (track,) = client.tracks
        assert seen == [TrackChanged(track), StateChanged({"y": 3}), TransportChanged(True)]

    in_session(story)


def test_a_new_track_has_its_frames_although_the_connection_that_described_it_broke():
    depth = VIDEO | {"index": 7, "name": "depth"}

    async def story(client, session):
        reopen = internals(client).connection._reopen

        async def breaks_under_the_first_text(*asked):
            transport = await reopen(*asked)
            if len(session.tries) == 1:

                async def broken(_text):
                    transport.cut()
                    raise TransportClosed(1006)

                transport.send = broken
                await client.request_video(["raw"])  # so there is something to send on this connection
            return transport

        internals(client).connection._reopen = breaks_under_the_first_text
        session.data["tracks"] = [VIDEO, depth]
        session.link.cut()
        await client.command("move")
        assert len(session.tries) == 2
        session.link.deliver(packet(0, track=7))
        assert (await anext(client.frames("depth"))).seq == 0

    in_session(story)


def test_old_feedback_is_not_sent_on_a_new_connection():
    async def story(client, session):
        session.frame(0)
        await anyio.wait_all_tasks_blocked()
        session.link.cut()
        internals(client).receiver.feedback_sender.acknowledge(0, 0)
        await client.command("move")
        session.frame(5)
        await anyio.wait_all_tasks_blocked()
        assert [message["data"]["seq"] for message in session.told] == [0, 0, 5]

    in_session(story, feedback=True)


def test_the_client_reconnects_after_too_slow():
    async def story(client, session):
        session.link.deliver('{"type": "reactor.bye", "data": {"reason": "too_slow"}}')
        session.link.cut_off = True
        session.link.notice(1008)
        assert await client.command("move") == 1

    in_session(story)


def test_a_command_fails_with_answer_lost_if_the_server_forgot_its_answer():
    async def story(client, session):
        caught = []

        async def command():
            with pytest.raises(CommandError, match="whether it was applied is not known: 1 messages were lost") as error:
                await client.command("move", x=1)
            caught.append(error.value.code)

        session.answers = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(command)
            await anyio.wait_all_tasks_blocked()
            session.link.cut()
            session.answer()
            session.forgotten = 2
            session.answers = True
        assert caught == ["answer_lost"]
        assert await client.command("move", x=2) == 2
        assert len(internals(client).receiver.outbox) == 0

    assert in_session(story).applied == [{"x": 1}, {"x": 2}]


def test_a_cancelled_command_takes_no_room_when_its_answer_is_lost():
    async def story(client, session):
        session.answers = False
        with anyio.move_on_after(0.01):
            await client.command("move", x=1)
        session.link.cut()
        session.answer()
        session.forgotten = 2
        session.answers = True
        assert await client.command("move", x=2) == 2
        assert len(internals(client).receiver.outbox) == 0

    assert in_session(story).applied == [{"x": 1}, {"x": 2}]


def test_commands_beyond_the_limit_wait_for_answers(monkeypatch):
    monkeypatch.setattr("reactor_trio.client.outbox.MOST_KEPT", 2)
    monkeypatch.setattr("reactor_trio.client.outbox.MOST_CHARACTERS", 100)

    async def main():
        outbox = Outbox()
        entered = []

        async def put(number, text):
            await outbox.wait_room()
            outbox.put(number, text)
            entered.append(number)

        async with anyio.create_task_group() as tasks:
            await put(1, "a")
            await put(2, "b")
            tasks.start_soon(put, 3, "c" * 100)
            await anyio.wait_all_tasks_blocked()
            assert entered == [1, 2]
            outbox.answered(2)
            await anyio.wait_all_tasks_blocked()
            assert entered == [1, 2, 3]
            outbox.answered(1)
            tasks.start_soon(put, 4, "d")
            await anyio.wait_all_tasks_blocked()
            assert entered == [1, 2, 3]  # room for one command, but not for its characters
            outbox.clear()
        assert entered == [1, 2, 3, 4]

    trio.run(main)


def test_an_impossible_number_of_read_commands_is_a_protocol_error():
    outbox = Outbox()
    for number in (1, 2, 3):
        outbox.put(number, "x")
    outbox.answered(2)
    outbox.resume(2)
    for impossible in (-1, 1, 4):
        with pytest.raises(ProtocolError, match=f"it claims to have read {impossible} of"):
            outbox.resume(impossible)


def test_an_answer_to_an_unsent_command_breaks_nothing():
    async def main():
        outbox, sent = Outbox(), []

        async def send(text):
            sent.append(text)
            await anyio.lowlevel.checkpoint()

        for number in (1, 2, 3):
            outbox.put(number, str(number))
        outbox.answered(2)
        with anyio.move_on_after(1):
            await outbox.send_all(send)
        assert sent == ["1", "3"]

    trio.run(main, clock=MockClock(autojump_threshold=0))
