"""Whatever a client sends, it gets a clear answer or close code, and nobody else notices.

Each test lets an attacker at a real server over TCP while a witness has a session or watches one; afterwards the witness
must still see its frames without a gap and have its command answered and shown.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np
import pytest
import trio
from tests.support.fault_peers import BINARY, PATIENCE, PING, TEXT, Gone, RawClient, ask, frame, opening
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect as connect_third_party

from reactor_trio import serve
from reactor_trio.client import Client, connect
from reactor_trio.configuration.settings import Settings
from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video, event

T = TypeVar("T")

HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


class Picture(Output):
    main: Video


class State(InputState):
    level: int = InputField(default=0, ge=0, le=255)
    gain: float = InputField(default=1.0, ge=0.0, le=2.0)


class Model(ReactorPipeline):
    """A small picture whose every byte is `level`; `block` holds the model until the test lets it go."""

    fps = 30
    state: State
    released: ClassVar[threading.Event] = threading.Event()
    added: ClassVar[list[int]] = []

    def inference(self):
        while True:
            yield Picture(main=np.full((8, 8, 3), self.state.level, np.uint8))

    @event
    def block(self) -> None:
        assert self.released.wait(PATIENCE)

    @event
    def add(self, number: int) -> int:
        self.added.append(number)
        return number


@pytest.fixture(autouse=True)
def fresh_model():
    Model.released.clear()
    Model.added.clear()
    yield
    Model.released.set()


@asynccontextmanager
async def server(**runtime: Any) -> AsyncIterator[int]:
    """The real thing on a free port."""
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            settings = msgspec.convert(runtime, Settings)
            serving = await nursery.start(lambda **kw: serve(Model, port=0, settings=settings, **kw))
            yield serving.port
            nursery.cancel_scope.cancel()


class Witness:
    """A client that watches and misses nothing; the server holds the model for it rather than drop a frame."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._shown = trio.Condition()
        self._seq = -1
        self._level = 0

    async def watch(self) -> None:
        """Task: take every frame; one that is missing raises."""
        async for shown in self._client.frames():
            async with self._shown:
                assert self._seq in (-1, shown.seq - 1), f"frames {self._seq + 1} to {shown.seq - 1} are missing"
                self._seq, self._level = shown.seq, int(shown.data[0, 0, 0])
                self._shown.notify_all()

    async def check(self) -> None:
        """A command is answered, and shown."""
        level = (self._level + 1) % 256
        await self._client.command("set_level", level=level)
        async with self._shown:
            while self._level != level:
                await self._shown.wait()


@asynccontextmanager
async def witness_of(port: int) -> AsyncIterator[Witness]:
    """Around an attack: the witness works before it, misses nothing during it, and works after it."""
    async with connect(f"ws://127.0.0.1:{port}/ws", video=["raw"]) as client, trio.open_nursery() as nursery:
        witness = Witness(client)
        nursery.start_soon(witness.watch)
        await witness.check()
        yield witness
        await witness.check()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def witnessed(**runtime: Any) -> AsyncIterator[int]:
    """A server where a witness has the session."""
    async with server(slow_client="hold", **runtime) as port, witness_of(port):
        yield port


async def in_thread(attack: Callable[..., T], *args: Any) -> T:
    return await trio.to_thread.run_sync(attack, *args)


async def attack_own_session(attack: Callable[[RawClient], T], **runtime: Any) -> T:
    """The attacker has the session; it must still work for it afterwards."""

    def run(port: int) -> T:
        with RawClient(port) as client:
            client.text("reactor.welcome")
            result = attack(client)
            client.say("set_level", 4711, level=99)
            assert client.answer(4711)["type"] == "reactor.ack"
            while client.picture().payload[0] != 99:
                pass
            return result

    async with server(**runtime) as port:
        return await in_thread(run, port)


async def attack_and_be_closed(attack: Callable[[RawClient], None], **runtime: Any) -> Gone:
    """The attacker has the session and loses it; the next client finds a server that works. How it was closed."""

    def run(port: int) -> Gone:
        with RawClient(port) as client:
            client.text("reactor.welcome")
            attack(client)
            return client.gone()

    async with server(**runtime) as port:
        gone = await in_thread(run, port)
        Model.released.set()
        async with witness_of(port):
            return gone


# ---- text that is no message, or no valid one: answered, and the session goes on --------------------------------------

NO_MESSAGES = {
    "empty": "",
    "cut short": '{"type": "set_level", "data": {"level": 1}',
    "two values": '{"type": "add"} {"type": "add"}',
    "no object": '["set_level", {"level": 1}]',
    "a number": "17",
    "null": "null",
    "no type": '{"data": {"level": 1}}',
    "type of a wrong type": '{"type": 5, "data": {}}',
    "id of a wrong type": '{"type": "set_level", "data": {"level": 1}, "id": "one"}',
    "id beyond 64 bits": '{"type": "set_level", "data": {"level": 1}, "id": 99999999999999999999}',
    "deep nesting": "[" * 200_000,
    "deep nesting that closes": '{"type": "set_level", "data": ' + '{"a":' * 20_000 + "1" + "}" * 20_001,
    "a lone surrogate": '{"type": "\\ud800", "data": {}}',
    "a runtime message that only servers send": '{"type": "reactor.welcome", "data": {}}',
    "an unknown runtime message": '{"type": "reactor.shutdown", "data": {}}',
}


@pytest.mark.parametrize("text", NO_MESSAGES.values(), ids=NO_MESSAGES.keys())
async def test_text_that_is_no_message_is_answered_protocol_error(text):
    def attack(client: RawClient) -> dict[str, Any]:
        client.send(frame(TEXT, text.encode()))
        return client.text("reactor.error")

    error = await attack_own_session(attack)
    assert error["data"]["code"] == "protocol_error"
    assert error["data"]["message"]
    assert "id" not in error


INVALID = {
    "unknown command": ('{"type": "jump", "data": {}, "id": 5}', "jump"),
    "string for a number": ('{"type": "set_level", "data": {"level": "3"}, "id": 5}', "Expected int, got str - at $.level"),
    "float for an integer": ('{"type": "set_level", "data": {"level": 3.5}, "id": 5}', "$.level"),
    "true for a number": ('{"type": "set_level", "data": {"level": true}, "id": 5}', "Expected int, got bool - at $.level"),
    "null": ('{"type": "set_level", "data": {"level": null}, "id": 5}', "$.level"),
    "too large": ('{"type": "set_gain", "data": {"gain": 2.5}, "id": 5}', "Expected float <= 2.0 - at $.gain"),
    "too large to read": ('{"type": "set_gain", "data": {"gain": 1e999}, "id": 5}', ""),
    "many digits": ('{"type": "set_level", "data": {"level": ' + "9" * 100_000 + '}, "id": 5}', ""),
    "missing": ('{"type": "set_level", "data": {}, "id": 5}', "level"),
    "extra": ('{"type": "set_level", "data": {"level": 1, "more": 2}, "id": 5}', "more"),
    "NaN": ('{"type": "set_gain", "data": {"gain": NaN}, "id": 5}', "$.gain"),
    "Infinity": ('{"type": "set_gain", "data": {"gain": -Infinity}, "id": 5}', "$.gain"),
    "data that is no object": ('{"type": "set_level", "data": [1], "id": 5}', ""),
    "nested arguments": ('{"type": "set_level", "data": {"level": ' + "[" * 900 + "]" * 900 + '}, "id": 5}', "$.level"),
}


@pytest.mark.parametrize(("text", "named"), INVALID.values(), ids=INVALID.keys())
async def test_an_invalid_command_is_answered_with_its_id_and_the_mistake(text, named):
    def attack(client: RawClient) -> dict[str, Any]:
        client.send(frame(TEXT, text.encode()))
        return client.answer(5)

    error = await attack_own_session(attack)
    assert (error["type"], error["data"]["code"]) == ("reactor.error", "invalid_command")
    assert named in error["data"]["message"]


PACKETS = {
    "text in place of binary": b'{"type": "set_level", "data": {"level": 1}, "id": 5}',
    "an empty one": b"",
    "no MessagePack": b"\xc1\xff\x00",
    "MessagePack cut short": b"\x98\x00\x00",
    "deep MessagePack": b"\x91" * 100_000,
    "an array that promises 4 GiB": b"\xdd\xff\xff\xff\xff",
    "a packet for an input that the model has not": msgspec.msgpack.encode([0, 0, 0, 1, None, 0, {}, bytes(12)]),
}


@pytest.mark.parametrize("payload", PACKETS.values(), ids=PACKETS.keys())
async def test_binary_to_a_model_without_inputs_is_answered_protocol_error(payload):
    def attack(client: RawClient) -> dict[str, Any]:
        client.send(frame(BINARY, payload))
        return client.text("reactor.error")

    assert (await attack_own_session(attack))["data"]["code"] == "protocol_error"


async def test_a_waiting_client_is_refused_commands_and_malformed_messages():
    def attack(port: int) -> list[dict[str, Any]]:
        with RawClient(port) as client:
            client.text("reactor.queued")
            client.say("set_level", 1, level=3)
            client.send(frame(TEXT, b"{"), frame(BINARY, b"x"))
            return [client.text("reactor.error") for _ in range(3)]

    async with witnessed() as port:
        answers = await in_thread(attack, port)
    assert [answer["data"]["code"] for answer in answers] == ["not_admitted", "protocol_error", "protocol_error"]


# ---- too much ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["control", "viewer"])
@pytest.mark.parametrize(("kind", "size"), [("text", 10_000_000), ("binary", 10_000_000), ("text", 256 * 1024 + 1)])
async def test_a_message_over_its_limit_is_closed_with_1009(role, kind, size):
    def attack(port: int) -> tuple[int, str]:
        with connect_third_party(f"ws://127.0.0.1:{port}/ws?role={role}", compression=None) as client:
            with pytest.raises(ConnectionClosedError) as closed:
                client.send("x" * size if kind == "text" else bytes(size))
                while True:
                    client.recv(PATIENCE)
            return closed.value.rcvd.code, closed.value.rcvd.reason

    async with witnessed() as port:
        code, reason = await in_thread(attack, port)
    assert code == 1009
    assert reason


async def test_a_message_of_endless_fragments_is_closed_with_1009():
    def attack(client: RawClient) -> None:
        client.send(frame(TEXT, b"x" * 65_536, fin=False))
        try:
            for _ in range(200):
                client.send(frame(0, b"x" * 65_536, fin=False))
        except ConnectionError:
            pass  # closed before it had all

    assert (await attack_and_be_closed(attack)).code == 1009


def adds(count: int) -> list[bytes]:
    return [frame(TEXT, msgspec.json.encode({"type": "add", "data": {"number": n}, "id": n})) for n in range(count)]


async def test_a_burst_of_commands_is_answered_one_by_one_and_nothing_is_lost():
    """Each gets exactly one answer: an ack if it was applied, once and in order, or busy if it was not."""

    def attack(client: RawClient) -> list[dict[str, Any]]:
        client.send(*adds(1000))
        answers = []
        for text in client.texts():
            if text["type"] in ("reactor.ack", "reactor.error"):
                answers.append(text)
                if len(answers) == 1000:
                    # the session's allowance comes back with time, and the check that follows needs one command of it
                    client.say("add", 1000, number=1000)
                    while client.answer(1000)["type"] != "reactor.ack":
                        client.say("add", 1000, number=1000)
                    client.picture()
                    client.picture()  # an interval later the allowance has room for the check
                    return answers
        raise AssertionError

    answers = await attack_own_session(attack)
    assert sorted(answer["id"] for answer in answers) == list(range(1000))
    acks = [answer for answer in answers if answer["type"] == "reactor.ack"]
    refusals = [answer["data"]["code"] for answer in answers if answer["type"] == "reactor.error"]
    assert 200 <= len(acks) < 1000
    assert set(refusals) == {"busy"}
    assert [ack["data"]["reply"] for ack in acks] == [ack["id"] for ack in acks] == Model.added[: len(acks)]
    assert Model.added[len(acks) :] == [1000]


async def test_more_than_256_pending_commands_are_answered_busy():
    def attack(client: RawClient) -> list[dict[str, Any]]:
        client.say("block")
        client.send(*adds(400))
        refused = [client.text("reactor.error") for _ in range(400 - 255)]
        Model.released.set()
        client.answer(254)
        return refused

    refused = await attack_own_session(attack, limits={"commands_per_second": 100_000})
    assert [answer["id"] for answer in refused] == list(range(255, 400))
    assert {answer["data"]["code"] for answer in refused} == {"busy"}
    assert Model.added == list(range(255))


async def test_a_thousand_unanswered_commands_are_a_flood():
    """A field that is set again and again takes one place in the queue, but each command is owed an answer."""

    def attack(client: RawClient) -> None:
        client.say("block")
        client.send(
            *(frame(TEXT, msgspec.json.encode({"type": "set_level", "data": {"level": 1}, "id": n})) for n in range(1024))
        )

    gone = await attack_and_be_closed(attack, limits={"commands_per_second": 100_000})
    assert (gone.code, gone.reason) == (1008, "flood")


async def test_one_less_than_a_flood_is_not_one():
    def attack(client: RawClient) -> int:
        client.say("block")
        client.send(
            *(frame(TEXT, msgspec.json.encode({"type": "set_level", "data": {"level": 1}, "id": n})) for n in range(1023))
        )
        client.send(frame(TEXT, b"{"))
        client.text("reactor.error")  # so all before it have arrived
        Model.released.set()
        return sum(client.answer(n)["type"] == "reactor.ack" for n in range(1023))

    assert await attack_own_session(attack, limits={"commands_per_second": 100_000}) == 1023


async def test_a_client_that_reads_none_of_its_answers_is_a_flood():
    """The answers to what is refused at once pile up here as well as anywhere; the witness has the session meanwhile."""

    def attack(port: int) -> Gone:
        with RawClient(port, "/ws?role=viewer&video=none") as client:
            client.socket.settimeout(PATIENCE)
            refused = frame(TEXT, b'{"type": "' + b"x" * 200 + b'"}')
            try:
                for _ in range(1000):
                    client.send(refused * 100)
            except ConnectionError:
                return client.gone()
            return client.gone()

    async with witnessed() as port:
        gone = await in_thread(attack, port)
    assert gone.code in (1008, None)  # None: the reset that ends such a link has overtaken the close frame


async def test_a_client_over_the_connection_limit_gets_503():
    def attack(port: int) -> tuple[int, dict[str, str], bytes]:
        with RawClient(port, upgrade=False):
            assert ask(port, HEALTH)[0] == 200  # the third of three
            with RawClient(port, upgrade=False):
                return ask(port, opening())

    async with witnessed(limits={"connections": 3}) as port:
        status, headers, body = await in_thread(attack, port)
        assert (status, headers["retry-after"]) == (503, "1")
        assert b"connections" in body
        # and a place that becomes free is given away again
        while (await in_thread(ask, port, HEALTH.replace(b"/health", b"/schema")))[0] != 200:
            pass  # it has yet to notice that they are gone


async def test_a_full_queue_is_503_with_retry_after():
    def attack(port: int) -> InvalidStatus:
        with RawClient(port) as waiting:
            waiting.text("reactor.queued")
            with pytest.raises(InvalidStatus) as refused:
                connect_third_party(f"ws://127.0.0.1:{port}/ws").close()
            return refused.value

    async with witnessed(queue=1) as port:
        response = (await in_thread(attack, port)).response
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert b"full" in response.body


# ---- broken framing ---------------------------------------------------------------------------------------------------

BROKEN_FRAMES = {
    "unmasked": (frame(TEXT, b"{}", masked=False), 1002),
    "a reserved bit": (frame(TEXT, b"{}", rsv=4), 1002),
    "an unknown opcode": (frame(3, b""), 1002),
    "a continuation of nothing": (frame(0, b"x"), 1002),
    "a message within a message": (frame(TEXT, b"{", fin=False) + frame(TEXT, b"}"), 1002),
    "a fragmented ping": (frame(PING, b"x", fin=False), 1002),
    "a long ping": (frame(PING, b"x" * 126), 1002),
    "a close frame of one byte": (frame(8, b"x"), 1002),
    "a close code that nobody may send": (frame(8, (1005).to_bytes(2, "big")), 1002),
    "a length of 2**63": (b"\x81\xff" + b"\x80" + bytes(7) + bytes(4), 1002),
    "invalid UTF-8": (frame(TEXT, b'{"type": "\xff\xfe"}'), 1007),
    "UTF-8 cut short": (frame(TEXT, b"\xe2\x82"), 1007),
    "an encoded surrogate": (frame(TEXT, b"\xed\xa0\x80"), 1007),
}


@pytest.mark.parametrize(("data", "code"), BROKEN_FRAMES.values(), ids=BROKEN_FRAMES.keys())
async def test_broken_framing_is_closed_with_its_code(data, code):
    assert (await attack_and_be_closed(lambda client: client.send(data))).code == code


@pytest.mark.parametrize("data", [frame(TEXT, b"{}", masked=False), frame(TEXT, b"\xff")], ids=["unmasked", "UTF-8"])
@pytest.mark.parametrize("role", ["control", "viewer"])
async def test_broken_framing_of_another_client_does_not_touch_the_session(role, data):
    def attack(port: int) -> Gone:
        with RawClient(port, f"/ws?role={role}") as client:
            client.send(data)
            return client.gone()

    async with witnessed() as port:
        assert (await in_thread(attack, port)).code in (1002, 1007)


# ---- before the WebSocket ---------------------------------------------------------------------------------------------

REFUSED = {
    "wrong path": (opening("/socket"), 404),
    "path of the model's name": (opening("/ws/model"), 404),
    "another model": (opening("/ws?model=other"), 404),
    "no WebSocket": (b"GET /ws HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", 426),
    "another page": (opening(origin="http://evil.example"), 403),
    "an opaque page": (opening(origin="null"), 403),
    "another host": (opening(host="evil.example"), 421),
    "no host": (opening(host=""), 400),
    "an unknown subprotocol": (opening(sec_websocket_protocol="chat"), 400),
    "an old version": (opening(sec_websocket_version="8"), 426),
    "a key that is none": (opening(sec_websocket_key="x"), 400),
    "an unknown role": (opening("/ws?role=admin"), 400),
    "an unknown codec": (opening("/ws?video=gif"), 400),
    "a long head": (opening(x_padding="x" * 20_000), 431),
    "another method": (b"DELETE / HTTP/1.1\r\nhost: localhost\r\n\r\n", 405),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a line feed in a header": (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: a\x00b\r\n\r\n", 400),
}


@pytest.mark.parametrize(("request_", "status"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_request_that_cannot_be_served_gets_the_reason(request_, status):
    async with witnessed() as port:
        given, _, body = await in_thread(ask, port, request_)
    assert given == status
    assert body.strip()


@pytest.mark.parametrize("data", [b"", b"GET /ws HTTP/1.1\r\nhost: local", opening()[:-2]], ids=["silent", "half", "almost"])
async def test_a_half_open_handshake_ends_at_its_limit(data):
    """One that has begun is told 408; one that never says a word is closed."""

    def attack(port: int) -> bytes:
        with RawClient(port, upgrade=False) as client:
            client.send(data)
            return client.rest()

    async with witnessed(limits={"handshake": 0.2}) as port:
        received = await in_thread(attack, port)
    assert received.startswith(b"HTTP/1.1 408 ") if data else received == b""


async def test_many_half_open_handshakes_keep_other_clients_out_only_briefly():
    def attack(port: int) -> int:
        half_open = [RawClient(port, upgrade=False) for _ in range(63)]
        for client in half_open:
            client.send(b"GET /ws")
        told = sum(client.rest().startswith(b"HTTP/1.1 408 ") for client in half_open)
        for client in half_open:
            client.socket.close()
        return told

    async with witnessed(limits={"handshake": 0.2}) as port:
        assert await in_thread(attack, port) == 63
        while (await in_thread(ask, port, HEALTH))[0] != 200:
            pass  # it has yet to notice that they are gone


async def test_everything_at_once():
    """All of the above against one server, at the same time, beside one session."""

    def framing(port: int, data: bytes) -> None:
        try:
            with RawClient(port, "/ws?role=viewer") as client:
                client.send(data)
                client.gone()
        except ConnectionError:
            pass  # closed while it was still sending

    def requests(port: int) -> None:
        for request, status in REFUSED.values():
            assert ask(port, request)[0] == status

    async with witnessed() as port, trio.open_nursery() as nursery:
        nursery.start_soon(in_thread, requests, port)
        for data, _ in BROKEN_FRAMES.values():
            nursery.start_soon(in_thread, framing, port, data)
        for text in NO_MESSAGES.values():
            nursery.start_soon(in_thread, framing, port, frame(TEXT, text.encode()) + frame(8, b""))
        nursery.start_soon(in_thread, framing, port, frame(TEXT, b"x" * 10_000_000))


def test_the_vocabulary_of_this_file_is_json():
    """The valid ones among NO_MESSAGES must fail for what they say and not for how it is written."""
    for name in ("no object", "no type", "type of a wrong type", "id of a wrong type"):
        json.loads(NO_MESSAGES[name])
