"""The check of a certificate and its key: it makes one TLS handshake with them in memory."""

from __future__ import annotations

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from reactor_trio.cli.doctor.finding import Finding, ok, problem, warning

#: A certificate that expires within this time gets a warning.
SOON = timedelta(days=14)


def check_tls(certfile: Path, keyfile: Path | None) -> Finding:
    """Check that chain and key are readable, match, and are valid now. Without `keyfile` the key is in `certfile`."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # Without this, OpenSSL would ask for a password on the terminal, which a service does not have.
        server.load_cert_chain(certfile, keyfile, password=lambda: "")
    except FileNotFoundError:
        missing = certfile if not certfile.exists() else keyfile
        return problem("tls", f"no such file: {missing}", "correct --certfile and --keyfile")
    except (ssl.SSLError, OSError) as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            return problem("tls", f"{keyfile} is not the key of {certfile}", "give the certificate's own key")
        text = getattr(error, "reason", None) or error.strerror or str(error)
        files = f"{certfile} and {keyfile or 'its key'}"
        return problem("tls", f"{files} cannot be used: {text}", "give PEM files without a password")
    try:
        ends = _end_of(server, certfile)
    except ssl.SSLCertVerificationError as error:
        return problem("tls", f"{certfile}: {error.verify_message}", "renew it, and check this machine's date")
    left = ends - datetime.now(UTC)
    if left < SOON:
        return warning("tls", f"{certfile} ends on {ends:%Y-%m-%d}, in {left.days} days", "renew it")
    return ok("tls", f"{certfile} is valid until {ends:%Y-%m-%d}")


def _end_of(server: ssl.SSLContext, certfile: Path) -> datetime:
    """Return the certificate's expiry time, from a handshake with a client that trusts only this certificate."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(certfile)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server)
    there = server.wrap_bio(to_server, to_client, server_side=True)
    unfinished = {here, there}
    while unfinished:
        for side in tuple(unfinished):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
                unfinished.discard(side)
    found = here.getpeercert()
    assert found is not None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(found["notAfter"])), UTC)
