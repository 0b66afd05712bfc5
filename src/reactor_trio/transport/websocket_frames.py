"""The frames that the server writes (RFC 6455, section 5): unmasked and unfragmented."""

from __future__ import annotations

import struct

from reactor_trio.protocol.close_codes import NO_STATUS

#: opcodes with the FIN bit
TEXT, BINARY, CLOSE, PING = 0x81, 0x82, 0x88, 0x89

#: Bytes as which a shorter frame counts, because each frame costs something.
LEAST_FRAME = 256

_MAX_REASON = 123


def frame_header(opcode: int, length: int) -> bytes:
    """Return the header of a frame with `length` bytes. `opcode` has the FIN bit."""
    if length < 126:
        return struct.pack("!BB", opcode, length)
    if length < 1 << 16:
        return struct.pack("!BBH", opcode, 126, length)
    return struct.pack("!BBQ", opcode, 127, length)


def close_frame(code: int, reason: str) -> bytes:
    """Return a close frame; `reason` is cut to the bytes that fit in it. With code 1005 the frame has no code."""
    cut = reason.encode()[:_MAX_REASON].decode(errors="ignore").encode()
    body = b"" if code == NO_STATUS else code.to_bytes(2, "big") + cut
    return frame_header(CLOSE, len(body)) + body
