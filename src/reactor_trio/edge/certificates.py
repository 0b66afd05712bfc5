"""`Certificates`: the server's TLS certificate, checked at the start and at each renewal."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from reactor_trio.configuration.credentials import warn_if_readable
from reactor_trio.configuration.settings import TlsSettings
from reactor_trio.errors import ManifestError

log = logging.getLogger("reactor_trio.server")


class Certificates:
    """The TLS context (1.2 and above) with the certificate of `settings`.

    Attributes:
        context: for new connections; open connections keep theirs.

    Raises ManifestError for files that cannot be read, have the wrong content, or do not belong together.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self.context = _context(settings)

    def renew(self) -> None:
        """Read the files again. If they cannot be used, log why and keep the certificate."""
        try:
            self.context = _context(self._settings)
        except ManifestError as error:
            log.error("the certificate stays as it was: %s", error)
        else:
            log.info("the certificate was read anew")


def _context(settings: TlsSettings) -> ssl.SSLContext:
    certfile, keyfile = Path(settings.certfile), Path(settings.keyfile or settings.certfile)
    key = "runtime.tls.keyfile" if settings.keyfile is not None else "runtime.tls.certfile"
    _look_for("-----BEGIN CERTIFICATE-----", "certificate", certfile, "runtime.tls.certfile")
    _look_for("PRIVATE KEY-----", "private key", keyfile, key)
    warn_if_readable(keyfile, key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
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
