"""Binary messages: one MessagePack array per frame of a track, the same for video and audio and in both directions.

    [track, seq, pts_us, flags, command, step, meta, payload]

The payload is last, so that a sender can write everything before it (`packet_head`) and then the payload itself, without
joining the two: a raw 720p picture is 2.7 MB, and each copy of it costs more than the rest of the message.
"""

from __future__ import annotations

from typing import Any

import msgspec

from reactor_trio.errors import ProtocolError
from reactor_trio.protocol.text import readable

#: Bit 0 of `flags`: the payload can be decoded without any packet before it.
KEYFRAME = 1

_FIXARRAY_7, _FIXARRAY_8 = 0x97, 0x98


class Packet(msgspec.Struct, array_like=True):
    """One frame of one track on the wire.

    Attributes:
        track: index of the track in `reactor.welcome`.
        seq: number given when the model's frame was accepted; a gap is a dropped frame.
        pts_us: presentation time in microseconds since the session began.
        flags: bit 0 = keyframe.
        command: id of the controlling client's newest command that the frame was made with, or None.
        step: number of the model step that made it, from 0.
        meta: further facts; receivers ignore keys they do not know.
        payload: the encoded frame; on decoding a view of the message, not a copy.
    """

    track: int
    seq: int
    pts_us: int
    flags: int
    command: int | None
    step: int
    meta: dict[str, Any]
    payload: memoryview

    @property
    def keyframe(self) -> bool:
        """Whether the payload can be decoded without any packet before it."""
        return bool(self.flags & KEYFRAME)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Packet)


def packet_head(packet: Packet) -> bytes:
    """Everything of `packet` that stands before its payload."""
    fields = bytearray(
        _encoder.encode(
            (packet.track, packet.seq, packet.pts_us, packet.flags, packet.command, packet.step, packet.meta)
        )
    )
    assert fields[0] == _FIXARRAY_7
    fields[0] = _FIXARRAY_8
    fields += b"\xc6" + packet.payload.nbytes.to_bytes(4, "big")
    return bytes(fields)


def encode_packet(packet: Packet) -> bytes:
    """`packet` as one piece."""
    return b"".join((packet_head(packet), packet.payload))


def decode_packet(data: bytes | bytearray | memoryview) -> Packet:
    """The packet in `data`. Raises ProtocolError."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError(f"not a packet of the protocol: {readable(error)}") from None
