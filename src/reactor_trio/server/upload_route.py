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
from functools import partial

import trio

from reactor_trio.edge.access import shown_token
from reactor_trio.edge.common_responses import json_response
from reactor_trio.edge.denial import Denied
from reactor_trio.errors import UploadRefused
from reactor_trio.protocol.refusals import RefusalCode
from reactor_trio.server.server_metrics import Metrics, UploadOutcome
from reactor_trio.server.session_manager import SessionManager
from reactor_trio.session import Session
from reactor_trio.transport import BodyTaker, Refused, Request, Response

UPLOAD_PATH = "/uploads"

_MIME_TYPE = re.compile(r"[\w!#$&^.+-]{1,64}/[\w!#$&^.+-]{1,64}( *; *[\w-]+=[^;\s]{1,64}){0,4}", re.ASCII)
_LONGEST_NAME = 255
_CODES: dict[int, RefusalCode] = {
    400: "bad_request", 404: "not_found", 410: "session_over", 413: "too_large", 429: "too_many_files", 500: "internal",
    507: "disk_full",
}  # fmt: skip
_OUTCOMES: dict[int, UploadOutcome] = {400: "incomplete", 410: "session_over", 500: "failed", 507: "failed"}


def take_upload(sessions: SessionManager, metrics: Metrics, request: Request) -> BodyTaker:
    """Return the function that takes the body of a `POST /uploads`.

    Raises Refused for a mistake in its head, and Denied for its token.
    """
    try:
        return partial(_take, metrics, *_check_head(sessions, request))
    except (Refused, Denied):
        metrics.uploaded("refused", 0)
        raise


def _check_head(sessions: SessionManager, request: Request) -> tuple[Session, str, str, int]:
    if sessions.model is None:
        raise Refused.because("loading", "the model is not loaded", {"retry-after": "1"})
    if not sessions.model.services.placement.declaration.takes_files:
        raise Refused.because("not_found", f"{sessions.model.schema['name']} takes no files")
    token = shown_token(request)
    session = sessions.uploaded_to(token)
    if session is None:
        wrong = "show the upload_token of reactor.welcome, of a session that runs"
        raise Denied("missing" if token is None else "wrong", wrong)
    length = request.header("content-length")
    if length is None or request.header("transfer-encoding") is not None:
        raise Refused.because("length_required", "say the size of the file in Content-Length; a chunked body is not taken")
    if int(length) == 0:
        raise Refused.because("bad_request", "the file is empty")
    given_type = request.query.get("mime_type") or request.header("content-type") or "application/octet-stream"
    if not _MIME_TYPE.fullmatch(given_type):
        raise Refused.because("bad_request", "mime_type: expected something like image/png")
    return session, _plain_name(request.query.get("name", "")), given_type, int(length)


async def _take(
    metrics: Metrics, session: Session, name: str, mime_type: str, size: int, body: AsyncIterator[bytes]
) -> Response:
    outcome: UploadOutcome = "incomplete"
    counted = _Counted(body)
    try:
        upload = await session.upload(name, mime_type, size, counted)
        outcome = "stored"
    except UploadRefused as refused:
        outcome = _OUTCOMES.get(refused.status, "refused")
        return Response.refusing(_CODES[refused.status], refused.message)
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
