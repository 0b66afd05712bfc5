"""Responses that every site gives alike: the viewer page, the model's pictures, health, and JSON.

A second load of the viewer page transfers almost nothing. `/` names the page's files in a folder whose name is a hash of all
of them, `./page/HASH/main.js`. `main.js` names its worker and its worklets by relative addresses, so that a browser requests
all of them in that folder and may cache them for ever. It requests `/` itself, and files by their plain names
(`/page/client.js`, for other people's pages), every time; the response is 304 if they have not changed.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from reactor_trio.admission import Phase
from reactor_trio.configuration.introduction import PICTURES, Picture
from reactor_trio.edge.grants import Grant
from reactor_trio.transport import Refusal, Refused, Request, Response

_CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}
# A session may be on a replica with another origin, which only the gate knows. The page connects and uploads to it.
_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' blob:; connect-src 'self' ws: wss: http: https:; base-uri 'none'; "
    "frame-ancestors 'self'"  # the last one: `frame_ancestors` of the settings follow
)
_PAGE_PATH = re.compile(r"/page/(?:(?P<version>[0-9a-f]{16})/)?(?P<name>.*)", re.DOTALL)
_WEIGHT = re.compile(r"\s*q=([01](?:\.[0-9]{0,3})?)\s*")
_PAGE = Path(__file__).parents[1] / "page"
_JSON = "application/json"
_SOON = {"retry-after": "1"}
_ASK_AGAIN = "no-cache"
_KEEP = "public, max-age=31536000, immutable"


def json_response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """A response with `body` as JSON."""
    return Response(status, _JSON, msgspec.json.encode(body), headers or {})


def not_ready(status: str, reason: str) -> Response:
    """Return a 503 that asks the client to come back soon."""
    return json_response(503, {"status": status, "reason": reason}, _SOON)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/health` to a client that may see all of it. A site leaves out what it does not have.

    Attributes:
        status: "ok", or the phase, or "stuck".
        model: its name.
        sessions: how many run; at a gate how many clients have a lease.
        away: sessions whose client is disconnected and may come back.
        waiting: clients in the queue.
        clients: those that are connected.
        encoders: those of each codec, best first.
        gate: True at a gate.
        role: that of the asking client, where clients need a token.
        progress: of the load.
        reason: why it is so.
    """

    status: str
    phase: Phase
    model: str | msgspec.UnsetType = msgspec.UNSET
    sessions: int | msgspec.UnsetType = msgspec.UNSET
    away: int | msgspec.UnsetType = msgspec.UNSET
    waiting: int | msgspec.UnsetType = msgspec.UNSET
    clients: int | msgspec.UnsetType = msgspec.UNSET
    encoders: Mapping[str, str] | msgspec.UnsetType = msgspec.UNSET
    gate: bool | msgspec.UnsetType = msgspec.UNSET
    role: str | msgspec.UnsetType = msgspec.UNSET
    progress: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET


def health_response(health: Health, grant: Grant) -> Response:
    """200 or 503 for everyone. A client whose credential is missing or not good gets status and phase alone."""
    shown = health if grant.refusal is None else Health(status=health.status, phase=health.phase)
    status, headers = (200, {}) if health.status == "ok" else (503, _SOON)
    return Response(status, _JSON, msgspec.json.encode(shown), headers)


def page_response(request: Request, frame_ancestors: Sequence[str] = ()) -> Response:
    """The response with a file of the viewer page. Pages of `frame_ancestors` may show it in a frame. Raises Refused."""
    policy = " ".join((_PAGE_POLICY, *frame_ancestors))
    match request.path:
        case "/":
            return _page_file(request, "index.html", policy)
        case "/favicon.ico":
            return _page_file(request, "icon.svg", policy)
    asked = _PAGE_PATH.fullmatch(request.path)
    # A page from before an update requests its old folder. It gets the present file, which it must not cache.
    caching = _KEEP if asked is not None and asked["version"] == _page_version() else _ASK_AGAIN
    return _page_file(request, asked["name"] if asked is not None else "", policy, caching)


def _page_file(request: Request, name: str, policy: str, caching: str = _ASK_AGAIN) -> Response:
    if name not in _page_names():
        raise Refused(Refusal("not_found", "no such file"))
    kind = _CONTENT_TYPES[_ending(name)]
    packed = _takes_gzip(request)
    data, tag = _page_data(name, packed=packed)
    # A page of a listed origin may read the file, and a cache must not give it the answer to another page.
    vary = "accept-encoding, origin"
    headers = {"content-security-policy": policy, "cache-control": caching, "etag": tag, "vary": vary}
    if packed:
        headers["content-encoding"] = "gzip"
    return _unless_known(request, kind, data, headers)


def picture_response(request: Request, pictures: Mapping[str, Picture]) -> Response:
    """The response with a picture of the model's introduction. Raises Refused: 404.

    A name from a client is only looked up in `pictures`; it never becomes a path.
    """
    if (picture := pictures.get(request.path.removeprefix(f"/{PICTURES}/"))) is None:
        raise Refused(Refusal("not_found", "no such picture"))
    headers = {"content-security-policy": "default-src 'none'", "cache-control": _ASK_AGAIN, "etag": picture.tag}
    return _unless_known(request, picture.kind, picture.data, headers)


def _unless_known(request: Request, kind: str, data: bytes, headers: Mapping[str, str]) -> Response:
    """Return the file, or 304 if the client has it already."""
    known = {tag.removeprefix("W/") for tag in request.tokens("if-none-match")}
    if known & {headers["etag"], "*"}:
        # A 304 has no body, but the length of the body.
        return Response(304, kind, b"", {**headers, "content-length": str(len(data))})
    return Response(200, kind, data, headers)


def _takes_gzip(request: Request) -> bool:
    """Whether the client accepts gzip, by name or by `*` (RFC 9110, section 12.5.3)."""
    weights = {}
    for item in request.tokens("accept-encoding"):
        coding, _, parameter = item.lower().partition(";")
        weight = _WEIGHT.fullmatch(parameter)
        weights[coding.strip()] = float(weight[1]) if weight else float(not parameter)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


@cache
def _page_names() -> frozenset[str]:
    """The names of the page's files. A name from a client is only looked up here; it never becomes a path or a cache key."""
    return frozenset(file.name for file in _PAGE.iterdir() if _ending(file.name) in _CONTENT_TYPES)


def _ending(name: str) -> str:
    return name.rpartition(".")[2]


@cache
def _page_version() -> str:
    """A hash of all the page's files."""
    return _hash("".join(f"{name} {_hash(_read(name))}\n" for name in sorted(_page_names())).encode())


@cache
def _page_data(name: str, *, packed: bool) -> tuple[bytes, str]:
    """A file of the page and its entity tag, in gzip if `packed`; they are few and small, and do not change."""
    data = _read(name)
    if name == "index.html":
        data = data.replace(b'"./page/', f'"./page/{_page_version()}/'.encode())
    tag = f'"{_hash(data)}-gzip"' if packed else f'"{_hash(data)}"'
    return (gzip.compress(data, mtime=0) if packed else data), tag


def _read(name: str) -> bytes:
    return _PAGE.joinpath(name).read_bytes()


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
