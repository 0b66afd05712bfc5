"""Answers that every site of ours gives in the same way: the viewer page's files, JSON, and that it is busy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from reactor_trio.transport import Request, Response

_CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}
# A session may be at a replica of another origin, which only the gate knows: its socket, and the files that are sent to it.
_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' blob:; connect-src 'self' ws: wss: http: https:; base-uri 'none'; "
    "frame-ancestors 'self'"
)


def busy(message: str) -> Response:
    """503, for a moment."""
    return Response.plain(503, message, {"retry-after": "1"})


def json_response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """`body` as JSON."""
    return Response(status, "application/json", msgspec.json.encode(body), headers or {})


def page_response(request: Request) -> Response | None:
    """A file of the viewer page, None if that is not what is asked for."""
    match request.path:
        case "/":
            return _page_file("index.html")
        case "/favicon.ico":
            return _page_file("icon.svg")
        case path if path.startswith("/page/"):
            return _page_file(path.removeprefix("/page/"))
    return None


def _page_file(name: str) -> Response:
    kind = _CONTENT_TYPES.get(name.rpartition(".")[2])
    if kind is None or name not in _page_files():
        return Response.plain(404, "no such file")
    return Response(200, kind, _page_data(name), {"content-security-policy": _PAGE_POLICY})


@cache
def _page_files() -> frozenset[str]:
    """The viewer page's files. A name that a client sends is looked up here: no path is made of it, nothing kept for it."""
    return frozenset(file.name for file in resources.files("reactor_trio").joinpath("page").iterdir() if file.is_file())


@cache
def _page_data(name: str) -> bytes:
    """A file of the page; they are few, small and do not change while the server runs."""
    return resources.files("reactor_trio").joinpath("page", name).read_bytes()
