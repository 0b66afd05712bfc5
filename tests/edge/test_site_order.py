"""What a site checks before what: nothing refuses a client whose ticket is used up, and a ticket is used up for nothing."""

from __future__ import annotations

import time

import pytest
import trio
import trio.testing
from tests.edge.test_tickets import claims, jwt_by_hand
from tests.support.asking import PROXY, ask, behind_a_proxy, plain, websocket
from tests.support.black import Black

from reactor_trio import issue_ticket
from reactor_trio.configuration.settings import LimitSettings, Settings, UploadSettings
from reactor_trio.edge.reserved_slots import ReservedSlots
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_exchange import UPGRADE, MemoryExchange, request_to
from reactor_trio.transport import Limits, Refused

KEY = "k" * 32


async def answers(site, *requests):
    """Status and code of the answer to each request, on a connection of its own."""
    found = [(await ask(site, one))[0] for one in requests]
    return [(one.status, one.headers.get("reactor-refusal")) for one in found]


async def test_of_handshakes_at_once_behind_a_proxy_those_that_are_too_many_keep_their_tickets(autojump_clock, monkeypatch):
    """They are refused before they wait for the encoders, and not after their tickets are used up."""
    auth, limits = {"ticket_keys": [KEY]}, {"connections_per_address": 1}
    with behind_a_proxy(monkeypatch):
        async with open_server(Black, auth=auth, proxies=[PROXY], limits=limits) as server:
            server.runtime.preparation.tried = trio.Event()
            tickets, found = [issue_ticket(KEY) for _ in range(3)], []

            async def knock(ticket):
                found.extend(await answers(server._site, websocket(f"/ws?token={ticket}")))

            async with trio.open_nursery() as nursery:
                for ticket in tickets:
                    nursery.start_soon(knock, ticket)
                await trio.testing.wait_all_tasks_blocked()
                assert found == [(429, "address_connections")] * 2
                server.runtime.preparation.tried.set()
            assert found[2:] == [(101, None)]
            kept = await answers(server._site, *(plain(f"/schema?token={ticket}") for ticket in tickets))
            assert sorted(kept) == [(200, None), (200, None), (401, "token_used")]


async def test_a_session_that_is_not_here_costs_no_ticket(autojump_clock):
    async with open_server(Black, auth={"ticket_keys": [KEY]}) as server:
        target = f"/v1/sessions/gone?token={issue_ticket(KEY, session='gone')}"
        assert await answers(server._site, *[plain(target, method="DELETE")] * 2) == [(404, "not_found")] * 2


async def test_each_reason_for_which_a_ticket_is_not_good_has_its_code(autojump_clock):
    async with open_server(Black, auth={"ticket_keys": [KEY]}) as server:
        now = time.time()
        early = jwt_by_hand(claims(exp=now + 900, nbf=now + 600))
        late = jwt_by_hand(claims(exp=now - 600))
        shown = [websocket(f"/ws?token={token}") for token in (early, late, issue_ticket(KEY, session="over"))]
        assert await answers(server._site, *shown) == [(401, "token_early"), (401, "token_expired"), (401, "unclaimed")]


@pytest.mark.parametrize(
    ("target", "headers", "code"),
    [
        ("/ws?refusals=bye", True, "connections"),
        ("/ws?resume=wrong&refusals=bye", True, "connections"),
        ("/uploads?token=wrong", False, "connections"),
        ("/nothing", False, "connections"),
        ("/metrics?token=wrong", False, "token_wrong"),
    ],
)
async def test_a_reserved_slot_is_for_nothing_else_whatever_credential_is_shown(autojump_clock, target, headers, code):
    async with open_server(Black, auth={"ticket_keys": [KEY]}) as server:
        request = request_to(target, "POST" if target.startswith("/uploads") else "GET", UPGRADE if headers else None)
        with ReservedSlots().slot(None) as slot, pytest.raises(Refused) as refused:
            await server._site.serve(MemoryExchange(server._site, request), slot)
        assert refused.value.refusal.code == code


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (plain("/nothing", "content-length: 5", method="POST"), [(404, "not_found"), 0.0]),
        (plain("/schema?format=no", "content-length: 5", method="POST"), [(405, "method_not_allowed"), 0.0]),
        (websocket("/ws", "origin: https://elsewhere.test", "content-length: 5"), [(403, "wrong_origin"), 0.0]),
        (plain("/nothing", "content-length: 5"), [(408, "request_timeout"), 10.0]),
    ],
    ids=["a post to no path", "a post to a page", "a handshake", "a get"],
)
async def test_only_a_get_is_read_to_its_end_before_it_is_refused(autojump_clock, request_, expected):
    """No byte of the body comes. The connection of a GET may go on, so its body must not stay there."""
    async with open_server(Black) as server:
        assert [*await answers(server._site, request_), trio.current_time()] == expected


async def test_a_connection_has_the_limits_of_the_settings():
    given = LimitSettings(
        text_message=1025, client_binary=1026, text_per_second=1027, http_head=1028, handshake=29, ping_interval=30,
        silence=131, stall=32,
    )  # fmt: skip
    async with open_server(Black, settings=Settings(limits=given, uploads=UploadSettings(time=33))) as server:
        assert server._site.rules.limits == Limits(
            text_message=1025, binary_message=1026, text_per_second=1027, http_head=1028, body_time=33, handshake=29,
            ping_interval=30, silence=131, stall=32,
        )  # fmt: skip
    async with open_server(Black) as server:
        assert server._site.rules.limits == Limits(), "the defaults of the transport are those of the settings"
