"""What one address may have: connections, handshakes a minute, places in the queue; and whose it is behind a proxy."""

from __future__ import annotations

import logging
from contextlib import ExitStack, asynccontextmanager

import msgspec
import pytest
import trio
from tests.support.black import Black
from tests.support.known_facts import facts_of

from reactor_trio.client import connect
from reactor_trio.configuration.checked_struct import parse_struct
from reactor_trio.configuration.settings import LimitSettings, Settings
from reactor_trio.edge import acceptor as serving
from reactor_trio.edge.address_limits import AddressLimits
from reactor_trio.edge.refusal_log import RefusalLog
from reactor_trio.errors import ConnectionRefused, ManifestError
from reactor_trio.server.serve import serve
from reactor_trio.server.server_metrics import Metrics
from reactor_trio.testing import open_server
from reactor_trio.transport import Refusal, Refused, Request, Response

ONE, OTHER = "192.0.2.1:4711", "192.0.2.2:4711"


def addresses(*proxies, **limits):
    return AddressLimits(LimitSettings(**limits), proxies)


def request(peer, *forwarded):
    return Request(method="GET", path="/ws", peer=peer, headers=tuple(("x-forwarded-for", line) for line in forwarded))


def address_of(found, asked):
    return found.of_client(asked.peer, asked.headers)


def refusal(found, asked, kind="address_handshakes"):
    """The refusal of a request, if its address has used that limit up."""
    try:
        found.count(address_of(found, asked), kind)
    except Refused as refused:
        return Response.refusing(refused.refusal)
    return None


def socket(found, asked):
    return found.socket(address_of(found, asked), asked.peer)


def refusals(metrics):
    return {
        line.partition('"')[2].partition('"')[0]: float(line.split()[1])
        for line in metrics.exposition().decode().splitlines()
        if line.startswith("reactor_connections_refused_total{") and not line.endswith(" 0.0")
    }


# ---- whose address ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("192.0.2.1:4711", "192.0.2.1"),
        ("[2001:db8:1:2:3:4:5:6]:4711", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::9]:80", "2001:db8:1:2::/64"),
        ("[fe80::1%eth0]:80", "fe80::/64"),
        ("[::ffff:192.0.2.1]:4711", "192.0.2.1"),
        ("127.0.0.1:80", None),
        ("127.8.9.1:80", None),
        ("[::1]:80", None),
        ("[::ffff:127.0.0.1]:80", None),
        ("memory", None),
        ("gone", None),
        ("/run/reactor.sock", None),
    ],
)
def test_a_connection_is_of_its_address_and_loopback_of_nobodys(peer, address):
    assert addresses().of_peer(peer) == address


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        (ONE, ["198.51.100.7"], "192.0.2.1"),  # no proxy of ours: a claim without weight
        ("127.0.0.1:80", ["198.51.100.7"], None),  # nor is loopback, unless it is named
        ("10.0.0.1:80", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1:80", ["6.6.6.6, 198.51.100.7"], "198.51.100.7"),  # what the client itself made up stands before
        ("10.0.0.1:80", ["6.6.6.6", "198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1:80", ["198.51.100.7, 10.0.0.9"], "198.51.100.7"),  # proxy behind proxy
        ("10.0.0.1:80", ["6.6.6.6, 198.51.100.7 , 10.9.9.9,10.0.0.9"], "198.51.100.7"),
        ("10.0.0.1:80", ["198.51.100.7:5555"], "198.51.100.7"),
        ("10.0.0.1:80", ["[2001:db8::5]:5555"], "2001:db8::/64"),
        ("10.0.0.1:80", ["2001:db8::5"], "2001:db8::/64"),
        ("10.0.0.1:80", ["198.51.100.7, unknown"], "unreadable"),
        ("10.0.0.1:80", [], None),  # a proxy that does not say: it may carry everybody
        ("10.0.0.1:80", ["10.0.0.9"], None),
        ("10.0.0.1:80", ["127.0.0.1"], None),
        ("[::ffff:10.0.0.1]:80", ["198.51.100.7"], "198.51.100.7"),
        ("[fd00::1]:80", ["198.51.100.7"], "198.51.100.7"),
    ],
)
def test_behind_a_proxy_the_last_hop_that_is_none_counts(peer, forwarded, address):
    found = addresses("10.0.0.0/8", "fd00::1")
    assert address_of(found, request(peer, *forwarded)) == address


def test_a_proxy_on_loopback_is_believed_when_it_is_named():
    found = addresses("127.0.0.1")
    assert address_of(found, request("127.0.0.1:80", "198.51.100.7")) == "198.51.100.7"
    assert found.of_peer("127.0.0.1:80") is None


@pytest.mark.parametrize("wrong", ["proxy.example", "10.0.0.0/33", ""])
def test_a_proxy_that_is_no_address_is_a_mistake(wrong):
    with pytest.raises(ManifestError, match=r"runtime\.proxies\[1\]: '.*' is no address or network"):
        parse_struct({"proxies": ["10.0.0.1", wrong]}, Settings, "runtime")


# ---- connections ------------------------------------------------------------------------------------------------------


async def test_as_many_connections_as_an_address_may_have_and_one_more(autojump_clock):
    found = addresses(connections_per_address=3)
    with ExitStack() as there:
        for _ in range(3):
            there.enter_context(found.connection(ONE))
        with pytest.raises(Refused) as refused, found.connection(ONE):
            raise AssertionError("one too many")
        assert refused.value.refusal.message == "this address has all the connections that it may have"
        with found.connection(OTHER), found.connection("127.0.0.1:1"):
            pass
    with found.connection(ONE):
        pass  # what was given back counts no more
    assert not found._open


async def test_behind_a_proxy_websockets_count_as_connections(autojump_clock):
    found = addresses("10.0.0.1", connections_per_address=2)
    one, other = request("10.0.0.1:80", "198.51.100.1"), request("10.0.0.1:80", "198.51.100.2")
    with ExitStack() as there:
        for _ in range(2):
            there.enter_context(socket(found, one))
        for _ in range(2):
            with pytest.raises(Refused) as refused, socket(found, one):
                raise AssertionError("one too many")
            answer = Response.refusing(refused.value.refusal)
            assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        with socket(found, other):
            pass
    with socket(found, one):
        pass
    assert not found._behind


async def test_no_limit_is_none(autojump_clock):
    found = addresses(connections_per_address=0, handshakes_per_minute=0)
    with ExitStack() as there:
        for _ in range(100):
            there.enter_context(found.connection(ONE))
        assert {refusal(found, request(ONE)) for _ in range(100)} == {None}


# ---- handshakes -------------------------------------------------------------------------------------------------------


async def test_handshakes_come_at_once_and_then_at_their_rate(autojump_clock):
    found = addresses(handshakes_per_minute=6)
    assert [refusal(found, request(ONE)) for _ in range(6)] == [None] * 6
    refused = refusal(found, request(ONE))
    assert (refused.status, refused.headers["retry-after"]) == (429, "10")
    assert refusal(found, request(OTHER)) is None
    assert refusal(found, request("127.0.0.1:9")) is None
    await trio.sleep(9.99)
    assert refusal(found, request(ONE)).headers["retry-after"] == "1"
    await trio.sleep(0.02)
    assert refusal(found, request(ONE)) is None
    assert refusal(found, request(ONE)) is not None
    await trio.sleep(3600)
    assert [refusal(found, request(ONE)) is None for _ in range(7)] == [True] * 6 + [False]


async def test_who_is_told_when_to_come_back_is_let_in_then(autojump_clock):
    found = addresses(handshakes_per_minute=7)
    for _ in range(7):
        refusal(found, request(ONE))
    for _ in range(20):
        refused = refusal(found, request(ONE))
        await trio.sleep(float(refused.headers["retry-after"]))
        assert refusal(found, request(ONE)) is None


async def test_of_very_many_addresses_the_newest_are_remembered(autojump_clock):
    found = addresses(handshakes_per_minute=1)
    for number in range(4096 + 10):
        refusal(found, request(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:1"))
    assert len(found._allowances["address_handshakes"]) == 4096
    assert refusal(found, request("10.0.16.1:1")) is not None
    assert refusal(found, request("10.0.0.1:1")) is None, "forgotten, and bounded"


async def test_the_log_says_it_once_in_a_while_and_what_to_do(autojump_clock, caplog):
    metrics = Metrics(facts_of("model"))
    refused = RefusalLog(metrics, addresses(handshakes_per_minute=1))
    with caplog.at_level(logging.WARNING, "reactor_trio.edge"):
        for _ in range(100):
            refused.note(ONE, "192.0.2.1", Refusal("address_handshakes"))
        await trio.sleep(60)
        refused.note(ONE, "192.0.2.1", Refusal("address_handshakes"))
    line = (
        "192.0.2.1 was refused: this address asks too often; wait a little (runtime.limits.handshakes_per_minute: 1); "
        "if a proxy brings the clients of many, name it in runtime.proxies{}; more of this kind is not logged for 60 s"
    )
    assert caplog.messages == [line.format(""), line.format("; 99 more since the last such line")]
    assert refusals(metrics) == {"address_handshakes": 101}


# ---- the queue --------------------------------------------------------------------------------------------------------


async def test_as_many_of_an_address_wait_as_may_and_one_more(autojump_clock):
    heard = []

    async def wait(server, address):
        try:
            async with server.connect(address=address, on_queued=lambda *place: heard.append((address, *place))):
                await trio.sleep_forever()
        except ConnectionRefused as refused:
            heard.append((address, refused.status, refused.retry_after))

    async with open_server(Black, limits={"waiting_per_address": 2}) as server, trio.open_nursery() as nursery:
        for address, expected in (
            (ONE, []),
            (ONE, [(ONE, 1, 1)]),
            (ONE, [(ONE, 1, 2), (ONE, 2, 2)]),
            (ONE, [(ONE, 429, 1)]),
            (OTHER, [(ONE, 1, 3), (ONE, 2, 3), (OTHER, 3, 3)]),
            ("127.0.0.1:1", [(ONE, 1, 4), (ONE, 2, 4), (OTHER, 3, 4), ("127.0.0.1:1", 4, 4)]),
        ):
            heard.clear()
            nursery.start_soon(wait, server, address)
            await server.settle()
            assert sorted(heard, key=str) == sorted(expected, key=str)
        assert refusals(server.runtime.metrics) == {"address_waiting": 1}
        nursery.cancel_scope.cancel()


async def test_an_address_may_have_a_session_when_nobody_plays_whoever_waits(autojump_clock):
    async with open_server(Black, limits={"waiting_per_address": 1}) as server:
        for _ in range(3):
            async with server.connect(address=ONE) as client:
                await client.take(1)


# ---- through sockets --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def served(**settings):
    async with trio.open_nursery() as nursery:
        given = msgspec.convert({"port": 0, **settings}, Settings)
        yield await nursery.start(lambda task_status: serve(Black, settings=given, task_status=task_status))
        nursery.cancel_scope.cancel()


async def ask(server, path, *headers):
    """The head of the server's answer, in lines."""
    async with await trio.open_tcp_stream(server.host, server.port) as stream:
        await stream.send_all("\r\n".join([f"GET {path} HTTP/1.1", "host: 127.0.0.1", *headers, "", ""]).encode())
        answer = b""
        while b"\r\n\r\n" not in answer and (data := await stream.receive_some(4096)):
            answer += data
        return answer.decode().partition("\r\n\r\n")[0].splitlines()


async def test_an_address_with_too_many_connections_is_answered_429(monkeypatch):
    """The sockets are real; that they come from elsewhere is not."""
    monkeypatch.setattr(serving, "peer_of", lambda stream: ONE)
    async with served(limits={"connections_per_address": 2}) as server:
        address = (server.host, server.port)
        async with await trio.open_tcp_stream(*address) as first, await trio.open_tcp_stream(*address) as second:
            for stream in (first, second):
                await stream.send_all(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
                assert (await stream.receive_some(4096)).startswith(b"HTTP/1.1 200")
            status, *headers = await ask(server, "/health")
            assert status == "HTTP/1.1 429 Too Many Requests"
            assert "retry-after: 1" in headers
        assert refusals(server.runtime.metrics) == {"address_connections": 1}


async def test_a_proxy_on_loopback_is_asked_whom_it_brings():
    async with served(proxies=["127.0.0.1"], limits={"handshakes_per_minute": 2}) as server:
        upgrade = (
            "connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13",
            "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
        )  # fmt: skip
        for forwarded, expected in (
            ("198.51.100.1", "503"), ("6.6.6.6, 198.51.100.1", "503"), ("7.7.7.7, 198.51.100.1", "429"),
            ("198.51.100.2", "503"),
        ):  # fmt: skip
            status, *_ = await ask(server, "/ws?role=viewer", *upgrade, f"x-forwarded-for: {forwarded}")
            assert status.split()[1] == expected, "503: there is nothing to watch"
        async with connect(f"ws://127.0.0.1:{server.port}/ws") as client:
            assert client.ended is None, "what comes from loopback itself has no limit"
