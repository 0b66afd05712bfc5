"""Uploads: `POST /uploads` by any `Post`."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import PurePath
from urllib.parse import urlencode

import anyio
import msgspec

from reactor_trio.client.http_request import Answer, Post
from reactor_trio.client.refusals import refusal_reason
from reactor_trio.errors import ProtocolError, UploadRefused

_PIECE = 256 * 1024


class Upload(msgspec.Struct, frozen=True):
    """A file on the server. Pass it to a command, as the argument that takes a file."""

    upload_id: str
    name: str
    mime_type: str
    size: int


Source = str | os.PathLike[str] | bytes | bytearray | memoryview


async def upload(post: Post, token: str, source: Source, name: str | None, mime_type: str | None) -> Upload:
    """See `Client.upload`."""
    if not isinstance(source, bytes | bytearray | memoryview):
        name = PurePath(source).name if name is None else name
    name = "file" if name is None else name
    mime_type = mime_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    async with _open(source) as (size, body):
        # The token goes into the query, which no proxy replaces.
        target = "/uploads?" + urlencode({"name": name, "mime_type": mime_type, "token": token})
        answer = Answer(*await post(target, {"content-length": str(size)}, body))
    if answer.status != 201:
        reason, own = refusal_reason(answer.status, answer.body)
        raise UploadRefused(answer.status, reason if own else f"{answer.status}: {reason}", code=answer.code)
    try:
        return msgspec.json.decode(answer.body, type=Upload)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"the answer to an upload cannot be read: {error}") from None


@asynccontextmanager
async def _open(source: Source) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
    """Yield the size and the pieces of `source`."""
    async with AsyncExitStack() as opened:
        if isinstance(source, bytes | bytearray | memoryview):
            size, pieces = memoryview(source).nbytes, _pieces_of_memory(memoryview(source).cast("B"))
        else:
            file = await opened.enter_async_context(await anyio.open_file(source, "rb"))
            size = os.fstat(file.wrapped.fileno()).st_size
            pieces = _pieces_of_file(file, size)
        yield size, await opened.enter_async_context(aclosing(pieces))


async def _pieces_of_memory(view: memoryview) -> AsyncGenerator[bytes]:
    for start in range(0, len(view), _PIECE):
        yield bytes(view[start : start + _PIECE])


async def _pieces_of_file(file: anyio.AsyncFile[bytes], left: int) -> AsyncGenerator[bytes]:
    while left:
        piece = await file.read(min(left, _PIECE))
        if not piece:
            raise OSError("the file became shorter while it was uploaded")
        left -= len(piece)
        yield piece
