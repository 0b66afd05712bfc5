"""`UploadedFile`: a file that a client has uploaded, as a state field, an event's argument, or in `@file_uploaded`.

For msgspec it is a type of its own: a client names a file by the id that its upload was answered with, and that id is looked
up while the command is decoded, so that an unknown one is refused with its path. The lookup belongs to one session, so it is
given with the command (`resolving`).
"""

from __future__ import annotations

import contextvars
import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

#: from an upload's id to its file; raises LookupError if there is none
Resolve = Callable[[str], "UploadedFile"]

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"upload_id": {"type": "string"}},
    "required": ["upload_id"],
    "x-reactor": "upload",
}

_resolve: contextvars.ContextVar[Resolve | None] = contextvars.ContextVar("reactor_resolve", default=None)


class UploadedFile:
    """A file that a client has uploaded, complete. Do not change it: other arguments may be the same object.

    Attributes:
        name: as the client called it, without folders; for people, not to be trusted as a path.
        mime_type: as the client said, `image/png` for instance; not checked against the bytes.
        size: number of bytes.
        data: the bytes.
    """

    def __init__(self, name: str, mime_type: str, size: int, data: bytes) -> None:
        self.name = name
        self.mime_type = mime_type
        self.size = size
        self.data = data

    def __repr__(self) -> str:
        return f"UploadedFile(name={self.name!r}, mime_type={self.mime_type!r}, size={self.size})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UploadedFile):
            return NotImplemented
        return (self.name, self.mime_type, self.data) == (other.name, other.mime_type, other.data)

    def __hash__(self) -> int:
        return hash((self.name, self.mime_type, self.size))


class UnknownUpload(ValueError):
    """A command names an upload that there is not."""


@contextmanager
def resolving(resolve: Resolve | None) -> Iterator[None]:
    """What is decoded in this block finds its files with `resolve`."""
    token = _resolve.set(resolve)
    try:
        yield
    finally:
        _resolve.reset(token)


def decode_file(kind: type, value: Any) -> Any:
    """msgspec's `dec_hook`. Raises UnknownUpload, or another ValueError for what names no upload."""
    if kind is not UploadedFile:
        raise NotImplementedError(f"{kind.__name__} is not a type that a client can set")
    if isinstance(value, UploadedFile):
        return value
    if not isinstance(value, dict):
        raise ValueError("Expected object with an upload_id")
    given = value.get("upload_id")
    if not isinstance(given, str):
        raise ValueError("Expected an upload_id, the one that the upload was answered with")
    resolve = _resolve.get()
    try:
        if resolve is None:
            raise LookupError
        return resolve(given)
    except LookupError:
        raise UnknownUpload("No such upload in this session") from None


def file_schema(kind: type) -> dict[str, Any]:
    """msgspec's `schema_hook`."""
    if kind is not UploadedFile:
        raise NotImplementedError
    return copy.deepcopy(SCHEMA)


def accepts(accept: Sequence[str], mime_type: str) -> bool:
    """Whether `mime_type` is one of `accept`, whose items may end in `/*`; parameters behind `;` do not count."""
    plain = mime_type.partition(";")[0].strip().lower()
    return any(
        plain == wanted.lower() or (wanted.endswith("/*") and plain.startswith(wanted[:-1].lower())) for wanted in accept
    )
