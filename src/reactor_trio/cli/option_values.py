"""What an option's text means, or one line that says what it should be."""

from __future__ import annotations

import argparse
import math
import re


def port(text: str) -> int:
    """0 to 65535."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def count(text: str) -> int:
    """1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def number(text: str) -> int:
    """0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def amount(text: str) -> float:
    """0 or more."""
    return 0.0 if text == "0" else seconds(text)


def seconds(text: str) -> float:
    """Above 0."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def host_name(text: str) -> str:
    """A name, or an address, of IPv6 also in brackets."""
    if not re.fullmatch(r"\[[0-9A-Fa-f:.%]+\]|[^\s:/?#@\[\]]+|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a host: a name or an address alone, without http:// and port")
    return text


def origin(text: str) -> str:
    """`scheme://host`, with a port if it is not the usual one, as browsers write it; or `*`."""
    plain = text.rstrip("/").lower()
    if plain != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+", plain):
        raise argparse.ArgumentTypeError(f"{text!r} is not an origin, such as https://studio.example")
    return plain


def share(text: str) -> float:
    """Of cards: 0 or more."""
    value = _number(text)
    if not 0 <= value <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs, such as 1 or 0.5")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
