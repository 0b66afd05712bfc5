"""Which route a request is for, and what is said where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.black import Black

from reactor_trio.edge.router import Route, Router, part_of
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
        ("PUT", "/health", (405, "PUT is not allowed", "GET, HEAD, POST, DELETE")),
        ("GET", "/uploads", (405, "/uploads takes POST, not GET", "POST")),
        ("DELETE", "/uploads", (405, "/uploads takes POST, not DELETE", "POST")),
        ("DELETE", "/v1/sessions", (405, "/v1/sessions takes GET and HEAD and POST, not DELETE", "GET, HEAD, POST")),
        ("GET", "/v1/sessions/abc", (405, "/v1/sessions/abc takes DELETE, not GET", "DELETE")),
        ("POST", "/ws", (405, "/ws takes GET and HEAD, not POST", "GET, HEAD")),
        ("GET", "/elsewhere", NOT_FOUND),
        ("GET", "/page", NOT_FOUND),
        ("POST", "/elsewhere", (405, "/elsewhere takes GET and HEAD, not POST", "GET, HEAD")),
        ("DELETE", "/v1/sessions/a/b", (405, "/v1/sessions/a/b takes GET and HEAD, not DELETE", "GET, HEAD")),
    ],
)
def test_each_request_has_its_route(method, path, expected):
    assert asked(method, path) == expected


def test_what_a_site_says_of_itself_comes_from_its_routes():
    assert ROUTER.methods == ["GET", "HEAD", "POST", "DELETE"]
    assert ROUTER.websockets == ["/ws"]
    assert [route.shared for route in ROUTER.at("/uploads")] == [True]


async def test_the_page_on_security_has_a_row_for_every_path_of_a_server(autojump_clock):
    page = Path(__file__).parents[2] / "docs" / "security.md"
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
