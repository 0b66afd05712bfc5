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


def _decimal(fits: Callable[[float], bool], expected: str) -> Callable[[str], float]:
    def value(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not math.isfinite(found) or not fits(found):
            raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
        return found

    return value


seconds = _decimal(lambda value: value > 0, "a number of seconds above 0")
rate = _decimal(lambda value: value > 0, "a number above 0")
amount = _decimal(lambda value: value >= 0, "a number, 0 or more")
share = _decimal(lambda value: 0 <= value <= 1, "a share, from 0 to 1")
gpus = _decimal(
    lambda value: 0 <= value <= 1024 and (value < 1 or value == int(value)),
    "a number of GPUs: a whole one, or less than 1 to share one",
)


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


