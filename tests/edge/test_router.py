"""Which route a request is for, and what is said where there is none."""

from __future__ import annotations

import pytest

from reactor_trio.edge.router import Route, Router, part_of
from reactor_trio.transport import Refused, Request, Response


def named(name):
    return lambda _request: Response.plain(200, name)


async def body(_pieces) -> Response:
    return Response.plain(201, "taken")


ROUTER = Router(
    Route("/health", get=named("health")), Route("/uploads", post=lambda _request: body, shared=True),
    Route("/v1/sessions", get=named("all"), post=lambda _request: body), Route("/v1/sessions/ID", delete=named("end")),
    Route("/ws", websocket=True),
)  # fmt: skip


NOT_FOUND = (404, "not found; there are /, /health, /uploads, /v1/sessions, /v1/sessions/ID and the WebSocket /ws", "")


def asked(method: str, path: str) -> tuple[int, str, str]:
    """Status, text and `Allow` of the answer; a POST is (201, "taken", "")."""
    request = Request(method=method, path=path)
    try:
        if method == "POST":
            assert ROUTER.body_taker(request) is body
            return 201, "taken", ""
        if method == "DELETE":
            assert ROUTER.body_taker(request) is None
        answer = ROUTER.answer(request)
    except Refused as refused:
        answer = refused.response
    return answer.status, answer.body.decode().strip(), answer.headers.get("allow", "")


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/health", (200, "health", "")),
        ("HEAD", "/health", (200, "health", "")),
        ("POST", "/uploads", (201, "taken", "")),
        ("GET", "/v1/sessions", (200, "all", "")),
        ("DELETE", "/v1/sessions/a_b-9", (200, "end", "")),
        ("POST", "/health", (405, "/health takes GET and HEAD, not POST", "GET, HEAD")),
        ("GET", "/uploads", (405, "/uploads takes POST, not GET", "POST")),
        ("DELETE", "/uploads", (405, "/uploads takes POST, not DELETE", "POST")),
        ("DELETE", "/v1/sessions", (405, "/v1/sessions takes GET and HEAD and POST, not DELETE", "GET, HEAD, POST")),
        ("GET", "/v1/sessions/abc", (405, "/v1/sessions/abc takes DELETE, not GET", "DELETE")),
        ("POST", "/ws", (405, "/ws takes GET and HEAD, not POST", "GET, HEAD")),
        ("GET", "/elsewhere", NOT_FOUND),
        ("POST", "/elsewhere", (405, "/elsewhere takes GET and HEAD, not POST", "GET, HEAD")),
        ("DELETE", "/v1/sessions/a/b", (405, "/v1/sessions/a/b takes GET and HEAD, not DELETE", "GET, HEAD")),
    ],
)  # fmt: skip
def test_each_request_has_its_answer(method, path, expected):
    assert asked(method, path) == expected


def test_what_a_site_says_of_itself_comes_from_its_routes():
    assert ROUTER.methods == ["GET", "HEAD", "POST", "DELETE"]
    assert (ROUTER.websockets, ROUTER.shared) == (["/ws"], ["/uploads"])


@pytest.mark.parametrize(
    ("path", "part"),
    [("/s/a", "a"), ("/s/a-B_9", "a-B_9"), ("/s/" + "a" * 64, "a" * 64), ("/s/" + "a" * 65, ""), ("/s/", ""), ("/s", ""),
     ("/s/a/b", ""), ("/s/a%20", ""), ("/s/..", ""), ("/t/a", "")],
)  # fmt: skip
def test_the_part_of_a_path_that_is_a_name(path, part):
    assert part_of(path, "/s") == part
