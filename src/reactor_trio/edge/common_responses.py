"""Answers that every site of ours gives in the same way: the viewer page's files, JSON, and that it is busy.

The viewer page is served so that a second load transfers next to nothing. `/` names its files in a folder that is called
after a hash of all of them, `./page/HASH/main.js`. The modules name each other by relative addresses, so a browser asks for
all of them in that folder, and may keep them for ever. `/` itself, and files under their plain names (`/page/protocol.js`,
for pages of others), are to be asked for again each time, and the answer is 304 if they are the same.
"""

from __future__ import annotations

import gzip
import hashlib
import re
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
_PAGE_PATH = re.compile(r"/page/(?:(?P<version>[0-9a-f]{16})/)?(?P<name>.*)", re.DOTALL)
_WEIGHT = re.compile(r"\s*q=([01](?:\.[0-9]{0,3})?)\s*")
_ASK_AGAIN = "no-cache"
_KEEP = "public, max-age=31536000, immutable"


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
            return _page_file(request, "index.html")
        case "/favicon.ico":
            return _page_file(request, "icon.svg")
        case path if (asked := _PAGE_PATH.fullmatch(path)) is not None:
            # A page from before an update of the server asks in its old folder: it gets what there is, and must not keep it.
            return _page_file(request, asked["name"], _KEEP if asked["version"] == _page_version() else _ASK_AGAIN)
    return None


def _page_file(request: Request, name: str, caching: str = _ASK_AGAIN) -> Response:
    kind = _CONTENT_TYPES.get(name.rpartition(".")[2])
    if kind is None or name not in _page_names():
        return Response.plain(404, "no such file")
    packed = _takes_gzip(request)
    file = _page_data(name, packed=packed)
    headers = {
        "content-security-policy": _PAGE_POLICY, "cache-control": caching, "etag": file.tag, "vary": "accept-encoding",
    }  # fmt: skip
    if packed:
        headers["content-encoding"] = "gzip"
    known = {tag.removeprefix("W/") for tag in request.tokens("if-none-match")}
    if known & {file.tag, "*"}:
        # Without a body, but with the length that it has.
        return Response(304, kind, b"", headers | {"content-length": str(len(file.data))})
    return Response(200, kind, file.data, headers)


def _takes_gzip(request: Request) -> bool:
    """Whether the client takes an answer in gzip, which it says by name or by `*` (RFC 9110, section 12.5.3)."""
    weights = {}
    for item in request.tokens("accept-encoding"):
        coding, _, parameter = item.lower().partition(";")
        weight = _WEIGHT.fullmatch(parameter)
        weights[coding.strip()] = float(weight[1]) if weight else float(not parameter)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


class _File(msgspec.Struct, frozen=True):
    """What is sent of a file, and its entity tag."""

    data: bytes
    tag: str


@cache
def _page_names() -> frozenset[str]:
    """The viewer page's files. A name that a client sends is looked up here: no path is made of it, nothing kept for it."""
    return frozenset(file.name for file in resources.files("reactor_trio").joinpath("page").iterdir() if file.is_file())


@cache
def _page_version() -> str:
    """Another one if any of the page's files is another."""
    return _hash(*(part for name in sorted(_page_names()) for part in (name.encode(), _read(name))))


@cache
def _page_data(name: str, *, packed: bool) -> _File:
    """A file of the page, in gzip if `packed`; they are few, small and do not change while the server runs."""
    data = _read(name)
    if name == "index.html":
        data = data.replace(b'"./page/', f'"./page/{_page_version()}/'.encode())
    tag = f'"{_hash(data)}-gzip"' if packed else f'"{_hash(data)}"'
    return _File(gzip.compress(data, mtime=0) if packed else data, tag)


def _read(name: str) -> bytes:
    return resources.files("reactor_trio").joinpath("page", name).read_bytes()


def _hash(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()
