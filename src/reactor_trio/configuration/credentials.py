"""The secrets of the manifest. Each is a literal, `env:NAME` or `file:PATH`, and is read once, when the server starts.

An error names the manifest's key and the remedy, never the secret.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from reactor_trio.errors import ManifestError

log = logging.getLogger("reactor_trio.server")

#: The least characters of a token and bytes of a ticket key. HS256 needs 32 (RFC 7518 section 3.2).
TOKEN_LENGTH, KEY_LENGTH = 16, 32

_MAKE = "make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
_MOST = 64 * 1024


def read_token(text: str, key: str) -> bytes:
    """Read a token that clients send in a header. `key` is the manifest's, for errors. Raises ManifestError."""
    token = _read(text, key)
    if not all(33 <= byte <= 126 for byte in token):
        raise ManifestError(f"{key}: a token may have visible ASCII characters only, without spaces; {_MAKE}")
    if len(token) < TOKEN_LENGTH:
        raise ManifestError(f"{key}: {len(token)} characters, a token needs {TOKEN_LENGTH} or more; {_MAKE}")
    return token


def read_key(text: str, key: str) -> bytes:
    """Read a key that signs tickets. `key` is the manifest's, for errors. Raises ManifestError."""
    secret = _read(text, key)
    if len(secret) < KEY_LENGTH:
        raise ManifestError(f"{key}: {len(secret)} bytes, a key needs {KEY_LENGTH} or more; {_MAKE}")
    return secret


def under(folder: Path, text: str) -> str:
    """Return `text`; if it is `file:PATH`, with the path relative to `folder` made absolute."""
    return f"file:{folder / Path(text[5:]).expanduser()}" if text.startswith("file:") else text


def warn_if_readable(path: str | Path, key: str) -> None:
    """Log a warning if other users may read the secret in the file `path`."""
    if stat.S_IMODE(os.stat(path).st_mode) & (stat.S_IRGRP | stat.S_IROTH):
        log.warning("%s: others may read %s; chmod 600 makes it yours alone", key, path)


def _read(text: str, key: str) -> bytes:
    match text.partition(":"):
        case "env", ":", name:
            if (found := os.environb.get(os.fsencode(name))) is None:
                raise ManifestError(f"{key}: the environment has no variable {name}; set it, or remove the key")
            secret, where = found, f"the variable {name}"
        case "file", ":", path:
            try:
                with open(path, "rb") as file:
                    secret, where = file.read(_MOST), path
                warn_if_readable(path, key)
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or "not a path"
                raise ManifestError(f"{key}: cannot read {path}: {why}") from None
        case _:
            secret, where = text.encode(), "it"
    secret = secret.strip()  # editors and `echo` end a file with a newline
    if not secret:
        raise ManifestError(f"{key}: {where} is empty; {_MAKE}")
    return secret
