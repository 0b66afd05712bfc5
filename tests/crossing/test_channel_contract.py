"""What `ChannelEnd` says, for the I/O loop's end of a channel within a process and to another one; the posts by hand."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from contextlib import nullcontext

import pytest

from reactor_trio.crossing.channel import ChannelEnd
from reactor_trio.crossing.local_channel import open_local_channel
from reactor_trio.crossing.messages import (
    FROM_MODEL,
    TO_MODEL,
    BeginSession,
    Command,
    FilePiece,
    LateCall,
    PauseSteps,
    RetimePlayout,
    SetWatched,
)
from reactor_trio.interface.files import UploadedFile
from reactor_trio.placement.isolation.remote_session_run import SocketEnd

PAUSE, WATCHED, SLOWER, LATE = PauseSteps(1), SetWatched(True), RetimePlayout(0.5), LateCall("step 7 has run", 1.0)


class LocalChannel:
    """The other end is in this process."""

    end: ChannelEnd

    def __init__(self) -> None:
        self.sent: list[object] = []
        self.end, self.model = open_local_channel(lambda take: None, lambda take: take())
        self.model.connect(dict.fromkeys(TO_MODEL, self.sent.append))

    def comes(self, message: object) -> None:
        """The model's side sends this message, for which nothing wakes the I/O loop yet."""
        self.model.send(message)


class SocketChannel:
    """The other end is in another process, which knows the session."""

    end: ChannelEnd

    def __init__(self) -> None:
        self.sent: list[object] = []
        self.end = SocketEnd(self.sent.append, {})
        self.end.begin(BeginSession("one", 1, 0.0))
        self.sent.clear()

    def comes(self, message: object) -> None:
        """The loop of the link receives this message."""
        self.end.deliver(message)


@pytest.fixture(params=[LocalChannel, SocketChannel], ids=["local", "socket"])
def channel(request):
    return request.param()


@pytest.fixture
def heard(channel):
    """What the functions of the end get."""
    heard: list[object] = []
    channel.end.connect(dict.fromkeys(FROM_MODEL, heard.append))
    return heard


def test_what_is_sent_comes_to_the_other_side_in_its_order(channel):
    channel.end.send(PAUSE)
    channel.end.send(WATCHED)
    assert channel.sent == [PAUSE, WATCHED]


def test_a_delivered_message_is_taken_at_once_behind_those_that_have_come(channel, heard):
    channel.comes(SLOWER)
    channel.end.deliver(LATE)
    assert heard == [SLOWER, LATE]
    channel.end.take()
    assert heard == [SLOWER, LATE]


def test_a_message_that_no_function_takes_is_a_fault_within_a_process_and_of_another_one_it_is_ignored():
    for channel, raised in (LocalChannel(), pytest.raises(KeyError, match="LateCall")), (SocketChannel(), nullcontext()):
        channel.end.connect({RetimePlayout: print})
        with raised:
            channel.end.deliver(LATE)


def test_an_open_end_drops_nothing(channel, heard):
    channel.comes(SLOWER)
    channel.end.send(PAUSE)
    channel.end.take()
    assert channel.end.dropped == 0


def test_a_closed_end_takes_each_call_and_drops_and_counts_each_message(channel, heard):
    channel.end.close()
    channel.end.send(PAUSE)
    channel.end.send(Command(1, 1, "draw", {}, None))
    channel.end.deliver(LATE)
    channel.comes(SLOWER)
    channel.end.take()
    channel.end.close()
    assert (channel.sent, heard, channel.end.dropped) == ([], [], 4)


def test_a_closed_end_lets_go_of_its_functions_without_the_garbage_collector(channel):
    def take(message: object) -> None:
        """Of the session."""

    gc.disable()
    try:
        kept = weakref.ref(take)
        channel.end.connect({RetimePlayout: take})
        channel.end.close()
        del take
        assert kept() is None
    finally:
        gc.enable()


# ---- what waits in an end that is closed ---------------------------------------------------------------------------------


def test_a_closed_local_end_counts_what_has_come_and_was_not_taken():
    channel = LocalChannel()
    channel.comes(SLOWER)
    channel.end.close()
    assert channel.end.dropped == 1


def test_an_end_that_is_closed_before_the_session_has_begun_drops_what_was_to_follow_the_begin():
    sent: list[object] = []
    end = SocketEnd(sent.append, {})
    end.send(PAUSE)
    end.close()
    end.send(WATCHED)
    assert (sent, end.dropped, end.begun) == ([], 2, False)


def test_a_closed_socket_end_drops_the_commands_that_wait_for_their_files_and_sends_no_further_piece():
    sent: deque[object] = deque()
    end = SocketEnd(sent.append, {})
    end.begin(BeginSession("one", 1, 0.0))
    file = UploadedFile("a.bin", "application/octet-stream", size := 9 << 20, bytes(size))
    for number in 1, 2:
        end.send(Command(number, 1, "load", {}, None, files={"u1": file}))
    assert sum(len(each.data) for each in sent if isinstance(each, FilePiece)) == 8 << 20  # what may be under way
    sent.clear()
    end.close()
    end.send(Command(3, 1, "load", {}, None, files={"u1": file}))
    assert (list(sent), end.dropped) == ([], 3)
