"""A page of another origin sends a file or imports the client: what its browser asks and reads. Only listed origins may."""

from __future__ import annotations

from unittest.mock import ANY

import anyio
import numpy as np
import pytest

from reactor_trio.interface import InputState, Output, ReactorPipeline, UploadedFile, Video, event
from reactor_trio.testing import open_server

PAGE, EVIL = "https://gate.example", "https://evil.example"


class Picture(Output):
    main_video: Video


class Looker(ReactorPipeline):
    state: InputState
    fps = 10

    @event
    async def size(self, file: UploadedFile) -> int:
        return file.size

    def inference(self):
        while True:
            yield Picture(main_video=np.zeros((4, 4, 3), np.uint8))


async def ask(server, method, path, *lines, body=b"", host="localhost"):
    """Status and headers of the answer."""
    stream = await server._open_stream()
    head = [f"{method} {path} HTTP/1.1", f"host: {host}", "connection: close", *lines, "", ""]
    await stream.send("\r\n".join(head).encode() + body)
    data = b""
    try:
        while True:
            data += await stream.receive()
    except anyio.EndOfStream:
        await stream.aclose()
    first, *fields = data.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    return int(first.split()[1]), dict(field.split(": ", 1) for field in fields)


def preflight(origin):
    return (f"origin: {origin}", "access-control-request-method: POST",
            "access-control-request-headers: authorization,content-type")  # fmt: skip


def shared(headers):
    """What of an answer is about other origins; the page's files vary by the origin in each answer, which `VARIES` is."""
    return {
        name: value for name, value in headers.items()
        if name.startswith("access-control") or (name == "vary" and value != VARIES)
    }  # fmt: skip


VARIES = "accept-encoding, origin"
READS = {"access-control-allow-origin": PAGE, "vary": "Origin"}
MAY_SEND = READS | {
    "access-control-allow-methods": "POST", "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "600",
}  # fmt: skip


@pytest.mark.parametrize("origins", [(PAGE,), ("*",)])
async def test_a_page_of_a_listed_origin_sends_a_file_and_reads_the_answer(autojump_clock, origins):
    async with open_server(Looker, websocket=True, origins=origins) as server, server.connect() as client:
        status, headers = await ask(server, "OPTIONS", "/uploads?name=a", *preflight(PAGE))
        assert (status, shared(headers)) == (200, MAY_SEND)

        token = client.welcome.upload_token
        sending = (f"origin: {PAGE}", "content-length: 3")
        shown = f"authorization: Bearer {token}"
        status, headers = await ask(server, "POST", "/uploads?name=a", *sending, shown, body=b"cat")
        assert (status, shared(headers)) == (201, READS)
        status, headers = await ask(server, "POST", "/uploads?name=a", *sending, body=b"cat")
        assert (status, shared(headers)) == (401, READS | {"access-control-expose-headers": "reactor-refusal, retry-after"})


async def test_no_other_page_is_let_read_anything(autojump_clock):
    own = "http://localhost"
    async with open_server(Looker, websocket=True, origins=(PAGE,)) as server:
        for origin in (EVIL, own, "null", PAGE + ":8443", PAGE.upper(), PAGE + "/"):
            status, headers = await ask(server, "OPTIONS", "/uploads", *preflight(origin))
            assert (status, shared(headers)) == (405, {})
            status, headers = await ask(server, "POST", "/uploads", f"origin: {origin}", "content-length: 0")
            assert (status, shared(headers)) == (401 if origin == own else 403, {})
        for path in ("/", "/schema", "/health", "/ready", "/metrics", "/uploads/", "/ws"):
            _, headers = await ask(server, "GET", path, f"origin: {PAGE}")
            assert shared(headers) == {}
            status, headers = await ask(server, "OPTIONS", path, *preflight(PAGE))
            assert (status, shared(headers)) == (404 if path == "/uploads/" else 405, {})
        status, headers = await ask(server, "OPTIONS", "/uploads", *preflight(PAGE), f"origin: {PAGE}")
        assert (status, shared(headers)) == (405, {})  # a browser says one
        status, headers = await ask(server, "OPTIONS", "/uploads", f"origin: {PAGE}")
        assert status == 405  # no browser asks so
        status, headers = await ask(server, "OPTIONS", "/uploads", *preflight(PAGE), host="rebound.example")
        assert (status, shared(headers)) == (421, {})


@pytest.mark.parametrize("origins", [(PAGE,), ("*",)])
async def test_a_page_of_a_listed_origin_imports_the_client(autojump_clock, origins):
    async with open_server(Looker, websocket=True, origins=origins) as server:
        for path in ("/page/client.js", "/page/audio-player-worklet.js", "/page/0123456789abcdef/client.js"):
            for method in ("GET", "HEAD"):
                status, headers = await ask(server, method, path, f"origin: {PAGE}")
                assert (status, headers["vary"], shared(headers)) == (200, VARIES, {"access-control-allow-origin": PAGE})
        known = (f"origin: {PAGE}", f"if-none-match: {headers['etag']}")
        assert (await ask(server, "GET", "/page/client.js", *known))[1]["access-control-allow-origin"] == PAGE
        status, headers = await ask(server, "OPTIONS", "/page/client.js", *preflight(PAGE))
        assert (status, shared(headers)) == (405, {})  # an import asks nothing first


async def test_an_origin_of_other_bytes_than_ascii_is_none(autojump_clock):
    async with open_server(Looker, websocket=True, origins=("*",)) as server:
        status, headers = await ask(server, "GET", "/page/client.js", "origin: http://\xe9")
        assert (status, shared(headers)) == (200, {})


async def test_no_other_page_imports_it(autojump_clock):
    async with open_server(Looker, websocket=True, origins=(PAGE,)) as server:
        for lines in ((f"origin: {EVIL}",), ("origin: null",), (f"origin: {PAGE}", f"origin: {PAGE}"), ()):
            status, headers = await ask(server, "GET", "/page/client.js", *lines)
            assert (status, headers["vary"], shared(headers)) == (200, VARIES, {})  # a cache keeps the two answers apart


async def test_without_listed_origins_there_are_none(autojump_clock):
    async with open_server(Looker, websocket=True) as server:
        status, headers = await ask(server, "OPTIONS", "/uploads", *preflight(PAGE))
        assert (status, shared(headers)) == (405, {})


async def test_no_page_ends_sessions_but_those_of_the_server(autojump_clock):
    path = "/v1/sessions/some"
    async with open_server(Looker, websocket=True, origins=(PAGE,)) as server:
        preflight_of_it = ("access-control-request-method: DELETE", f"origin: {PAGE}")
        assert await ask(server, "OPTIONS", path, *preflight_of_it) == (405, ANY)
        assert await ask(server, "DELETE", path, f"origin: {EVIL}") == (403, ANY)
        status, headers = await ask(server, "DELETE", path, f"origin: {PAGE}")
        assert (status, shared(headers)) == (403, {})  # listed, but no page of another origin may read why
        for other in ("/health", "/uploads", "/ws"):
            assert await ask(server, "DELETE", other) == (405, ANY)
        for other in ("/v1/sessions", "/v1/sessions/", "/v1/sessions/a/b", f"{path}%2e"):
            assert await ask(server, "DELETE", other) == (404, ANY)
        assert await ask(server, "POST", path, "content-length: 0") == (405, ANY)
        assert await ask(server, "DELETE", path, "content-length: 99999999") == (413, ANY)


async def test_a_page_of_a_frame_ancestor_may_show_the_page_and_send_nothing(autojump_clock):
    async with open_server(Looker, websocket=True, frame_ancestors=(PAGE,)) as server:
        for path in ("/", "/page/main.js"):
            _, headers = await ask(server, "GET", path)
            assert headers["content-security-policy"].endswith(f"; frame-ancestors 'self' {PAGE}")
        status, _ = await ask(server, "POST", "/uploads", f"origin: {PAGE}", "content-length: 0")
        assert status == 403
    async with open_server(Looker, websocket=True) as server:
        _, headers = await ask(server, "GET", "/")
        assert headers["content-security-policy"].endswith("; frame-ancestors 'self'")
