"""The files of one session: what its client uploads, from the first byte to the end of the session.

The store keeps a file on disk without a name (`O_TMPFILE`; where the system has none, the name is removed at once). So a
name from a client never becomes a path, no other process can open the file, and nothing is left of it when it is closed,
even by SIGKILL.

`disk` writes and reads the bytes away from the loops. An upload belongs to the task of its connection; `end` cancels the
uploads under way, and `aclose` closes the files. Limits count what an upload announces, before a byte is taken.
"""

from __future__ import annotations

import errno
import hashlib
import secrets
import tempfile
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

import trio

from reactor_trio.configuration.settings import UploadSettings
from reactor_trio.descriptors import open_kept_from_children
from reactor_trio.interface.files import UploadedFile
from reactor_trio.protocol.refusals import Refusal, RefusalCode, Refused

#: runs a blocking function away from the loops and returns its result; cancelled only before it begins
Disk = Callable[..., Awaitable[Any]]

#: Bytes written at once: what an upload holds in memory.
_PIECE = 256 * 1024
_OVER = "the session has ended; the file was not kept"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(eq=False)
class StoredUpload:
    """A complete file of a client."""

    id: str
    name: str
    mime_type: str
    size: int
    content: IO[bytes]
    #: BLAKE2b of the bytes, 16 bytes in hexadecimal, for a recording
    digest: str
    #: the object that the model was given, as long as the model keeps it: so the bytes are in memory once
    given: weakref.ref[UploadedFile] | None = field(default=None, repr=False)


class UploadStore:
    """The files of one session, on the I/O loop.

    Attributes:
        token: authorizes an upload; None after the session's end.
        secret: the same, also after that.
    """

    def __init__(self, limits: UploadSettings, disk: Disk) -> None:
        self.secret = secrets.token_urlsafe()
        self.token: str | None = self.secret
        self._limits = limits
        self._disk = disk
        self._files: dict[str, StoredUpload] = {}
        self._under_way: set[trio.CancelScope] = set()
        self._bytes = 0

    async def receive(self, name: str, mime_type: str, size: int, body: AsyncIterator[bytes]) -> StoredUpload:
        """Keep the `size` bytes (at least 1) of `body`.

        Raises Refused when the file is over a limit, cannot be written or has another size, or when the session ends.
        An exception of `body` is raised as it is. After an exception nothing of the file is kept.
        """
        self._check_room(size)
        self._bytes += size
        upload: StoredUpload | None = None
        scope = trio.CancelScope()
        self._under_way.add(scope)
        try:
            with scope:
                content, digest = await self._write_all(size, body)
                upload = StoredUpload(secrets.token_urlsafe(12), name, mime_type, size, content, digest)
                self._files[upload.id] = upload
        finally:
            self._under_way.discard(scope)
            if upload is None:
                self._bytes -= size
        if upload is None:
            raise _refused("session_over", _OVER)
        return upload

    def find(self, upload_id: str) -> UploadedFile:
        """The file as the model gets it, without its data unless it was loaded before. Raises LookupError."""
        upload = self._files[upload_id]
        file = upload.given() if upload.given is not None else None
        if file is None:
            file = UploadedFile(upload.name, upload.mime_type, upload.size, b"")
            upload.given = weakref.ref(file)
        return file

    async def load(self, file: UploadedFile) -> None:
        """Read the data of a file that `find` returned. Raises OSError."""
        if len(file.data) == file.size:
            return
        upload = next(upload for upload in self._files.values() if upload.given is not None and upload.given() is file)
        file.data = await self._disk(_read, upload.content, upload.size)

    def end(self) -> None:
        """End the session's uploads: the token is void, and uploads under way are cancelled."""
        self.token = None
        for scope in self._under_way:
            scope.cancel()

    async def aclose(self) -> None:
        """Call `end`, then close every file. Cannot be cancelled."""
        self.end()
        files = [upload.content for upload in self._files.values()]
        self._files.clear()
        if files:
            with trio.CancelScope(shield=True):
                await self._disk(_close, *files)

    def __len__(self) -> int:
        return len(self._files) + len(self._under_way)

    def _check_room(self, size: int) -> None:
        limits = self._limits
        if self.token is None:
            raise _refused("session_over", _OVER)
        if size > limits.file_size:
            raise _refused("too_large", f"a file may have {limits.file_size} bytes, this one has {size}")
        if len(self._under_way) >= limits.at_once:
            raise _refused("uploads_under_way", f"{limits.at_once} uploads are under way; wait for one to end")
        if len(self) >= limits.files:
            raise _refused("too_many_files", f"a session may have {limits.files} files")
        if self._bytes + size > limits.total_size:
            free = limits.total_size - self._bytes
            raise _refused("too_large", f"the files of a session may have {limits.total_size} bytes, {free} are left")

    async def _write_all(self, size: int, body: AsyncIterator[bytes]) -> tuple[IO[bytes], str]:
        content: IO[bytes] = await self._on_disk(_create, self._limits.folder)
        complete, digest = False, hashlib.blake2b(digest_size=16)
        try:
            received, piece = 0, bytearray()
            async for data in body:
                received += len(data)
                if received > size:
                    break
                piece += data
                if len(piece) >= _PIECE:
                    await self._on_disk(_write, content, piece, digest)
                    piece = bytearray()
            if received != size:
                raise _refused("bad_request", f"{size} bytes were announced and others came; the file was not kept")
            await self._on_disk(_write, content, piece, digest)
            if self.token is None:  # the end came while the last bytes were written, which nothing interrupts
                raise _refused("session_over", _OVER)
            complete = True
        finally:
            if not complete:
                with trio.CancelScope(shield=True):
                    await self._disk(_close, content)
        return content, digest.hexdigest()

    async def _on_disk(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return await self._disk(function, *args)
        except OSError as error:
            full = error.errno in _FULL
            what = "the server's disk is full" if full else f"the server cannot store it: {error.strerror or error}"
            raise _refused("disk_full" if full else "internal", f"{what}; the file was not kept") from error


def _refused(code: RefusalCode, message: str) -> Refused:
    return Refused(Refusal(code, message))


def _create(folder: str | None) -> IO[bytes]:
    return open_kept_from_children(lambda: tempfile.TemporaryFile(dir=folder, buffering=0, prefix="reactor-"))


def _write(content: IO[bytes], data: bytearray, digest: hashlib.blake2b) -> None:
    digest.update(data)
    with memoryview(data) as view:
        written = 0
        while written < len(view):
            written += content.write(view[written:])


def _read(content: IO[bytes], size: int) -> bytes:
    content.seek(0)
    data = content.read()
    if len(data) != size:
        raise OSError(errno.EIO, f"{size} bytes were written and {len(data)} could be read")
    return data


def _close(*files: IO[bytes]) -> None:
    for content in files:
        with suppress(OSError):  # a close may report a write that failed; the file is gone either way
            content.close()
