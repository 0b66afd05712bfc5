"""Which route a request is for, and what is said where there is none."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.asking import ask, plain, websocket
from tests.support.black import Black
from tests.support.gate_kit import open_gate

from reactor_trio.configuration.settings import ManagementSettings, Settings
from reactor_trio.edge.management import management_site
from reactor_trio.edge.router import Route, Router, part_of
from reactor_trio.server.standby import standby_site
from reactor_trio.testing import open_server
from reactor_trio.transport import Refused, Request, Response


async def handle(_exchange, _grant):
    raise AssertionError("not called")


ROUTER = Router(
    Route("/", handle), Route("/health", handle), Route("/uploads", handle, method="POST", shared=True),
    Route("/v1/sessions", handle), Route("/v1/sessions", handle, method="POST"),
    Route("/v1/sessions/ID", handle, method="DELETE"), Route("/ws", handle, websocket=True),
    Route("/page/*", handle, listed=False),
)  # fmt: skip


NOT_FOUND = (404, "not found; there are /, /health, /uploads, /v1/sessions, /v1/sessions/ID and the WebSocket /ws", "")


def asked(method: str, path: str) -> tuple[str, str]:
    """The route's method and path; of a refusal its status and text, and `Allow`."""
    try:
        route = ROUTER.find(Request(method=method, path=path))
    except Refused as refused:
        answer = Response.refusing(refused.refusal)
        return answer.status, answer.body.decode().strip(), answer.headers.get("allow", "")
    return route.method, route.path


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/health", ("GET", "/health")),
        ("HEAD", "/health", ("GET", "/health")),
        ("POST", "/uploads", ("POST", "/uploads")),
        ("GET", "/v1/sessions", ("GET", "/v1/sessions")),
        ("POST", "/v1/sessions", ("POST", "/v1/sessions")),
        ("DELETE", "/v1/sessions/a_b-9", ("DELETE", "/v1/sessions/ID")),
        ("GET", "/page/a/b.js", ("GET", "/page/*")),
        ("POST", "/health", (405, "/health takes GET and HEAD, not POST", "GET, HEAD")),
        ("PUT", "/health", (405, "/health takes GET and HEAD, not PUT", "GET, HEAD")),
        ("GET", "/uploads", (405, "/uploads takes POST, not GET", "POST")),
        ("DELETE", "/uploads", (405, "/uploads takes POST, not DELETE", "POST")),
        ("DELETE", "/v1/sessions", (405, "/v1/sessions takes GET and HEAD and POST, not DELETE", "GET, HEAD, POST")),
        ("GET", "/v1/sessions/abc", (405, "/v1/sessions/abc takes DELETE, not GET", "DELETE")),
        ("POST", "/ws", (405, "/ws takes GET and HEAD, not POST", "GET, HEAD")),
        ("GET", "/elsewhere", NOT_FOUND),
        ("GET", "/page", NOT_FOUND),
        ("POST", "/elsewhere", NOT_FOUND),
        ("PUT", "/elsewhere", NOT_FOUND),
        ("DELETE", "/v1/sessions/a/b", NOT_FOUND),
    ],
)
def test_each_request_has_its_route(method, path, expected):
    assert asked(method, path) == expected


def test_what_a_site_says_of_itself_comes_from_its_routes():
    assert ROUTER.websockets == ["/ws"]
    assert [route.shared for route in ROUTER.at("/uploads")] == [True]


METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
PROBED = {"/health": "GET, HEAD", "/ready": "GET, HEAD", "/metrics": "GET, HEAD"}
PAGE = {"/": "GET, HEAD", "/favicon.ico": "GET, HEAD", "/page/client.js": "GET, HEAD", "/pictures/a.png": "GET, HEAD"}
SERVER = {
    **PROBED, **PAGE, "/schema": "GET, HEAD", "/ws": "GET, HEAD", "/uploads": "POST", "/moments/1.jpg": "GET, HEAD",
    "/v1/sessions/some": "DELETE",
}  # fmt: skip
GATE = {
    **PROBED, **PAGE, "/schema": "GET, HEAD", "/ws": "GET, HEAD", "/v1/queue": "GET, HEAD", "/v1/sessions": "POST",
    "/v1/sessions/some": "DELETE",
}  # fmt: skip
PATHS = sorted({*SERVER, *GATE, "/elsewhere", "/health/", "/v1/sessions/a/b", "/page"})
#: site -> its paths with their methods, and those of its WebSockets
SITES = {
    "server": (SERVER, ["/ws"]), "standby": (SERVER, ["/ws"]), "gate": (GATE, ["/ws", "/v1/queue"]),
    "management": (PROBED, []),
}  # fmt: skip


@asynccontextmanager
async def opened(site: str):
    match site:
        case "server" | "management":
            async with open_server(Black, settings=Settings(management=ManagementSettings())) as server:
                here = server._site
                yield here if site == "server" else management_site(here, server.runtime.settings, "127.0.0.1")
        case "gate":
            async with open_gate() as gate:
                yield gate.site
        case _:
            yield standby_site(Settings(), "mine", "SyntaxError in pipeline.py")


@pytest.mark.parametrize("name", SITES)
async def test_every_site_decides_in_one_way_what_a_path_is(autojump_clock, name):
    """404 where it has no such path, whatever the method; 405 with all methods of the path; and WebSockets alike."""
    methods, websockets = SITES[name]
    async with opened(name) as site:
        for path in PATHS:
            for method in METHODS:
                asked = plain(path, "content-length: 0", method=method)
                answer = (await ask(site, asked, head_only=method == "HEAD"))[0]
                if path not in methods:
                    assert (answer.status, answer.headers.get("allow")) == (404, None), (method, path)
                elif method not in methods[path]:
                    assert (answer.status, answer.headers.get("allow")) == (405, methods[path]), (method, path)
                else:
                    assert answer.headers.get("reactor-refusal") != "method_not_allowed", (method, path)
                    assert answer.headers.get("allow") is None, (method, path)
            answer = (await ask(site, websocket(path)))[0]
            takes_none = 405 if path in methods and "GET" not in methods[path] else 404
            assert (answer.status in (404, 405)) == (path not in websockets), path
            assert path in websockets or answer.status == takes_none, path


async def test_a_standby_answers_503_where_a_server_would_answer(autojump_clock):
    async with opened("standby") as site:
        for path, allowed in SERVER.items():
            for method in allowed.split(", "):
                answer = (await ask(site, plain(path, "content-length: 0", method=method), head_only=method == "HEAD"))[0]
                expected = 426 if path == "/ws" else 404 if path.startswith("/pictures") else 200 if path in PAGE else 503
                assert answer.status == expected, (method, path)
        assert (await ask(site, websocket("/ws")))[0].status == 503


async def test_the_page_on_security_has_a_row_for_every_path_of_a_server(autojump_clock):
    page = Path(__file__).parents[2] / "docs" / "operate" / "security.md"
    table = page.read_text(encoding="utf-8").partition("| path | with `auth` |\n")[2].partition("\n\n")[0]
    rows = [path for line in table.splitlines()[1:] for path in re.findall(r"`(/\S*)`", line.split("|")[1])]
    async with open_server(Black) as server:
        assert sorted(rows) == sorted({route.path for route in server._site.router.routes})


@pytest.mark.parametrize(
    ("path", "part"),
    [("/s/a", "a"), ("/s/a-B_9", "a-B_9"), ("/s/" + "a" * 64, "a" * 64), ("/s/" + "a" * 65, ""), ("/s/", ""), ("/s", ""),
     ("/s/a/b", ""), ("/s/a%20", ""), ("/s/..", ""), ("/t/a", "")],
)  # fmt: skip
def test_the_part_of_a_path_that_is_a_name(path, part):
    assert part_of(path, "/s") == part
