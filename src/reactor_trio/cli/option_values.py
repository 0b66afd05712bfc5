"""Types of option values: each function parses an option's text, or raises ArgumentTypeError with what it should be."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable


def _whole(least: int, most: float, expected: str) -> Callable[[str], int]:
    def value(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
        return int(text)

    return value


port = _whole(0, 65535, "a port (0 to 65535)")
count = _whole(1, math.inf, "a whole number above 0")
number = _whole(0, math.inf, "a whole number, 0 or more")


def amount(text: str) -> float:
    """A number, 0 or more."""
    return 0.0 if text == "0" else seconds(text)


def seconds(text: str) -> float:
    """A finite number above 0."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def address(text: str) -> dict[str, str | int]:
    """`HOST:PORT`, or `PORT` alone, which is one of this machine for itself."""
    host, _, number = text.rpartition(":")
    found: dict[str, str | int] = {"port": port(number)}
    return found | ({"host": host_name(host).strip("[]")} if host else {})


def host_name(text: str) -> str:
    """A host name or an IP address; IPv6 with or without brackets."""
    if not re.fullmatch(r"\[[0-9A-Fa-f:.%]+\]|[^\s:/?#@\[\]]+|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a host: a name or an address alone, without http:// and port")
    return text


def origin(text: str) -> str:
    """A web origin as browsers write it, `scheme://host` with a port unless it is the default one; or `*`."""
    plain = text.rstrip("/").lower()
    if plain != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+", plain):
        raise argparse.ArgumentTypeError(f"{text!r} is not an origin, such as https://studio.example")
    return plain


def share(text: str) -> float:
    """A number of GPUs, 0 to 1024, or a fraction of one."""
    value = _number(text)
    if not 0 <= value <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs, such as 1 or 0.5")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
