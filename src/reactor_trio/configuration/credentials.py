"""Secrets of the manifest: a literal, `env:NAME` or `file:PATH`, read once when the server starts.

An error names the key and what to do, never the secret.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from reactor_trio.errors import ManifestError

log = logging.getLogger("reactor_trio.server")

#: Characters of a token and bytes of a ticket key, at least. A key for HS256 has 32 (RFC 7518 section 3.2).
TOKEN_LENGTH, KEY_LENGTH = 16, 32

_MAKE = "make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
_MOST = 64 * 1024


def read_token(text: str, key: str) -> bytes:
    """A token that travels in a header. Raises ManifestError naming `key`, the manifest's."""
    token = _read(text, key)
    if not all(33 <= byte <= 126 for byte in token):
        raise ManifestError(f"{key}: a token may have visible ASCII characters only, without spaces; {_MAKE}")
    if len(token) < TOKEN_LENGTH:
        raise ManifestError(f"{key}: {len(token)} characters, a token needs {TOKEN_LENGTH} or more; {_MAKE}")
    return token


def read_key(text: str, key: str) -> bytes:
    """A key that signs tickets. Raises ManifestError naming `key`, the manifest's."""
    secret = _read(text, key)
    if len(secret) < KEY_LENGTH:
        raise ManifestError(f"{key}: {len(secret)} bytes, a key needs {KEY_LENGTH} or more; {_MAKE}")
    return secret


def under(folder: Path, text: str) -> str:
    """`text` with the path of a `file:` made absolute from `folder`."""
    kind, colon, path = text.partition(":")
    return f"file:{folder / Path(path).expanduser()}" if colon and kind == "file" else text


def warn_if_readable(path: str | Path, key: str) -> None:
    """Log a warning if others than its owner may read the secret in the file `path`."""
    if stat.S_IMODE(os.stat(path).st_mode) & (stat.S_IRGRP | stat.S_IROTH):
        log.warning("%s: others may read %s; chmod 600 makes it yours alone", key, path)


def _read(text: str, key: str) -> bytes:
    kind, colon, rest = text.partition(":")
    if colon and kind == "env":
        found = os.environb.get(os.fsencode(rest))
        if found is None:
            raise ManifestError(f"{key}: the environment has no variable {rest}; set it, or remove the key")
        secret, where = found, f"the variable {rest}"
    elif colon and kind == "file":
        try:
            with open(rest, "rb") as file:
                secret, where = file.read(_MOST), rest
            warn_if_readable(rest, key)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "not a path"
            raise ManifestError(f"{key}: cannot read {rest}: {why}") from None
    else:
        secret, where = text.encode(), "it"
    secret = secret.strip()  # editors and `echo` end a file with a newline
    if not secret:
        raise ManifestError(f"{key}: {where} is empty; {_MAKE}")
    return secret
