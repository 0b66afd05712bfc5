"""JPEG files that are good and small, and cost as much as their scans say."""

from __future__ import annotations


def _segment(marker: int, data: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(data) + 2).to_bytes(2, "big") + data


def jpeg_of_scans(scans: int, side: int = 8, frame: int = 0xC2) -> bytes:
    """A grey progressive picture. Each scan after the first says in a few bits that it changes nothing.

    Args:
        side: width and height in pixels, a multiple of 8.
        frame: the marker of its frame: 0xC2 is progressive with Huffman coding.
    """
    blocks = (side // 8) ** 2
    tables = _segment(0xDB, b"\0" + bytes([16] * 64))
    tables += _segment(frame, b"\x08" + side.to_bytes(2, "big") * 2 + b"\x01\x01\x11\0")
    tables += _segment(0xC4, b"\0" + bytes([1] + [0] * 15) + b"\0")  # the bit 0: the same as the block before
    tables += _segment(0xC4, b"\x10" + bytes([1] + [0] * 15) + b"\xe0")  # the bit 0: nothing in 2**14 blocks and more
    first = _segment(0xDA, b"\x01\x01\0\0\0\0") + b"\0" * ((blocks + 7) // 8)
    bits = ("0" + "1" * 14) * -(-blocks // (2**15 - 1))
    bits += "1" * (-len(bits) % 8)
    nothing = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)).replace(b"\xff", b"\xff\0")
    return b"\xff\xd8" + tables + first + (_segment(0xDA, b"\x01\x01\0\x01\x3f\0") + nothing) * (scans - 1) + b"\xff\xd9"
