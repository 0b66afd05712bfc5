"""`POST /uploads`: a client sends a file for its session.

    POST /uploads?name=cat.png&mime_type=image/png&token=<upload_token of reactor.welcome>
    Content-Length: 12345

The token may also be in `Authorization: Bearer`, as for each other path (`edge/access.py`).

The answer is 201 with `{"upload_id", "name", "mime_type", "size"}`, or an error status with a line of text. If the head is
enough to refuse the request, the server refuses it before the client has sent the body.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import aclosing

import trio

from reactor_trio.edge.common_responses import json_response
from reactor_trio.edge.grants import Grant
from reactor_trio.edge.router import Handler
from reactor_trio.protocol.refusals import RefusalCode
from reactor_trio.server.server_metrics import Metrics, UploadOutcome
from reactor_trio.server.session_manager import SessionManager
from reactor_trio.session import Session
from reactor_trio.transport import Exchange, Refusal, Refused, Request, Response

_MIME_TYPE = re.compile(r"[\w!#$&^.+-]{1,64}/[\w!#$&^.+-]{1,64}( *; *[\w-]+=[^;\s]{1,64}){0,4}", re.ASCII)
_LONGEST_NAME = 255
_OUTCOMES: dict[RefusalCode, UploadOutcome] = {
    "bad_request": "incomplete", "request_timeout": "incomplete", "session_over": "session_over", "internal": "failed",
    "disk_full": "failed",
}  # fmt: skip


def upload_handler(sessions: SessionManager, metrics: Metrics) -> Handler:
    """Return what takes the files of clients. It checks the head before it reads the body."""

    async def take(exchange: Exchange, grant: Grant) -> Response:
        try:
            session, name, mime_type, size = _check_head(sessions, exchange.request, grant)
        except Refused:
            metrics.uploaded("refused", 0)
            raise
        return await _take(metrics, session, name, mime_type, size, exchange)

    return take


def _check_head(sessions: SessionManager, request: Request, grant: Grant) -> tuple[Session, str, str, int]:
    if sessions.model is None:
        raise Refused(Refusal("loading", "the model is not loaded"))
    if not sessions.model.services.placement.declaration.takes_files:
        raise Refused(Refusal("not_found", "this model takes no files"))  # not its name, to a client without a credential
    session: Session = grant.required().owner.session
    length = request.header("content-length")
    if length is None or request.header("transfer-encoding") is not None:
        raise Refused(Refusal("length_required", "say the size of the file in Content-Length; a chunked body is not taken"))
    if int(length) == 0:
        raise Refused(Refusal("bad_request", "the file is empty"))
    given_type = request.query.get("mime_type") or request.header("content-type") or "application/octet-stream"
    if not _MIME_TYPE.fullmatch(given_type):
        raise Refused(Refusal("bad_request", "mime_type: expected something like image/png"))
    return session, _plain_name(request.query.get("name", "")), given_type, int(length)


async def _take(
    metrics: Metrics, session: Session, name: str, mime_type: str, size: int, exchange: Exchange
) -> Response:
    outcome: UploadOutcome = "incomplete"
    async with aclosing(exchange.pieces()) as body:
        counted = _Counted(body)
        try:
            upload = await session.upload(name, mime_type, size, counted)
            outcome = "stored"
        except Refused as refused:
            outcome = _OUTCOMES.get(refused.refusal.code, "refused")
            raise
        except trio.Cancelled:
            outcome = "session_over"
            raise
        finally:
            metrics.uploaded(outcome, counted.size)
    answer = {"upload_id": upload.id, "name": upload.name, "mime_type": upload.mime_type, "size": upload.size}
    return json_response(201, answer)


class _Counted:
    """A body, and how many bytes of it have arrived."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self.size = 0

    def __aiter__(self) -> _Counted:
        return self

    async def __anext__(self) -> bytes:
        data = await anext(self._body)
        self.size += len(data)
        return data


def _plain_name(name: str) -> str:
    """Return the file's name without folders and unprintable characters; `file` if nothing is left."""
    last = name.replace("\\", "/").rpartition("/")[2]
    plain = "".join(c for c in last if c.isprintable()).strip()[:_LONGEST_NAME]
    return "file" if plain in ("", ".", "..") else plain
