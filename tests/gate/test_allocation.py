"""Places at several servers, in virtual time: in order, each counted once, and given back after every end."""

from __future__ import annotations

import math
from contextlib import ExitStack

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from tests.support.gate_kit import HOST, Caller, decoded, open_gate, place_of

from reactor_trio import ConnectionRefused, SessionEnded
from reactor_trio.admission import Claims
from reactor_trio.client.client_transport import TransportClosed
from reactor_trio.configuration.settings import AuthSettings, LimitSettings, Settings
from reactor_trio.edge.tickets import issue_ticket
from reactor_trio.gate.allocation import Allocation
from reactor_trio.leases.holder import LeaseLost
from reactor_trio.leases.messages import Granted
from reactor_trio.protocol.text import MAX_LINE
from reactor_trio.transport import wire_stream


async def test_a_place_comes_at_once_and_is_good_for_one_session(autojump_clock):
    async with open_gate(replicas=2) as gate:
        caller = await gate.call("/ws?follow=1&video=raw")
        kind, place = await caller.hear()
        assert (kind, caller.heard[0][0], set(place)) == (
            "reactor.admitted", 0.0, {"url", "ticket", "session_id", "claim_within"}
        )  # fmt: skip
        assert await caller.closed() == 1000
        at, ticket = place_of(place)
        async with gate.servers[at].connect(token=ticket) as client:
            assert client.session_id == place["session_id"]
            assert (gate.allocation.leased, gate.free()) == (1, [0, 1])
            await trio.sleep(5)
        await gate.servers[at].wait_left(client)
        await trio.testing.wait_all_tasks_blocked()
        assert (gate.allocation.leased, gate.free()) == (0, [1, 1])


async def test_the_seconds_until_a_place_comes_are_counted(autojump_clock):
    async with open_gate() as gate:
        gate.replicas.takes = 0.04
        await (await gate.call()).until("reactor.admitted")
        samples = [
            (float(sample.labels["le"]), sample.value)
            for family in text_string_to_metric_families(gate.metrics.exposition().decode())
            for sample in family.samples
            if sample.name == "reactor_allocation_seconds_bucket"
        ]
        assert samples == sorted(samples)
        assert dict(samples) == {bound: float(bound >= 0.04) for bound, _ in samples}
        assert {0.03, 0.05, 600.0, math.inf} < dict(samples).keys()


async def test_waiting_clients_get_each_change_of_position_and_places_in_order(autojump_clock):
    async with open_gate(replicas=2) as gate:
        first = [await (await gate.call()).until("reactor.admitted") for _ in range(2)]
        assert {place_of(place)[0] for place in first} == {0, 1}
        callers: list[Caller] = []
        order: list[int] = []

        async def wait(number: int) -> None:
            at, ticket = place_of(await callers[number].until("reactor.admitted"))
            order.append(number)
            async with gate.servers[at].connect(token=ticket):
                await trio.sleep(10)

        async with trio.open_nursery() as nursery:
            for number in range(4):
                callers.append(await gate.call())
                nursery.start_soon(wait, number)
                await trio.sleep(0.01)
            await trio.sleep(1)
            assert gate.allocation.waiting == 4
        assert [sorted(order[:2]), sorted(order[2:])] == [[0, 1], [2, 3]]  # two come at one instant each time
        # Two that were never claimed are free after 10 s, the next two after 10 s of play.
        assert [caller.positions[-1][1:] for caller in callers] == [(1, 4), (2, 4), (1, 2), (2, 2)]
        assert [position for _at, position, _total in callers[3].positions] == [4, 2]
        assert callers[3].heard[-1][1] == "reactor.admitted"
        assert callers[3].heard[-1][0] == pytest.approx(20, abs=0.1)


async def test_a_client_that_leaves_the_queue_needs_no_lease(autojump_clock):
    async with open_gate() as gate:
        await (await gate.call()).until("reactor.admitted")
        leaving, staying = await gate.call(), await gate.call()
        await leaving.until("reactor.queued")
        assert await staying.hear() == ("reactor.queued", {"position": 2, "total": 2, "wait": None, "heartbeat": 10})
        await leaving.transport.aclose()
        assert await staying.hear() == ("reactor.queued", {"position": 1, "total": 1, "wait": None, "heartbeat": 10})
        assert (gate.allocation.waiting, gate.replicas.asked, gate.replicas.cancelled) == (1, 3, 1)
        await staying.until("reactor.admitted")


async def test_the_place_of_a_client_that_leaves_at_once_goes_to_the_next(autojump_clock):
    async with open_gate(claim_within=10) as gate:
        with gate.allocation.asking(gate.site.access.check(None).claims) as slot_request:
            await slot_request.decided.wait()
            assert gate.free() == [0]
        await trio.testing.wait_all_tasks_blocked()
        assert (gate.free(), gate.allocation.leased) == ([1], 0)


async def test_a_client_that_does_not_wait_gets_a_place_or_a_refusal(autojump_clock):
    async with open_gate() as gate:
        status, headers, body = await gate.http("POST", "/v1/sessions")
        assert (status, headers["content-type"]) == (201, "application/json")
        _at, ticket = place_of(decoded(body))
        async with gate.servers[0].connect(token=ticket):
            before = trio.current_time()
            status, headers, body = await gate.http("POST", "/v1/sessions")
            assert (status, headers["retry-after"], trio.current_time() - before) == (503, "1", 1.0)
            waiting = await gate.call()
            await waiting.until("reactor.queued")
            before = trio.current_time()
            assert (await gate.http("POST", "/v1/sessions"))[0] == 503
            assert trio.current_time() == before + 1  # behind the client that waits
            assert gate.allocation.waiting == 1


async def test_back_ends_that_ask_at_the_same_time_each_get_a_place_that_is_free(autojump_clock):
    async with open_gate(replicas=2) as gate:
        gate.replicas.takes, statuses = 0.1, []

        async def ask() -> None:
            statuses.append((await gate.http("POST", "/v1/sessions"))[0])

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert sorted(statuses) == [201, 201, 503]


async def test_a_back_end_asks_for_places_over_one_connection(autojump_clock):
    async with open_gate(replicas=2) as gate:
        stream, answers = gate.stream(), b""
        for _ in range(2):
            await stream.send(b"POST /v1/sessions HTTP/1.1\r\nhost: " + HOST.encode() + b"\r\ncontent-length: 0\r\n\r\n")
            while not answers.endswith(b"}"):
                answers += await stream.receive()
            answers += b"\n"
        assert answers.count(b"HTTP/1.1 201") == 2
        await stream.aclose()


async def test_a_client_that_does_not_know_gates_is_redirected_to_its_replica(autojump_clock):
    async with open_gate() as gate:
        status, headers, _ = await gate.upgrade("/ws?video=raw&token=mine&after=3")
        assert status == 307
        address, _, ticket = headers["location"].rpartition("=")
        assert address == "ws://127.0.0.1:0/ws?after=3&video=raw&token"
        async with gate.servers[0].connect(token=ticket):
            assert (await gate.upgrade("/ws"))[0] == 503


@pytest.mark.parametrize(("path", "status", "words"), [
    ("/ws?follow=1&role=viewer", 404, "leads to its replica"),
    ("/v1/queue?role=king", 400, "not one of control, viewer"),
    ("/ws?model=other", 404, "serves Still, not other"),
    ("/elsewhere", 404, "only at /ws and /v1/queue"),
])  # fmt: skip
async def test_what_is_refused(autojump_clock, path, status, words):
    async with open_gate() as gate:
        answered, _headers, body = await gate.upgrade(path)
        assert (answered, words in body.decode()) == (status, True), body
        assert gate.replicas.asked == 0


async def test_the_queue_is_bounded(autojump_clock):
    async with open_gate(most=2) as gate:
        await (await gate.call()).until("reactor.admitted")
        callers = [await gate.call() for _ in range(3)]
        why = {"reason": "no_room", "message": "the queue is full", "code": "full"}
        assert await callers[2].hear() == ("reactor.bye", why)
        with pytest.raises(TransportClosed) as closed:
            await callers[2].hear()
        assert closed.value.code == 1013
        assert [await caller.hear() for caller in callers[:2]] == [
            ("reactor.queued", {"position": 1, "total": 2, "wait": None, "heartbeat": 10}),
            ("reactor.queued", {"position": 2, "total": 2, "wait": None, "heartbeat": 10}),
        ]  # fmt: skip


async def test_credentials_are_asked_for_at_the_gate(autojump_clock):
    key = "a key of thirty-two bytes or more"
    auth = AuthSettings("the-token-of-controllers", "the-token-of-viewers", (key,))
    async with open_gate(replicas=2, settings=Settings(auth=auth)) as gate:
        assert (await gate.http("POST", "/v1/sessions"))[0] == 401
        assert (await gate.http("POST", "/v1/sessions", authorization="Bearer the-token-of-viewers"))[0] == 403
        with pytest.raises(ConnectionRefused):
            await gate.call(token="another-token-of-somebody")
        ticket = issue_ticket(key, subject="ada", max_session=3)
        at, place_ticket = place_of(await (await gate.call(token=ticket)).until("reactor.admitted"))
        with pytest.raises(ConnectionRefused, match="has been used"):
            await gate.call(token=ticket)
        async with gate.servers[at].connect(token=place_ticket) as client:
            began = trio.current_time()
            (session,) = gate.servers[at].sessions
            await session.ended.wait()
            assert trio.current_time() - began == pytest.approx(3)
            assert client.session_id == session.id
        assert (await gate.http("GET", "/metrics"))[0] == 401
        assert (await gate.http("GET", "/schema"))[0] == 401
        assert decoded((await gate.http("GET", "/health"))[2]) == {"status": "ok", "phase": "ready"}
        health = decoded((await gate.http("GET", "/health", authorization="Bearer the-token-of-viewers"))[2])
        assert (health["sessions"], health["role"]) == (0, "viewer")
        status, _, text = await gate.http("GET", "/metrics", authorization="Bearer the-token-of-viewers")
        assert (status, b"reactor_allocation_seconds_count 1.0" in text) == (200, True)


KEY = "a key of thirty-two bytes or more"


async def test_a_ticket_that_is_refused_is_good_for_the_retry(autojump_clock):
    settings = Settings(auth=AuthSettings("the-token-of-controllers", None, (KEY,)))
    bearer = {"authorization": f"Bearer {(ticket := issue_ticket(KEY, subject='ada'))}"}
    async with open_gate(settings=settings, most=1) as gate:
        at, first = place_of(await (await gate.call(token="the-token-of-controllers")).until("reactor.admitted"))
        async with gate.servers[at].connect(token=first):
            assert (await gate.http("POST", "/v1/sessions", **bearer))[0] == 503  # no place is free
            assert (await gate.upgrade("/ws", **bearer))[0] == 503
            waiting = await gate.call(token="the-token-of-controllers")
            await waiting.until("reactor.queued")
            assert (await gate.http("POST", "/v1/sessions", **bearer))[0] == 503  # others wait
            assert await (await gate.call(token=ticket)).closed() == 1013  # the line is full
            await waiting.transport.aclose()
        await gate.servers[at].settle()
        assert (await gate.http("POST", "/v1/sessions", **bearer))[0] == 201
        assert (await gate.http("POST", "/v1/sessions", **bearer))[0] == 401  # and good once


async def test_one_of_two_clients_with_the_same_ticket_gets_a_place(autojump_clock):
    async with open_gate(replicas=2, settings=Settings(auth=AuthSettings(None, None, (KEY,)))) as gate:
        ticket, ends = issue_ticket(KEY), []

        async def ask():
            try:
                caller = await gate.call(token=ticket)
            except ConnectionRefused:  # it came when the ticket was used already
                ends.append((401, []))
                return
            ends.append((await caller.closed(), [kind for _at, kind, _data in caller.heard]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(ask)
        assert sorted(ends) in ([(1000, ["reactor.admitted"]), (1008, [])], [(401, []), (1000, ["reactor.admitted"])])
        await trio.testing.wait_all_tasks_blocked()
        assert gate.allocation.leased == 1


async def test_a_lease_that_is_granted_after_its_cancellation_is_given_to_no_client(autojump_clock):
    words = []

    class Lessor:
        async def lease(self, session_id, tell):
            words.append(tell)
            await trio.sleep_forever()

        async def silent(self, granted):
            raise AssertionError("no server is silent")

    allocation = Allocation(Lessor(), 10)
    async with trio.open_nursery() as nursery:
        await nursery.start(allocation.run)
        with allocation.asking(Claims()) as stays:
            await trio.testing.wait_all_tasks_blocked()
            with allocation.asking(Claims()):
                await trio.testing.wait_all_tasks_blocked()
            words[1](Granted("late", "ws://127.0.0.1/ws", KEY, 10.0, "replica 1"))  # it was on its way
            assert stays.admitted is None
            words[0](Granted("good", "ws://127.0.0.1/ws", KEY, 10.0, "replica 0"))
            await trio.testing.wait_all_tasks_blocked()
            assert (stays.admitted.session_id, allocation.leased) == ("good", 1)
        nursery.cancel_scope.cancel()


async def test_a_lease_that_is_given_back_needs_no_client(autojump_clock):
    class Lessor:
        async def lease(self, session_id, tell):
            tell(Granted(session_id, "ws://127.0.0.1/ws", KEY, 10.0, "replica 0"))
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(5)  # until the server has it back

        async def silent(self, granted):
            raise AssertionError("no server is silent")

    allocation = Allocation(Lessor(), 10)
    async with trio.open_nursery() as nursery:
        await nursery.start(allocation.run)
        with allocation.asking(Claims()) as slot_request:
            await slot_request.decided.wait()
        await allocation.all_claimed()
        assert (trio.current_time(), allocation.leased) == (0, 1)
        nursery.cancel_scope.cancel()


async def test_a_ticket_is_good_for_one_place_in_the_queue(autojump_clock):
    settings = Settings(auth=AuthSettings("the-token-of-controllers", None, (KEY,)))
    bearer = {"authorization": f"Bearer {(ticket := issue_ticket(KEY))}"}
    async with open_gate(settings=settings) as gate:
        at, first = place_of(await (await gate.call(token="the-token-of-controllers")).until("reactor.admitted"))
        async with gate.servers[at].connect(token=first):
            answers = []

            async def post():
                answers.append((await gate.http("POST", "/v1/sessions", **bearer))[0])

            async with trio.open_nursery() as nursery:
                nursery.start_soon(post)
                await trio.sleep(0.1)
                assert gate.allocation.waiting == 1
                assert (await gate.http("POST", "/v1/sessions", **bearer))[0] == 401
                assert await (await gate.call(token=ticket)).closed() == 1008
                assert gate.allocation.waiting == 1
            assert answers == [503]  # who held the ticket is refused: the ticket is free again
            await (await gate.call(token=ticket)).until("reactor.queued")


async def test_waiting_clients_of_one_address_are_bounded(autojump_clock, monkeypatch):
    peers = ["192.0.2.1:80"]
    monkeypatch.setattr(wire_stream, "peer_of", lambda _stream: peers[0])
    async with open_gate(settings=Settings(limits=LimitSettings(waiting_per_address=2))) as gate:
        await (await gate.call("/v1/queue")).until("reactor.admitted")
        callers = [await gate.call("/v1/queue") for _ in range(2)]
        for caller in callers:
            await caller.until("reactor.queued")
        status, headers, body = await gate.upgrade("/v1/queue")
        assert (status, headers["retry-after"]) == (429, "1")
        assert b"as many clients in the queue as it may have" in body
        assert (await gate.http("POST", "/v1/sessions"))[0] == 429
        peers[0] = "192.0.2.2:80"
        await (await gate.call("/v1/queue")).until("reactor.queued")
        peers[0] = "192.0.2.1:80"
        await callers[0].transport.aclose()
        await trio.testing.wait_all_tasks_blocked()
        await (await gate.call("/v1/queue")).until("reactor.queued")


async def test_who_has_the_token_ends_a_session_by_way_of_the_gate(autojump_clock):
    auth = AuthSettings("the-token-of-controllers", "the-token-of-viewers", ("a key of thirty-two bytes or more",))
    may = {"authorization": "Bearer the-token-of-controllers"}
    async with open_gate(replicas=2, settings=Settings(auth=auth)) as gate:
        place = await (await gate.call(token="the-token-of-controllers")).until("reactor.admitted")
        at, ticket = place_of(place)
        path = f"/v1/sessions/{place['session_id']}"
        assert (await gate.http("DELETE", path))[0] == 401
        assert (await gate.http("DELETE", path, authorization="Bearer the-token-of-viewers"))[0] == 403
        assert (await gate.http("DELETE", "/v1/sessions/another", **may))[0] == 404
        async with gate.servers[at].connect(token=ticket) as client:
            status, headers, body = await gate.http("DELETE", path, **may)
            assert (status, headers["cache-control"], body) == (307, "no-store", b"")
            there, _, question = headers["location"].partition("?")
            assert there == f"http://127.0.0.1:{at}{path}"
            assert gate.servers[1 - at].http(f"{path}?{question}", "DELETE").status == 401  # it is signed for one replica
            answer = gate.servers[at].http(f"{path}?{question}", "DELETE")
            assert (answer.status, decoded(answer.body)) == (202, {"session_id": place["session_id"]})
            assert gate.servers[at].http(f"{path}?{question}", "DELETE").status == 401  # and good once
            with pytest.raises(SessionEnded, match="revoked"):
                async for _frame in client.frames("picture"):
                    pass
        await gate.servers[at].settle()
        await trio.testing.wait_all_tasks_blocked()
        assert (gate.allocation.leased, gate.free()) == (0, [1, 1])
        assert (await gate.http("DELETE", path, **may))[0] == 404


async def test_a_client_gives_its_place_back_with_its_ticket(autojump_clock):
    async with open_gate(replicas=2) as gate:
        mine, others = [decoded((await gate.http("POST", "/v1/sessions"))[2]) for _ in range(2)]
        (at, ticket), path = place_of(mine), f"/v1/sessions/{mine['session_id']}"
        there, _ = place_of(others)
        assert gate.servers[there].http(f"/v1/sessions/{others['session_id']}?token={ticket}", "DELETE").status == 401
        assert gate.servers[at].http(f"/v1/sessions/{others['session_id']}?token={ticket}", "DELETE").status == 403
        assert gate.servers[at].http(f"{path}?token={ticket}", "DELETE").status == 202
        await trio.testing.wait_all_tasks_blocked()
        assert (trio.current_time(), gate.allocation.leased, gate.free()[at]) == (0, 1, 1)
        with pytest.raises(ConnectionRefused, match="has been used"):
            async with gate.servers[at].connect(token=ticket):
                pass
        # Where nobody is asked who they are, the gate sends nobody to end another's session.
        status, _, why = await gate.http("DELETE", f"/v1/sessions/{others['session_id']}")
        assert (status, b"set runtime.auth.token" in why) == (403, True)


async def test_a_lease_that_fails_is_requested_again(autojump_clock):
    async with open_gate() as gate:
        gate.replicas.failures = [LeaseLost("no") for _ in range(4)]
        caller = await gate.call()
        await caller.until("reactor.admitted")
        # 0.05 s after the first, then twice as long each time
        assert caller.heard[-1][0] == pytest.approx(0.05 + 0.1 + 0.2 + 0.4)
        assert gate.replicas.asked == 5


async def test_leases_that_no_server_can_grant_are_a_few_lines_in_the_log(autojump_clock, caplog):
    async with open_gate(most=100, claim_within=2) as gate:
        gate.replicas.failures = [LeaseLost("no server is up") for _ in range(10_000)]
        with ExitStack() as asking:
            for _ in range(100):
                asking.enter_context(gate.allocation.asking(Claims()))
            await trio.sleep(9.9)  # 14 requests each: at 0, 0.05, 0.15, 0.35, 0.75, 1.55, then each second
            lines = ["no server could grant a lease: no server is up"]
            assert caplog.messages == lines
            await trio.sleep(1)
            assert caplog.messages == (lines := [*lines, f"{lines[0]}; 1399 more since the last such line"])
            assert b"reactor_leases_lost_total 1500.0" in gate.metrics.exposition()
            gate.replicas.failures.clear()
            await trio.sleep(1)
            assert gate.allocation.leased == 1
            gate.replicas.kill(0)
            await trio.testing.wait_all_tasks_blocked()
            assert caplog.messages == [*lines, "a lease was lost at replica 0: replica 0 is gone"]
        await trio.sleep(2)  # the place that no client has claimed


async def test_a_dead_replica_frees_its_places_for_others(autojump_clock):
    async with open_gate(replicas=2) as gate:
        places = [await (await gate.call()).until("reactor.admitted") for _ in range(2)]
        waiting = await gate.call()
        await waiting.until("reactor.queued")
        at, ticket = place_of(places[0])
        async with gate.servers[at].connect(token=ticket):
            gate.replicas.kill(at)
            await trio.testing.wait_all_tasks_blocked()
            assert gate.allocation.leased == 1
        other = 1 - at
        assert place_of(await waiting.until("reactor.admitted"))[0] == other  # when nobody has claimed that one
        assert b"reactor_leases_lost_total 1.0" in gate.metrics.exposition()


async def test_a_silent_replica_counts_as_lost_and_is_checked(autojump_clock):
    async with open_gate(replicas=1) as gate:
        at, ticket = place_of(await (await gate.call()).until("reactor.admitted"))
        async with gate.servers[at].connect(token=ticket) as client:
            await trio.sleep(2.5)
            gate.replicas.mute.add(at)
            await trio.sleep(2.4)  # the last beat came at 2
            assert (gate.allocation.leased, gate.replicas.looked_after) == (1, [])
            await trio.sleep(0.2)
            assert (gate.allocation.leased, gate.replicas.looked_after) == (0, ["replica 0"])
            assert not client.ended


async def test_the_session_does_not_need_the_gate(autojump_clock):
    async with open_gate() as gate:
        at, ticket = place_of(await (await gate.call()).until("reactor.admitted"))
        async with gate.servers[at].connect(token=ticket) as client:
            gate.draining.set()
            gate.allocation.drain()
            gate.scope.cancel()
            await trio.sleep(20)
            assert not client.ended
            assert gate.free() == [0]


async def test_who_asks_for_a_place_by_http_while_the_gate_goes_down_hears_that(autojump_clock):
    async with open_gate() as gate:
        await (await gate.call()).until("reactor.admitted")
        answers = []

        async def ask():
            answers.append(await gate.http("POST", "/v1/sessions"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(0.5)
            gate.draining.set()
            gate.allocation.drain()
        ((status, headers, body),) = answers
        assert (status, headers["reactor-refusal"], body) == (503, "draining", b"the gate is going down\n")


async def test_two_of_one_address_that_come_at_once_for_one_place_in_the_queue(autojump_clock, monkeypatch):
    monkeypatch.setattr(wire_stream, "peer_of", lambda _stream: "192.0.2.1:80")
    async with open_gate(settings=Settings(limits=LimitSettings(waiting_per_address=1))) as gate:
        await (await gate.call("/v1/queue")).until("reactor.admitted")
        callers: list[Caller] = []
        heard = []

        async def come():
            callers.append(await gate.call("/v1/queue?refusals=bye"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(come)
            nursery.start_soon(come)
        for caller in callers:
            heard.append(await caller.hear())
        assert sorted(kind for kind, _data in heard) == ["reactor.bye", "reactor.queued"]
        assert dict(heard)["reactor.bye"]["code"] == "address_waiting"


async def test_a_drain_refuses_waiting_clients(autojump_clock):
    async with open_gate() as gate:
        await (await gate.call()).until("reactor.admitted")
        waiting = await gate.call()
        await waiting.until("reactor.queued")
        gate.draining.set()
        gate.allocation.drain()
        assert await waiting.until("reactor.bye") == {"reason": "draining"}
        assert await waiting.closed() == 1001
        assert (await gate.http("POST", "/v1/sessions"))[0] == 503
        health = decoded((await gate.http("GET", "/health"))[2])
        assert (health["status"], health["reason"]) == ("draining", "the gate is going down")
        assert (await gate.http("GET", "/ready"))[0] == 503


async def test_commands_of_a_waiting_client_get_an_error_and_a_flood_ends_it(autojump_clock):
    async with open_gate() as gate:
        await (await gate.call()).until("reactor.admitted")
        early = await gate.call()
        await early.until("reactor.queued")
        await early.transport.send('{"type":"set_x","data":{},"id":7}')
        assert (await early.until("reactor.error"))["code"] == "not_admitted"
        await early.transport.send("nonsense")
        assert (await early.until("reactor.error"))["code"] == "protocol_error"
        for _ in range(260):
            try:
                await early.transport.send_bytes(b"x")
            except TransportClosed:
                break
        assert (await early.until("reactor.bye")) == {"reason": "flood"}
        assert await early.closed() == 1008
        await trio.testing.wait_all_tasks_blocked()
        assert gate.allocation.waiting == 0


@pytest.mark.parametrize("key", ["k" * 200_000, "\\ud800"], ids=["long", "surrogate"])
async def test_an_error_to_a_waiting_client_is_short_and_can_be_sent(key, autojump_clock):
    async with open_gate() as gate:
        await (await gate.call()).until("reactor.admitted")
        early = await gate.call()
        await early.until("reactor.queued")
        await early.transport.send(f'{{"type":"set_x","data":{{"{key}":NaN}},"id":7}}')
        error = await early.until("reactor.error")
        assert error["code"] == "invalid_command"
        assert error["message"].startswith("NaN and infinities are not JSON - at $.")
        assert len(error["message"]) <= MAX_LINE


async def test_the_routes_of_a_gate(autojump_clock):
    async with open_gate() as gate:
        health = decoded((await gate.http("GET", "/health"))[2])
        assert (health["status"], health["sessions"], health["waiting"]) == ("ok", 0, 0)
        assert decoded((await gate.http("GET", "/schema"))[2])["name"] == "Still"
        assert decoded((await gate.http("GET", "/schema?format=asyncapi"))[2])["asyncapi"] == "3.0.0"
        assert decoded((await gate.http("GET", "/ready"))[2]) == {"status": "ready"}
        assert (await gate.http("GET", "/"))[1]["content-type"].startswith("text/html")
        assert (await gate.http("GET", "/v1/sessions"))[0] == 405
        assert (await gate.http("GET", "/ws"))[0] == 426
        assert (await gate.http("GET", "/nothing"))[0] == 404
