"""`UploadedFile`: a file that a client uploaded, as a state field, an event's argument, or in `@file_uploaded`.

A command refers to a file by the id from the upload's response. msgspec looks the id up while it decodes the command, so
that an unknown id is refused with its path. The lookup belongs to one session, so `RESOLVE` is set for each command.
"""

from __future__ import annotations

import contextvars
import copy
from collections.abc import Callable, Sequence
from typing import Any, Final, overload

#: what the types of settings and arguments may be
CLIENT_TYPES: Final = (
    "use bool, int, float, str, Literal, an Enum, a list, dict or dataclass of these, or UploadedFile for a picture"
)

#: returns the file of an upload's id; raises LookupError for an unknown id
Resolve = Callable[[str], "UploadedFile"]

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"upload_id": {"type": "string"}},
    "required": ["upload_id"],
    "x-reactor": "upload",
}

#: finds the files of commands that are decoded now
RESOLVE: contextvars.ContextVar[Resolve | None] = contextvars.ContextVar("reactor_resolve", default=None)


class UploadedFile:  # no dataclass: msgspec would decode one from the client's JSON, without an upload
    """A complete file that a client uploaded. Do not change it: other arguments may share the object.

    Attributes:
        name: the client's name of the file, without folders. It is for people; do not use it as a path.
        mime_type: the client's statement, such as `image/png`; the server does not check it against the bytes.
        size: number of bytes.
        data: the bytes.

    Tests and models make one of a name, a type and the bytes, or of these with the size before the bytes, as in Reactor 2.x.
    """

    @overload
    def __init__(self, name: str, mime_type: str, data: bytes, /) -> None: ...
    @overload
    def __init__(self, name: str, mime_type: str, size: int | None = None, data: bytes = b"") -> None: ...
    def __init__(self, name: str, mime_type: str, size: int | bytes | None = None, data: bytes = b"") -> None:
        self.name = name
        self.mime_type = mime_type
        self.data = size if isinstance(size, bytes) else data
        self.size = size if isinstance(size, int) else len(self.data)

    def __repr__(self) -> str:
        return f"UploadedFile(name={self.name!r}, mime_type={self.mime_type!r}, size={self.size})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UploadedFile):
            return NotImplemented
        return (self.name, self.mime_type, self.data) == (other.name, other.mime_type, other.data)

    def __hash__(self) -> int:
        return hash((self.name, self.mime_type, self.size))


class UnknownUpload(ValueError):
    """A command refers to an upload that does not exist."""


def not_of_a_client(kind: type) -> str:
    """Why a client cannot set a value of this type, and which it can."""
    return f"{kind.__name__} is not a type that a client can set; {CLIENT_TYPES}"


def decode_file(kind: type, value: Any) -> Any:
    """Decode an `UploadedFile` (msgspec's `dec_hook`). Raises UnknownUpload, or ValueError if the value has no upload id."""
    if kind is not UploadedFile:
        raise NotImplementedError(not_of_a_client(kind))
    if isinstance(value, UploadedFile):
        return value
    if not isinstance(value, dict):
        raise ValueError("Expected object with an upload_id")
    given = value.get("upload_id")
    if not isinstance(given, str):
        raise ValueError("Expected the upload_id from the upload's response")
    resolve = RESOLVE.get()
    try:
        if resolve is None:
            raise LookupError
        return resolve(given)
    except LookupError:
        raise UnknownUpload("No such upload in this session") from None


def file_schema(kind: type) -> dict[str, Any]:
    """Return the schema of an `UploadedFile` (msgspec's `schema_hook`)."""
    if kind is not UploadedFile:
        raise NotImplementedError
    return copy.deepcopy(SCHEMA)


def accepts(accept: Sequence[str], mime_type: str) -> bool:
    """Whether `mime_type` is one of `accept`, whose items may end in `/*`. Parameters after `;` do not count."""
    plain = mime_type.partition(";")[0].strip().lower()
    return any(
        plain == wanted.lower() or (wanted.endswith("/*") and plain.startswith(wanted[:-1].lower())) for wanted in accept
    )
