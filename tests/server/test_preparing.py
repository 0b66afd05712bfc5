"""What is found out after the server is ready, who waits for it, and what happens if it cannot be."""

from __future__ import annotations

import json
from functools import partial

import pytest
import trio
import trio.testing
from tests.support.loaded_here import load_here
from tests.support.transport_peers import opening

from reactor_trio import issue_ticket
from reactor_trio.concurrency import open_model_host
from reactor_trio.configuration.settings import AuthSettings, LimitSettings, Settings
from reactor_trio.errors import ManifestError, ModelFailed
from reactor_trio.interface import ReactorModel
from reactor_trio.media import CodecSettings, encoders
from reactor_trio.server import preparation
from reactor_trio.server import runtime as runtime_module
from reactor_trio.server.reactor_site import reactor_site
from reactor_trio.server.runtime import Runtime
from reactor_trio.server.runtime_parts import ProcessParts
from reactor_trio.testing.memory_exchange import admit, answer_to
from reactor_trio.testing.virtual_time import InlineTime
from reactor_trio.transport import Request, serve_http

CHOSEN = Settings(codec=CodecSettings(h264="libx264"))


class Nothing(ReactorModel):
    pass


async def three_seconds(function, argument):
    await trio.sleep(3)
    return function(argument)


def site_of(host, settings=None, model=Nothing):
    place = load_here(host, model, settings)
    runtime = Runtime(place, name="nothing", settings=settings or Settings(), parts=ProcessParts(three_seconds))
    return runtime, reactor_site(runtime, "127.0.0.1")


def request(path):
    return Request(method="GET", path=path, host="127.0.0.1", authority="127.0.0.1", peer="test")


def health(site):
    answer = answer_to(site, request("/health"))
    return answer.status, json.loads(answer.body)["encoders"]


async def test_ready_does_not_wait_for_the_encoders_and_the_first_client_does(autojump_clock):
    async with open_model_host(InlineTime(None)) as host, trio.open_nursery() as nursery:
        runtime, site = site_of(host)
        await runtime.load({})
        await runtime.admit_clients()
        assert trio.current_time() == 0
        nursery.start_soon(runtime.prepare)
        await trio.sleep(1)
        assert health(site) == (200, {})
        assert callable(await admit(site, request("/ws")))
        assert trio.current_time() == 3
        assert health(site) == (200, encoders(CodecSettings()))
        assert callable(await admit(site, request("/ws")))
        assert trio.current_time() == 3
        await runtime.preparation.at_rest.wait()
        assert trio.current_time() == 6  # and for the rest it does not


async def test_a_chosen_encoder_is_proven_before_the_model_loads(autojump_clock):
    async with open_model_host(InlineTime(None)) as host:
        runtime, _ = site_of(host, CHOSEN)
        await runtime.load({})
        assert trio.current_time() == 3


async def test_a_chosen_encoder_that_is_not_there_ends_the_start(autojump_clock, monkeypatch):
    class Unloaded(Nothing):
        def load(self, config):
            raise AssertionError("loaded")

    def refuse(settings):
        raise ManifestError("runtime.codec.h264: libx264 is not installed")

    monkeypatch.setattr(runtime_module, "encoders", refuse)
    async with open_model_host(InlineTime(None)) as host:
        runtime, site = site_of(host, CHOSEN, Unloaded)
        with pytest.raises(ManifestError, match="libx264 is not installed"):
            await runtime.load({})
        assert runtime.journal.phase == "failed"
        assert (await admit(site, request("/ws"))).status == 503


async def test_a_library_that_cannot_be_imported_ends_the_server_and_lets_nobody_wait(autojump_clock, monkeypatch):
    def broken(settings):
        raise ImportError("libavcodec.so.62: cannot open shared object file")

    monkeypatch.setattr(preparation, "prepare", broken)
    async with open_model_host(InlineTime(None)) as host:
        runtime, site = site_of(host)
        await runtime.load({})
        await runtime.admit_clients()
        with pytest.RaisesGroup(pytest.RaisesExc(ModelFailed, match=r"nothing: what is installed .*: libavcodec")):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runtime.prepare)
                nursery.start_soon(admit, site, request("/ws"))
        assert trio.current_time() == 3
        answer = answer_to(site, request("/health"))
        assert answer.status == 503
        assert "libavcodec" in json.loads(answer.body)["reason"]
        assert (await admit(site, request("/ws"))).status == 503


@pytest.mark.parametrize(
    ("path", "status", "code", "over"),
    [
        ("/ws", b"HTTP/1.1 503 ", b"reactor-refusal: failed\r\n", 3),
        ("/ws?refusals=bye", b"HTTP/1.1 101 ", b'"code":"failed"', 4),  # 1 s for the close frame, which does not come
    ],
)
async def test_who_waits_when_the_preparation_fails_gets_a_whole_refusal(
    autojump_clock, monkeypatch, path, status, code, over
):
    """Its connection ended without an answer, since the server ended first."""

    def broken(settings):
        raise ImportError("libavcodec.so.62: cannot open shared object file")

    monkeypatch.setattr(preparation, "prepare", broken)
    ours, theirs = trio.testing.memory_stream_pair()
    answer = bytearray()

    async def knock():
        await trio.sleep(1)  # the model is loaded, and its server prepares
        await ours.send_all(opening(path=path, host="127.0.0.1"))
        while data := await ours.receive_some():
            answer.extend(data)

    async with open_model_host(InlineTime(None)) as host, trio.open_nursery() as clients:
        runtime, site = site_of(host)

        async def accept(connections):
            connections.start_soon(partial(serve_http, theirs, site.serve, site.rules, closing=runtime.closing))

        clients.start_soon(knock)
        with pytest.raises(ModelFailed, match="libavcodec"):
            await runtime.run({}, listeners=[accept])
        assert trio.current_time() == over
    assert answer.startswith(status)
    assert code in answer


async def test_a_client_whose_admission_takes_too_long_is_told_and_keeps_its_ticket(autojump_clock):
    key = "k" * 32
    settings = Settings(auth=AuthSettings(ticket_keys=(key,)), limits=LimitSettings(handshake=2))
    async with open_model_host(InlineTime(None)) as host, trio.open_nursery() as nursery:
        runtime, site = site_of(host, settings)
        await runtime.load({})
        await runtime.admit_clients()
        nursery.start_soon(runtime.prepare)

        async def knock(ticket, found):
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(partial(serve_http, theirs, site.serve, site.rules, closing=runtime.closing))
            await ours.send_all(opening(path=f"/ws?token={ticket}", host="127.0.0.1"))
            found.append((int(bytes(await ours.receive_some()).split()[1]), trio.current_time()))
            await trio.aclose_forcefully(ours)

        ticket, found = issue_ticket(key), []
        await knock(ticket, found)
        await knock(ticket, found)
        await knock(ticket, found)
        assert found == [(503, 2), (101, 3), (401, 3)]
        nursery.cancel_scope.cancel()
