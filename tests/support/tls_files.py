"""Certificates of an authority as files, and the one that a port shows."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import trustme
from cryptography import x509

from reactor_trio.configuration.settings import TlsSettings


class Files:
    """Certificates of one authority, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()

    def issue(self, name: str = "127.0.0.1", prefix: str = "") -> TlsSettings:
        cert = self.authority.issue_cert(name, "localhost")
        certfile, keyfile = self.folder / f"{prefix}cert.pem", self.folder / f"{prefix}key.pem"
        certfile.write_bytes(b"".join(blob.bytes() for blob in cert.cert_chain_pems))
        keyfile.write_bytes(cert.private_key_pem.bytes())
        keyfile.chmod(0o600)
        return TlsSettings(str(certfile), str(keyfile))

    @property
    def trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


def serial(files: Files, port: int) -> int:
    """The serial number of the certificate that a port shows. Blocks."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as tcp:
        with files.trust.wrap_socket(tcp, server_hostname="127.0.0.1") as tls:
            return int(tls.getpeercert()["serialNumber"], 16)


def serial_in(tls: TlsSettings) -> int:
    """The serial number of the certificate in a file."""
    return x509.load_pem_x509_certificate(Path(tls.certfile).read_bytes()).serial_number
