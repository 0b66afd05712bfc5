"""Binary messages: one MessagePack array for each frame of a track. Video and audio, output and input share the form.

    [track, seq, pts_us, flags, command, step, meta, payload]

The payload is the last field. A sender can therefore write the fields before it (`packet_head`) and then the payload
itself, without a copy that joins them: a raw 720p picture is 2.7 MB, and a copy of it costs more than the rest of the
message.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from reactor_trio.errors import ProtocolError
from reactor_trio.protocol.text import readable

#: Bit 0 of `flags`: the payload can be decoded without any packet before it.
KEYFRAME = 1
#: Least seconds between two requests for a keyframe of one track (`reactor.keyframe`), in either direction.
KEYFRAME_REQUEST_FLOOR = 0.5

# MessagePack's formats: an array of 8 items (in place of the encoder's 7), and bytes with a 32-bit length
_ARRAY_OF_8, _BIN_32 = b"\x98", b"\xc6"


class Packet(msgspec.Struct, array_like=True):
    """One frame of one track on the wire.

    Attributes:
        track: index of the track in `reactor.welcome`.
        seq: number of the frame in its track, from 0, given when the session accepts it; a gap is a dropped frame.
        pts_us: presentation time in microseconds since the session began.
        flags: bit 0 is set for a keyframe.
        command: id of the controlling client's newest command that was applied before the model made the frame, or None.
        step: number of the model step that made the frame, from 0.
        meta: additional fields; receivers ignore keys that they do not know.
        payload: the encoded frame. In a decoded packet it is a view of the message, not a copy.
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


_Scalar = str | int | float | bool | None | msgspec.UnsetType


class _ClientMeta(msgspec.Struct):
    """What the server reads of a client's `meta`."""

    codec: _Scalar = msgspec.UNSET
    width: _Scalar = msgspec.UNSET
    height: _Scalar = msgspec.UNSET
    matrix: _Scalar = msgspec.UNSET
    full_range: _Scalar = msgspec.UNSET
    sample_rate: _Scalar = msgspec.UNSET
    capture_time_us: _Scalar = msgspec.UNSET
    metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _ClientPacket(msgspec.Struct, array_like=True):
    """A `Packet` from a client. What the server does not read of it becomes no object: 4 MiB of lists would take seconds."""

    track: int
    seq: int
    pts_us: int
    flags: int
    command: int | None
    step: int
    meta: _ClientMeta
    payload: memoryview


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Packet)
_client_decoder = msgspec.msgpack.Decoder(_ClientPacket)
_bytes_decoder = msgspec.msgpack.Decoder(bytes)


def packet_head(
    track: int, seq: int, pts_us: int, flags: int, command: int | None, step: int, meta: dict[str, Any], payload: memoryview
) -> bytes:
    """Encode all of a packet with these fields except the payload's bytes, which follow this head on the wire."""
    fields = _encoder.encode((track, seq, pts_us, flags, command, step, meta))
    return b"".join((_ARRAY_OF_8, fields[1:], _BIN_32, payload.nbytes.to_bytes(4, "big")))


def encode_packet(packet: Packet) -> bytes:
    """Encode `packet` as one message."""
    return b"".join((packet_head(*msgspec.structs.astuple(packet)), packet.payload))


def decode_packet(data: bytes | bytearray | memoryview) -> Packet:
    """Decode the packet in `data`. Raises ProtocolError."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError(f"not a packet of the protocol: {readable(error)}") from None


def decode_client_packet(data: bytes | bytearray | memoryview) -> Packet:
    """Decode the packet of a client in `data`; of its `meta`, what the server reads. Raises ProtocolError.

    `metadata` that is not bytes is left out. Any other value that is a list or a map is an error.
    """
    try:
        packet = _client_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError(f"not a packet of the protocol: {readable(error)}") from None
    given = msgspec.structs.asdict(packet.meta)
    metadata = given.pop("metadata")
    meta = {key: value for key, value in given.items() if value is not msgspec.UNSET}
    if metadata is not msgspec.UNSET:
        with suppress(msgspec.MsgspecError):
            meta["metadata"] = _bytes_decoder.decode(metadata)
    return Packet(
        packet.track, packet.seq, packet.pts_us, packet.flags, packet.command, packet.step, meta, packet.payload
    )  # fmt: skip
