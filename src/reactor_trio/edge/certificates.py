"""`Certificates`: the server's TLS certificate, checked at the start and at each renewal.

A thread reads the files: a loop that reads a file of a slow or dead disk, or a FIFO, serves no client meanwhile.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import trio

from reactor_trio.configuration.credentials import warn_if_readable
from reactor_trio.configuration.settings import TlsSettings
from reactor_trio.errors import ManifestError

T = TypeVar("T")

log = logging.getLogger("reactor_trio.edge")


class Certificates:
    """The TLS context (1.2 and above) with the certificate of `settings`.

    Attributes:
        context: for new connections; open connections keep theirs.

    Raises ManifestError for files that cannot be read, have the wrong content, or do not belong together.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._asked = trio.Event()
        self.context = _context(settings)

    @classmethod
    async def read(cls, settings: TlsSettings | None) -> Certificates | None:
        """Read the files, in a thread; None without settings. Raises as the class does; cancelled, it leaves the thread."""
        return None if settings is None else await _in_thread(cls, settings)

    def renew(self) -> None:
        """Let `run` read the files again. Returns at once."""
        self._asked.set()

    async def run(self) -> None:
        """Task: after each `renew` read the files, in a thread. If they cannot be used, log why and keep the certificate.

        A newer `renew` ends an older reading that waits for its file. When cancelled it leaves the thread to itself.
        """
        reading = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            while True:
                await self._asked.wait()
                self._asked = trio.Event()
                reading.cancel()
                reading = trio.CancelScope()
                nursery.start_soon(self._read_again, reading)

    async def _read_again(self, scope: trio.CancelScope) -> None:
        with scope:
            try:
                self.context = await _in_thread(_context, self._settings)
            except ManifestError as error:
                log.error("the certificate stays as it was: %s", error)
            else:
                log.info("the certificate was read again")


async def _in_thread(function: Callable[[TlsSettings], T], settings: TlsSettings) -> T:
    # A thread that was left may read for ever. With a limiter of its own it takes nothing of Trio's.
    return await trio.to_thread.run_sync(function, settings, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))


def _context(settings: TlsSettings) -> ssl.SSLContext:
    certfile, keyfile = Path(settings.certfile), Path(settings.keyfile or settings.certfile)
    key = "runtime.tls.keyfile" if settings.keyfile is not None else "runtime.tls.certfile"
    _look_for("-----BEGIN CERTIFICATE-----", "certificate", certfile, "runtime.tls.certfile")
    _look_for("PRIVATE KEY-----", "private key", keyfile, key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        warn_if_readable(keyfile, key)
        context.load_cert_chain(certfile, keyfile, password=_Locked.refuse)
    except _Locked:
        raise ManifestError(
            f"{key}: {keyfile} is locked with a password; unlock a copy: openssl pkey -in {keyfile.name} -out key.pem"
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ManifestError(f"{key}: {keyfile} is not the key of the first certificate in {certfile}") from None
        why = (error.reason or "not readable PEM").lower().replace("_", " ")
        raise ManifestError(f"runtime.tls: {certfile} and {keyfile} cannot be used: {why}") from None
    except OSError as error:  # what replaces the files has taken one away meanwhile
        raise ManifestError(f"runtime.tls: {certfile} and {keyfile} cannot be read: {error.strerror}") from None
    return context


def _look_for(mark: str, what: str, path: Path, key: str) -> None:
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise ManifestError(f"{key}: cannot read {path}: {error.strerror}") from None
    if mark not in text:
        raise ManifestError(f"{key}: {path} has no {what} in PEM form")


class _Locked(Exception):
    """The private key is encrypted, and a server that starts cannot ask for its password."""

    @classmethod
    def refuse(cls) -> str:
        raise cls
