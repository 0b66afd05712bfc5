"""By which names a server may be called, and the addresses that it prints."""

from __future__ import annotations

import errno
import os
import socket
from urllib.parse import urlsplit

import numpy as np
import pytest
import trio

from reactor_trio import serve
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.own_addresses import is_own_address, page_urls, reachable_hosts
from reactor_trio.edge.request_policy import RequestPolicy
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.server.standby import standby_site
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_exchange import answer_to
from reactor_trio.transport import Request

NAME = "gpu-box"
#: RFC 5737: nobody's
ELSEWHERE = "203.0.113.7"
FOREIGN = ["evil.example", f"{NAME}.evil.example", f"evil.{NAME}", ELSEWHERE, f"{ELSEWHERE}.evil.example", "2001:db8::7"]


class Picture(Output):
    main_video: Video


class Model(ReactorPipeline):
    output: Picture

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


@pytest.fixture(autouse=True)
def _name(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "GPU-Box")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_who_listens_at_all_addresses_is_called_by_each_of_them_and_by_its_name(host):
    doorman = RequestPolicy(Settings(host=host))
    for own in (NAME, host, "127.0.0.1", "localhost", "::1", *reachable_hosts(host)):
        assert doorman.hosts_allowed(own), own
    for foreign in FOREIGN:
        assert not doorman.hosts_allowed(foreign), foreign


def test_sockets_that_listen_at_all_addresses_count_whatever_the_manifest_says():
    assert RequestPolicy(Settings(host="0"), "0.0.0.0").hosts_allowed(NAME)


def test_who_listens_at_one_address_is_called_by_it_and_by_its_name_in_the_manifest():
    doorman = RequestPolicy(Settings(host="gpu.example"), "192.0.2.7")
    assert doorman.hosts_allowed("gpu.example")
    assert doorman.hosts_allowed("192.0.2.7")
    for other in (NAME, "192.0.2.8", *FOREIGN):
        assert not doorman.hosts_allowed(other), other


async def test_what_stands_in_for_a_server_answers_to_the_same_names():
    site = standby_site(Settings(host="0.0.0.0"), "sky", "it does not load")

    def status(host):
        request = Request(method="GET", path="/", host=host, authority=host)
        return answer_to(site, request).status

    assert status(NAME) == 200
    assert status("evil.example") == 421


async def test_the_log_names_the_host_that_is_not_listed_and_shortens_it(autojump_clock, caplog):
    caplog.set_level("INFO", "reactor_trio.edge")
    async with open_server(Model) as server:
        for host in ("studio.example", "x" * 1000):
            request = Request(method="GET", path="/health", host=host, authority=host, peer="127.0.0.1:9")
            assert answer_to(server._site, request).status == 421
            await trio.sleep(10)  # the log has one line of this kind in so many seconds
    lines = [line.partition(" was refused, 421 ")[0] for line in caplog.messages if " was refused, 421 " in line]
    assert lines == [
        "127.0.0.1:9, a request for the host studio.example,",
        f"127.0.0.1:9, a request for the host {'x' * 177},",
    ]


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True), ("::1", True), (ELSEWHERE, False), ("2001:db8::7", False),
        ("localhost", False), (NAME, False), ("", False), ("127.0.0.1.evil.example", False), ("127.1", False),
        ("0x7f.0.0.1", False), ("0177.0.0.1", False), ("127.0.0.1:80", False), ("::1%lo", False),
        ("0.0.0.0", False), ("::", False), ("224.0.0.1", False), ("255.255.255.255", False),
    ],
)  # fmt: skip
def test_an_own_address_is_an_address_and_no_name(host, own):
    assert is_own_address(host) is own


@pytest.mark.parametrize(("host", "loopback"), [("0.0.0.0", "127.0.0.1"), ("::", "::1")])
def test_without_a_network_there_is_loopback(host, loopback, monkeypatch):
    class Socket(socket.socket):
        def connect(self, _address):
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket, "socket", Socket)
    assert reachable_hosts(host) == [loopback]


@pytest.mark.parametrize(("refusal", "own"), [(errno.EAFNOSUPPORT, False), (errno.EMFILE, True)])
def test_a_system_that_gives_no_socket_has_no_such_address_unless_it_has_nothing_left(refusal, own, monkeypatch):
    def no_socket(*_args):
        raise OSError(refusal, os.strerror(refusal))

    doorman = RequestPolicy(Settings(host="::"))
    monkeypatch.setattr(socket, "socket", no_socket)
    assert doorman.hosts_allowed("2001:db8::7") is own, "a probe by address is no victim of a shortage"
    assert is_own_address("2001:db8::7") is own
    assert not doorman.hosts_allowed("rebound.example")
    assert reachable_hosts("::") == ["::1"]


@pytest.mark.parametrize(
    ("host", "secure", "urls"),
    [
        ("127.0.0.1", False, ["http://127.0.0.1:8080/"]),
        ("::1", True, ["https://[::1]:8080/"]),
        ("192.0.2.7", False, ["http://192.0.2.7:8080/"]),
    ],
)
def test_the_page_of_who_listens_at_one_address(host, secure, urls):
    assert page_urls(host, 8080, secure=secure) == urls


async def test_every_url_that_a_server_at_all_addresses_gives_can_be_opened():
    async with trio.open_nursery() as nursery:
        serving = await nursery.start(lambda task_status: serve(Model, host="0.0.0.0", port=0, task_status=task_status))
        assert serving.urls[0] == serving.url
        assert urlsplit(serving.urls[-1]).netloc == f"127.0.0.1:{serving.port}"
        for url in serving.urls:
            assert urlsplit(url).hostname != "0.0.0.0"
            assert await asked(serving.port, urlsplit(url).netloc) == (200, b"")
        assert urlsplit(serving.session_url()).netloc == urlsplit(serving.url).netloc
        assert await asked(serving.port, "gpu.example:8080") == (
            421, b"this server does not answer for the host gpu.example; if it is this server's own, start it with "
            b"--allow-host gpu.example, or list it in runtime.hosts\n",
        )  # fmt: skip
        nursery.cancel_scope.cancel()


async def asked(port: int, host: str) -> tuple[int, bytes]:
    """Status of `/ready` by that name, and the body of a refusal."""
    with trio.fail_after(60):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(f"GET /ready HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            head, _, body = b"".join([piece async for piece in stream]).partition(b"\r\n\r\n")
    status = int(head.split()[1])
    return status, b"" if status == 200 else body
