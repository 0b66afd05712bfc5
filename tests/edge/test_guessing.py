"""Guesses of a credential: on every route 60 a minute from an address, and no good credential is refused for them."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager

import numpy as np
import pytest
import trio
from tests.edge.test_address_limits import refusals
from tests.support.asking import PROXY, ask, behind_a_proxy, plain, websocket
from tests.support.gate_kit import open_gate

from reactor_trio import issue_ticket
from reactor_trio.configuration.settings import AuthSettings, Settings
from reactor_trio.edge.address_limits import FAILURES_PER_MINUTE
from reactor_trio.interface import Output, ReactorPipeline, UploadedFile, Video, event
from reactor_trio.server.serve import serve
from reactor_trio.testing import open_server

TOKEN, WATCH, KEY = "control-" + "t" * 16, "watching-" + "v" * 16, "k" * 32
WRONG = "guess-" + "w" * 16
WORDS = b"this address has shown too many wrong credentials; wait a little\n"


class Picture(Output):
    main_video: Video


class Model(ReactorPipeline):
    output: Picture
    fps = 4

    @event
    def show(self, file: UploadedFile):
        pass

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


def bearer(token):
    return f"authorization: Bearer {token}"


def upload(token):
    return plain("/uploads?name=a", bearer(token), "content-length: 0", method="POST")


#: what asks with a token, and the status for one that is wrong
SERVER = {
    "metrics": (lambda token: plain(f"/metrics?token={token}"), 401),
    "metrics by header": (lambda token: plain("/metrics", bearer(token)), 401),
    "schema": (lambda token: plain(f"/schema?token={token}"), 401),
    "health": (lambda token: plain(f"/health?token={token}"), 200),
    "ready": (lambda token: plain(f"/ready?token={token}"), 200),
    "delete": (lambda token: plain(f"/v1/sessions/some?token={token}", method="DELETE"), 401),
    "control": (lambda token: websocket(f"/ws?token={token}"), 401),
    "viewer": (lambda token: websocket(f"/ws?role=viewer&token={token}"), 401),
}
GATE = {
    "metrics": (lambda token: plain(f"/metrics?token={token}"), 401),
    "schema": (lambda token: plain(f"/schema?token={token}"), 401),
    "health": (lambda token: plain(f"/health?token={token}"), 200),
    "delete": (lambda token: plain(f"/v1/sessions/some?token={token}", method="DELETE"), 401),
    "place": (lambda token: plain("/v1/sessions", bearer(token), "content-length: 0", method="POST"), 401),
    "queue": (lambda token: websocket(f"/v1/queue?token={token}"), 401),
    "redirect": (lambda token: websocket(f"/ws?token={token}"), 401),
}


async def guess(site, request, wrong, usual):
    """Guess until the limit answers, and a little beyond it."""
    found = [(await ask(site, request(wrong)))[0] for _ in range(FAILURES_PER_MINUTE + 3)]
    assert [one.status for one in found] == [usual] * FAILURES_PER_MINUTE + [429] * 3
    told = {(one.headers["retry-after"], one.headers["connection"], one.body) for one in found[-3:]}
    assert told == {("1", "close", WORDS)}


async def status(site, *lines, **options):
    return (await ask(site, *lines, **options))[0].status


@asynccontextmanager
async def served(monkeypatch, **runtime):
    auth = {"token": TOKEN, "viewer_token": WATCH, "ticket_keys": [KEY]}
    with behind_a_proxy(monkeypatch):
        async with open_server(Model, **{"auth": auth, "proxies": [PROXY], "resume_window": 30, **runtime}) as server:
            yield server


@pytest.mark.parametrize("route", SERVER)
async def test_a_server_answers_60_guesses_a_minute_on_each_route(autojump_clock, monkeypatch, route):
    request, usual = SERVER[route]
    async with served(monkeypatch) as server:
        site = server._site
        await guess(site, request, WRONG, usual)
        assert await status(site, request(WRONG), address="198.51.100.2") == usual
        assert await status(site, request(TOKEN)) not in (401, 429), "a right one is let in, whoever guesses beside it"
        assert await status(site, request(WRONG)) == 429
        await trio.sleep(1.001)
        assert [await status(site, request(WRONG)) for _ in range(2)] == [usual, 429]
        assert refusals(server.runtime.metrics) == {"address_failures": 5}


@pytest.mark.parametrize("route", GATE)
async def test_so_does_a_gate(autojump_clock, monkeypatch, route):
    request, usual = GATE[route]
    with behind_a_proxy(monkeypatch):
        async with open_gate(settings=Settings(auth=AuthSettings(token=TOKEN), proxies=(PROXY,))) as gate:
            await guess(gate.site, request, WRONG, usual)
            assert await status(gate.site, request(WRONG), address="198.51.100.2") == usual
            assert await status(gate.site, request(TOKEN)) not in (401, 429)


async def test_every_kind_of_credential_counts_and_a_right_one_of_each_kind_passes(autojump_clock, monkeypatch):
    async with served(monkeypatch) as server:
        site = server._site
        async with server.connect(token=TOKEN) as lost:
            await lost.take(1)
            await lost.vanish()
        used, good, share = issue_ticket(KEY), issue_ticket(KEY), lost.share_token
        server.runtime.access.use(server.runtime.access.check(used))
        kinds = {
            "token": (websocket(f"/ws?token={WRONG}"), websocket(f"/ws?token={TOKEN}")),
            "viewer token": (websocket(f"/ws?role=viewer&token={WRONG}"), websocket(f"/ws?role=viewer&token={WATCH}")),
            "share token": (plain(f"/schema?token={share[:-1]}"), plain(f"/schema?token={share}")),
            "upload token": (upload(WRONG), upload(server.sessions[0].uploads.token)),
            "ticket": (plain(f"/schema?token={used}"), plain(f"/schema?token={good}")),
            "resume token": (websocket(f"/ws?resume={WRONG}"), websocket(f"/ws?resume={lost.resume_token}")),
        }
        assert [await status(site, wrong) for wrong, _ in list(kinds.values()) * 10] == [401] * 60
        assert [await status(site, wrong) for wrong, _ in kinds.values()] == [429] * len(kinds)
        assert {kind: await status(site, right) for kind, (_, right) in kinds.items()} == {
            "token": 101, "viewer token": 101, "share token": 200, "upload token": 400, "ticket": 200, "resume token": 101,
        }  # fmt: skip


async def test_a_server_without_authentication_counts_guesses_of_the_tokens_that_it_has(autojump_clock, monkeypatch):
    async with served(monkeypatch, auth=None) as server, server.connect() as player:
        watch, _ = SERVER["viewer"]
        await guess(server._site, watch, WRONG, 401)
        assert await status(server._site, upload(WRONG)) == 429
        assert await status(server._site, watch(player.share_token)) == 101
        assert await status(server._site, upload(server.sessions[0].uploads.token)) == 400, "the file is empty"
        assert await status(server._site, plain("/metrics")) == 200


async def test_who_shows_nothing_guesses_nothing(autojump_clock, monkeypatch):
    """A page without its token learns that it needs one, whatever else comes from its address."""
    async with served(monkeypatch) as server:
        site = server._site
        assert {await status(site, plain("/metrics")) for _ in range(100)} == {401}
        await guess(site, SERVER["metrics"][0], WRONG, 401)
        assert await status(site, plain("/metrics")) == 401
        assert await status(site, websocket("/ws")) == 401
        assert [await status(site, plain(path)) for path in ("/health", "/ready", "/")] == [200] * 3


async def test_guesses_use_up_no_other_limit(autojump_clock, monkeypatch):
    """Otherwise who guesses would shut out who is right."""
    async with served(monkeypatch, limits={"handshakes_per_minute": 2, "http_per_minute": 2}) as server:
        site = server._site
        for _ in range(100):
            assert await status(site, plain(f"/metrics?token={WRONG}")) in (401, 429)
            assert await status(site, websocket(f"/ws?token={WRONG}")) in (401, 429)
        assert [await status(site, plain(f"/metrics?token={TOKEN}")) for _ in range(3)] == [200, 200, 429]
        assert [await status(site, websocket(f"/ws?token={TOKEN}")) for _ in range(3)] == [101, 101, 429]


async def test_a_connection_carries_one_guess_too_many_and_no_more(autojump_clock, monkeypatch):
    async with served(monkeypatch) as server:
        guesses = [plain(f"/schema?token={WRONG}{number}") for number in range(200)]
        found = await ask(server._site, *guesses)
        assert [one.status for one in found] == [401] * FAILURES_PER_MINUTE + [429]


async def test_loopback_may_guess(autojump_clock, monkeypatch):
    async with served(monkeypatch) as server:
        found = {await status(server._site, plain(f"/metrics?token={WRONG}"), address="127.0.0.1") for _ in range(100)}
        assert found == {401}


async def test_over_a_socket():
    """On a slow machine the limit refills meanwhile, so some of the later guesses get 401."""
    auth = AuthSettings(token=TOKEN)
    settings = Settings(port=0, auth=auth, proxies=("127.0.0.1",))
    async with trio.open_nursery() as nursery:
        server = await nursery.start(lambda task_status: serve(Model, settings=settings, task_status=task_status))
        found = [await over_tcp(server, WRONG) for _ in range(200)]
        assert found[:FAILURES_PER_MINUTE] == [401] * FAILURES_PER_MINUTE
        assert Counter(found).keys() == {401, 429}
        assert await over_tcp(server, TOKEN) == 200
        nursery.cancel_scope.cancel()


async def over_tcp(server, token):
    async with await trio.open_tcp_stream(server.host, server.port) as stream:
        lines = plain(f"/metrics?token={token}", "x-forwarded-for: 198.51.100.1", "", "")
        await stream.send_all("\r\n".join(lines).encode())
        return int((await stream.receive_some(4096)).split()[1])
