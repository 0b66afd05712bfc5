"""Messages as bytes between two processes: MessagePack behind a head of a mark, the length and the number of the session.

Model code may write to a descriptor that is not its own. Without the mark, the next four bytes would be a length, and the
receiver would wait for up to 4 GiB that never come.

A frame in a message becomes a `Plane`, which says where the frame lies in memory that both processes map. Decoding makes the
array before anything looks at the message. So whatever becomes of the message, the memory is returned when the array is
gone: if its session is over, if its channel is closed, if its handler raises. An encoding that raises takes back what it has
shown.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from reactor_trio.interface.files import UploadedFile
from reactor_trio.media import FrameHandle, to_host

#: each message begins with it; no text has these bytes
MARK: Final = b"\xffRX\xfe"
#: the head of a message: the mark, the bytes of the message behind it, the number of its session
_HEAD: Final = struct.Struct("<4sII")
#: bytes of a head
HEAD: Final = _HEAD.size


class Plane(msgspec.Struct, frozen=True, array_like=True):
    """Where one frame's values lie: from byte `offset` of the shared memory on, or `inline` if `slot` is 0."""

    shape: tuple[int, ...]
    dtype: str
    slot: int = 0
    offset: int = 0
    inline: bytes = b""


class FrameSharing(Protocol):
    """The frames that two processes share.

    Attributes:
        unused: slots of the other process's frames that are no longer in use here.
    """

    unused: deque[int]

    def show(self, frame: npt.NDArray[Any]) -> Plane:
        """Describe a frame for the other process, which returns it later."""

    def see(self, plane: Plane) -> npt.NDArray[Any]:
        """Return the frame that the other process has shown, read-only. Raises ValueError if it lies nowhere."""

    def returned(self, slots: list[int]) -> None:
        """Note that the other process no longer uses the frames in these slots."""

    def returns(self) -> object:
        """The message that returns what is `unused`, which is empty then."""


class Wire:
    """Encodes the messages of this end of a link, and decodes those of the other end. One thread may use it.

    Args:
        message_types: a union of the messages that the other end may send.
    """

    def __init__(self, message_types: Any) -> None:
        self._parts = _Parts()
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._parts.pack)
        self._decoder = msgspec.msgpack.Decoder(message_types, dec_hook=self._parts.unpack)

    def share(self, frames: FrameSharing) -> None:
        """From now on, messages may have frames."""
        self._parts.frames = frames

    def close(self) -> None:
        """Let go of the frames that the two processes share. No message is encoded or decoded any more."""
        self._parts.frames = None

    def encode(self, message: object, session: int) -> bytes:
        """Return a message with its head. `session` is 0 for a message about no session.

        If frames of the other process are no longer in use here, the message that returns them goes ahead in the same bytes.
        """
        parts = self._parts
        try:
            body = self._encoder.encode(message)
        except BaseException:
            if parts.frames is not None:
                parts.frames.returned(parts.shown)
            raise
        finally:
            parts.shown.clear()
        whole = _HEAD.pack(MARK, len(body), session) + body
        if parts.frames is None or not parts.frames.unused:
            return whole
        ahead = self._encoder.encode(parts.frames.returns())
        return b"".join((_HEAD.pack(MARK, len(ahead), 0), ahead, whole))

    def decode(self, buffer: bytearray) -> tuple[Any, int, int] | None:
        """Decode the first message of `buffer`: the message, its session, and its bytes. None if it is not yet complete.

        Raises ValueError as soon as the first bytes cannot begin a head, and if the message cannot be decoded.
        """
        here = len(buffer)
        mark, size, session = _HEAD.unpack_from(buffer) if here >= HEAD else (buffer[: len(MARK)], 0, 0)
        if mark != MARK[:here]:
            raise ValueError("it has no head")
        if here < (end := HEAD + size):
            return None
        return self._decoder.decode(memoryview(buffer)[HEAD:end]), session, end


class _Parts:
    """What MessagePack does not know: uploaded files and frames.

    Attributes:
        frames: those that the two processes share; None: no message has a frame.
        shown: the slots that the message in progress has shown.
    """

    frames: FrameSharing | None = None

    def __init__(self) -> None:
        self.shown: list[int] = []

    def pack(self, value: object) -> object:
        if isinstance(value, UploadedFile):
            return value.name, value.mime_type, value.size, value.data
        if self.frames is None:
            raise NotImplementedError
        frame: FrameHandle = value  # type: ignore[assignment]
        plane = self.frames.show(to_host(frame))
        if plane.slot:
            self.shown.append(plane.slot)
        return plane

    def unpack(self, kind: type, packed: Any) -> object:
        if kind is UploadedFile:
            return UploadedFile(*packed)
        assert kind is np.ndarray
        assert self.frames is not None
        return self.frames.see(Plane(*packed))
