"""Messages as bytes: their heads, and what becomes of the frames in them; the memory is a stand-in that counts."""

from __future__ import annotations

from collections import deque

import msgspec
import numpy as np
import pytest

from reactor_trio.crossing.messages import FROM_MODEL, TO_MODEL, Command, FromModel, InputArrived, RetimePlayout, ToModel
from reactor_trio.crossing.wire import HEAD, Plane, Wire
from reactor_trio.interface import UploadedFile
from reactor_trio.media import Bundle, Origin

FRAME = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)


class Memory:
    """Both processes' view of one memory: by number, the frames that are shown and not yet returned."""

    def __init__(self) -> None:
        self.frames: dict[int, np.ndarray] = {}
        self.seen: list[int] = []
        self.unused: deque[int] = deque()

    def show(self, frame):
        plane = Plane(frame.shape, frame.dtype.str, len(self.frames) + 1)
        self.frames[plane.slot] = frame
        return plane

    def see(self, plane):
        self.seen.append(plane.slot)
        return self.frames[plane.slot]

    def returned(self, slots):
        for slot in slots:
            del self.frames[slot]

    def returns(self):
        return RetimePlayout(float(self.unused.popleft()))  # any message without frames


@pytest.fixture
def wire():
    wire, memory = Wire(ToModel | FromModel | InputArrived), Memory()
    wire.share(memory)
    return wire, memory


def bundle(**tracks):
    return Bundle(tracks, dict.fromkeys(tracks, 7), 0.1, True, Origin(3, 4), 1.5, 1, 2.0)


def test_a_bundle_of_several_tracks_arrives_as_it_was(wire):
    wire, _memory = wire
    sent = bundle(main=FRAME, depth=FRAME[:1])
    data = wire.encode(sent, 2**32 - 1)
    came, session, size = wire.decode(bytearray(data + b"next"))
    assert (session, size) == (2**32 - 1, len(data))
    assert came.tracks["main"].tolist() == FRAME.tolist()
    assert came.tracks["depth"].tolist() == FRAME[:1].tolist()
    assert msgspec.structs.replace(came, tracks={}) == msgspec.structs.replace(sent, tracks={})


def test_a_message_is_decoded_when_all_of_it_is_there(wire):
    wire, memory = wire
    data = wire.encode(InputArrived("camera", FRAME, 0.5, b"m", 9), 5)
    for end in range(len(data)):
        assert wire.decode(bytearray(data[:end])) is None
    assert memory.seen == []
    message, session, _ = wire.decode(bytearray(data))
    assert (session, message.track, message.pts, message.metadata, message.capture_time_us) == (5, "camera", 0.5, b"m", 9)
    assert memory.seen == [1]
    assert len(data) > HEAD


def test_an_encoding_that_fails_takes_back_what_it_has_shown(wire):
    wire, memory = wire
    broken = bundle(main=FRAME, other=object())
    with pytest.raises(AttributeError):
        wire.encode(broken, 1)
    assert memory.frames == {}
    wire.encode(bundle(main=FRAME), 1)
    assert list(memory.frames) == [1], "what a later message shows stays"


def test_what_is_no_longer_used_goes_ahead_in_the_same_bytes(wire):
    wire, memory = wire
    memory.unused.append(7)
    data = bytearray(wire.encode(bundle(main=FRAME), 3))
    ahead, session, size = wire.decode(data)
    assert (ahead, session) == (RetimePlayout(7.0), 0)
    del data[:size]
    came, session, size = wire.decode(data)
    assert (came.tracks["main"].tolist(), session, size) == (FRAME.tolist(), 3, len(data))
    assert wire.decode(bytearray(wire.encode(RetimePlayout(0.5), 3)))[1] == 3, "it is said once"


def test_an_encoding_that_fails_returns_nothing(wire):
    wire, memory = wire
    memory.unused.append(7)
    with pytest.raises(AttributeError):
        wire.encode(bundle(other=object()), 1)
    assert list(memory.unused) == [7], "the next message takes it along"


def test_files_cross_with_a_command(wire):
    wire, _memory = wire
    file = UploadedFile("a.png", "image/png", 3, b"abc")
    sent = Command(1, 2, "look", {}, 3, files={"f1": file}, data=b'{"file":"f1"}')
    came, *_ = wire.decode(bytearray(wire.encode(sent, 1)))
    assert (came.files["f1"].name, came.files["f1"].data) == ("a.png", b"abc")
    assert msgspec.structs.replace(came, files={}) == msgspec.structs.replace(sent, files={})


def test_a_wire_without_frames_refuses_them():
    wire = Wire(ToModel | FromModel)
    with pytest.raises(NotImplementedError):
        wire.encode(bundle(main=FRAME), 1)
    wire.encode(RetimePlayout(0.5), 1)


def test_the_tags_of_all_messages_differ():
    tags = [kind.__struct_config__.tag for kind in (*TO_MODEL, *FROM_MODEL)]
    assert len(tags) == len(set(tags))
