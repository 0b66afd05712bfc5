"""A server of https and wss: its certificate, who connects, and what it says when the files are wrong."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import trio
from cryptography.hazmat.primitives import serialization
from tests.support.fault_checks import wait_for
from tests.support.fault_peers import reactor_run
from tests.support.tls_files import Files, serial, serial_in

from reactor_trio import RuntimeHost
from reactor_trio.client import connect
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.configuration.settings import AuthSettings, LimitSettings, Settings, TlsSettings
from reactor_trio.edge import certificates
from reactor_trio.edge.certificates import Certificates
from reactor_trio.errors import ManifestError
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.server.standby import serve_standby

TOKEN = "control-" + "t" * 16


class Picture(Output):
    main_video: Video


class Model(ReactorPipeline):
    output: Picture
    fps = 30

    def inference(self):
        while True:
            yield np.zeros((240, 320, 3), np.uint8)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_both_loops_watch_by_tls_with_a_token_in_the_header(files, monkeypatch):
    settings = Settings(port=0, tls=files.issue(), auth=AuthSettings(token=TOKEN))
    with RuntimeHost(Model, settings=settings) as host:
        assert re.fullmatch(r"https://127\.0\.0\.1:\d+/", host.url)

        async def watch():
            async with connect(host.url, token=TOKEN, video=["raw"], ssl_context=files.trust) as client:
                return (await anext(aiter(client.frames()))).data.shape

        assert trio.run(watch) == (240, 320, 3)
        assert asyncio.run(watch()) == (240, 320, 3)

        async def distrust():
            with pytest.raises(OSError, match=r"(?i)certificate"):
                async with connect(host.url, token=TOKEN):
                    pass

        trio.run(distrust)


async def test_a_connection_by_tls_counts_before_its_handshake_and_the_next_one_is_turned_away(files):
    settings = Settings(port=0, tls=files.issue(), limits=LimitSettings(connections=1))
    host = RuntimeHost(Model, settings=settings)
    url = await trio.to_thread.run_sync(host.start)
    port = int(url.rpartition(":")[2].strip("/"))
    try:
        async with await trio.open_tcp_stream("127.0.0.1", port) as silent:
            while not host.serving.runtime.metrics.connections:  # noqa: ASYNC110 - another thread's number
                await trio.sleep(0.01)
            async with await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=files.trust) as late:
                await late.send_all(b"GET /schema HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert (await late.receive_some()).startswith(b"HTTP/1.1 503 ")
            await silent.send_all(b"no TLS at all, so it is closed, and there is room again")
            assert b"".join([piece async for piece in silent]) == b""
    except trio.BrokenResourceError:
        pass  # reset, for its bytes were not all read
    finally:
        await trio.to_thread.run_sync(host.stop)


def test_no_version_of_tls_below_1_2_and_http_1_1_only(files):
    context = Certificates(files.issue()).context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE  # clients show tokens, not certificates


# The files


def unusable(tls: TlsSettings) -> str:
    with pytest.raises(ManifestError) as caught:
        Certificates(tls)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_wrong_files_are_errors_that_say_which_and_why(files, tmp_path):
    good = files.issue()
    other = files.issue(prefix="other-")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n")
    missing, folder = str(tmp_path / "missing.pem"), str(tmp_path)
    assert unusable(TlsSettings(missing)) == f"runtime.tls.certfile: cannot read {missing}: No such file or directory"
    assert unusable(TlsSettings(good.certfile, missing)).startswith(f"runtime.tls.keyfile: cannot read {missing}: No such")
    assert unusable(TlsSettings(folder)) == f"runtime.tls.certfile: cannot read {folder}: Is a directory"
    assert unusable(TlsSettings(good.keyfile, good.keyfile)).endswith("key.pem has no certificate in PEM form")
    assert unusable(TlsSettings(good.certfile)).endswith("cert.pem has no private key in PEM form")
    assert unusable(TlsSettings(good.certfile, good.certfile)).startswith("runtime.tls.keyfile: ")
    mismatch = unusable(TlsSettings(good.certfile, other.keyfile))
    assert mismatch == f"runtime.tls.keyfile: {other.keyfile} is not the key of the first certificate in {good.certfile}"
    assert unusable(TlsSettings(str(nonsense))).startswith(f"runtime.tls: {nonsense} and {nonsense} cannot be used: ")


def test_a_file_that_is_taken_away_while_it_is_read_is_an_error_of_the_files(files, monkeypatch):
    """It ended the server: who renews a certificate replaces its files, and SIGHUP may come in between."""
    settings = files.issue()
    monkeypatch.setattr(certificates, "_look_for", lambda *_: Path(settings.keyfile).unlink(missing_ok=True))
    assert unusable(settings).endswith("cannot be read: No such file or directory")


def test_a_key_with_a_password_is_refused_with_the_remedy(files):
    good = files.issue()
    key = serialization.load_pem_private_key(Path(good.keyfile).read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    )
    Path(good.keyfile).write_bytes(locked)
    assert unusable(good).startswith(f"runtime.tls.keyfile: {good.keyfile} is locked with a password; unlock a copy: ")


def test_certificate_and_key_may_stand_in_one_file_and_who_can_read_it_is_told(files, caplog):
    good = files.issue()
    whole = files.folder / "whole.pem"
    whole.write_bytes(Path(good.certfile).read_bytes() + Path(good.keyfile).read_bytes())
    whole.chmod(0o644)
    assert Certificates(TlsSettings(str(whole))).context
    (warning,) = caplog.records
    assert warning.getMessage() == f"runtime.tls.certfile: others may read {whole}; chmod 600 makes it yours alone"


def test_paths_in_the_manifest_are_relative_to_it(tmp_path):
    (tmp_path / "reactor.yaml").write_text(
        "model: m:M\nruntime: {tls: {certfile: tls/cert.pem}, auth: {token: file:secret, ticket_keys: [env:K, file:/a/b]}}\n"
    )
    settings = load_manifest(tmp_path).settings
    assert settings.tls == TlsSettings(str(tmp_path / "tls/cert.pem"), None)
    assert settings.auth == AuthSettings(token=f"file:{tmp_path}/secret", ticket_keys=("env:K", "file:/a/b"))


async def test_while_no_model_is_served_the_reason_goes_by_tls_and_not_to_who_may_not_come_in(files):
    """What answers while `reactor run --reload` waits for code that loads."""
    for auth, reason in ((None, b"line 7 is wrong"), (AuthSettings(token=TOKEN), b"see the server's log")):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        async with listener, trio.open_nursery() as nursery:
            settings = Settings(tls=files.issue(), auth=auth)
            nursery.start_soon(serve_standby, [listener], settings, "sky", "line 7 is wrong")
            async with await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=files.trust) as asking:
                await asking.send_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                answer = b"".join([piece async for piece in asking])
            nursery.cancel_scope.cancel()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert reason in answer
        assert b"line 7" not in answer or auth is None


# The whole server

MODEL = """
import numpy as np
from reactor_trio.interface import Output, ReactorPipeline, Video

class Picture(Output):
    main_video: Video

class Model(ReactorPipeline):
    def inference(self):
        while True:
            yield Picture(main_video=np.zeros((8, 8, 3), np.uint8))
"""


@contextmanager
def waiting_reader(fifo: Path) -> Iterator[None]:
    """Waits until a process reads from it, which gets nothing during the block."""
    ends: list[int] = []

    def opened() -> bool:
        with suppress(OSError):  # no reader yet
            ends.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        return bool(ends)

    wait_for(opened, "the reading")
    yield
    os.close(*ends)


def test_reactor_run_by_tls_serves_while_it_waits_for_a_certificate_and_takes_the_next(files, tmp_path):
    """A FIFO stands for a disk that does not answer."""
    tls = files.issue()
    arguments = ("--port", "0", "--certfile", tls.certfile, "--keyfile", tls.keyfile)
    with reactor_run(tmp_path, MODEL, *arguments) as server:
        first = serial(files, server.port)
        certificate = Path(tls.certfile)
        certificate.unlink()
        os.mkfifo(certificate)
        server.process.send_signal(signal.SIGHUP)
        with waiting_reader(certificate):
            assert serial(files, server.port) == first
            certificate.unlink()
            files.issue()
            server.process.send_signal(signal.SIGHUP)
            server.wait_log("the certificate was read again")
            assert serial(files, server.port) != first
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 0


def test_reactor_run_by_tls_takes_a_new_certificate_on_sighup(files, tmp_path):
    tls = files.issue()
    arguments = ("--port", "0", "--certfile", tls.certfile, "--keyfile", tls.keyfile)
    with reactor_run(tmp_path, MODEL, *arguments) as server:
        first = serial(files, server.port)
        files.issue()
        assert serial(files, server.port) == first
        server.process.send_signal(signal.SIGHUP)
        server.wait_log("the certificate was read again")
        second = serial(files, server.port)
        assert second != first
        Path(tls.certfile).write_text("gone")
        server.process.send_signal(signal.SIGHUP)
        server.wait_log("the certificate stays as it was: runtime.tls.certfile: .* has no certificate")
        assert serial(files, server.port) == second
        assert "Traceback" not in server.log


def test_sighup_during_the_load_is_not_lost(files, tmp_path):
    tls = files.issue()
    os.mkfifo(tmp_path / "weights")
    waits = "    def load(self, config):\n        open('weights').read()\n"
    model = MODEL.replace("    def inference", waits + "    def inference")
    arguments = ("--port", "0", "--certfile", tls.certfile, "--keyfile", tls.keyfile)
    with reactor_run(tmp_path, model, *arguments, ready=False) as server:
        with open(tmp_path / "weights", "w"):  # returns once the model loads: the server has read its certificate
            before = serial_in(tls)
            assert serial_in(files.issue()) != before
            server.process.send_signal(signal.SIGHUP)
        server.wait_ready()
        server.wait_log("the certificate was read again")
        assert serial(files, server.port) == serial_in(tls)
