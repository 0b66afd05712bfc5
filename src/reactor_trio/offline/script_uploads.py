"""`Uploads`: finds the files that a script's commands name, in a folder, by name or by a recording's data on each upload."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from pathlib import Path

import msgspec

from reactor_trio.interface.files import UploadedFile
from reactor_trio.offline.script import ScriptError


class RecordedUpload(msgspec.Struct, frozen=True):
    """A recording's data on one file. `digest` is the BLAKE2b (16 bytes) of its content, None in old recordings."""

    name: str
    size: int
    mime_type: str | None = None
    digest: str | None = None
    id: str = ""


class Uploads:
    """Finds uploaded files.

    Args:
        folder: the folder that has them; None if there is none.
        recorded: upload id -> the recording's data on the file.
    """

    def __init__(self, folder: Path | None, recorded: Mapping[str, RecordedUpload] | None = None) -> None:
        self._folder = folder
        self._recorded = recorded or {}
        self._files: dict[str, UploadedFile] = {}

    def find(self, upload_id: str) -> UploadedFile:
        """Return the file with its content. Raises ScriptError."""
        if upload_id not in self._files:
            known = self._recorded.get(upload_id)
            self._files[upload_id] = self._named(upload_id) if known is None else self._recorded_file(known)
        return self._files[upload_id]

    def _named(self, name: str) -> UploadedFile:
        if self._folder is None:
            raise ScriptError(f"it names the file {name!r}: say where such files are, with --uploads FOLDER (uploads=)")
        path = self._folder / name
        return _file(path.name, None, _read(path))

    def _recorded_file(self, known: RecordedUpload) -> UploadedFile:
        what = f"the uploaded file {known.name!r} ({known.size} bytes)"
        if self._folder is None:
            raise ScriptError(f"{what} is not in the recording: give a folder that has it: --uploads FOLDER (uploads=)")
        path = self._folder / Path(known.name).name  # a client's name must not become a path
        data = _read(path)
        if len(data) != known.size or known.digest not in (None, content_digest(data)):
            raise ScriptError(f"{path} is not {what}: its content differs")
        return _file(known.name, known.mime_type, data)


def content_digest(data: bytes) -> str:
    """Return the digest as in a recording's `upload` line."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _file(name: str, mime_type: str | None, data: bytes) -> UploadedFile:
    kind = mime_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return UploadedFile(name, kind, len(data), data)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ScriptError(f"the file {path} cannot be read: {error.strerror or error}") from None
