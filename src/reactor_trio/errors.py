"""Every error of the package, grouped by the party at fault.

- The author's class, manifest or frames: `DeclarationError`, `ManifestError`, `OutputError`.
- The author's code while it runs: `ModelFailed`.
- A client's command or upload: `CommandError`, `UploadRefused`.
- The other end of a connection: `ProtocolError`, `SessionEnded`, `ConnectionRefused`, `BufferClosed`.

An error that reports a wrong type or value also inherits `TypeError` or `ValueError`, so that author code may catch the
built-in class.
"""

from __future__ import annotations

import sys
from types import FrameType

from reactor_trio.error_catalog import SECTION_OF_MODULE

__all__ = [
    "BufferClosed",
    "CommandError",
    "ConnectionRefused",
    "DeclarationError",
    "ManifestError",
    "ModelFailed",
    "OutputError",
    "ProtocolError",
    "ReactorError",
    "SessionEnded",
    "UploadRefused",
]

#: The page that says what to do about each error. A path in the repository; what is shown adds the anchor of the error.
ERRORS_PAGE = "docs/reference/errors.md"


class ReactorError(Exception):
    """Base class of every error that this package raises on purpose.

    The command line shows after its text where its remedy is, `docs/reference/errors.md#ANCHOR`. So does Python's traceback
    of an error that an author has made.

    Args:
        anchor: of a mistake with a section of its own on that page; None means the section of the module that makes the
            error, or else of the class.

    Attributes:
        anchor: the section of that page (`error_catalog` has all of them).
    """

    anchor: str = "wrong-use"
    #: whether it is the mistake of who reads Python's traceback; the others are what another program answers
    _of_author = True

    def __init__(self, *args: object, anchor: str | None = None) -> None:
        super().__init__(*args)
        if anchor is None and self._of_author:
            anchor = SECTION_OF_MODULE.get(_maker(), self.anchor)
        if anchor is not None:
            self.anchor = anchor
            self.add_note(self.link)

    @property
    def link(self) -> str:
        """Where the remedy is."""
        return f"{ERRORS_PAGE}#{self.anchor}"


class DeclarationError(ReactorError, TypeError, ValueError):
    """A model, state, output or message class is declared wrongly.

    Python raises it while it creates the class. The message names the class and the attribute.
    """

    anchor = "declaration"
    #: file and line of the method that is declared wrongly; empty for what belongs to the whole class
    location = ""


class ManifestError(ReactorError):
    """`reactor.yaml`, `config.yml` or a file that they name cannot be used. The message names the file and the key."""

    anchor = "manifest"


class OutputError(ReactorError, TypeError, ValueError):
    """A yielded or emitted value does not fit the declared tracks.

    The message names the track, the expected value and the given value. It ends with the file and line of the `yield` or
    `emit`, if the runtime knows them.
    """

    anchor = "output"
    #: the author's file and line that the message names; empty if it names none
    location = ""

    def name_location(self, location: str) -> None:
        """Append the author's `file:line` to the message, unless the message has one already."""
        if location and not self.location:
            self.location = location
            self.args = (f"{self} (at {location})",)


class BufferClosed(ReactorError):
    """An input track has no more frames to read: the client has left, or the model closed the buffer.

    In a pipeline, do not catch it: it ends the generator cleanly. In `run()`, catch it and wait for the next client.
    """

    anchor = "input-ended"
    _of_author = False


class CommandError(ReactorError):
    """A command was refused and changed nothing.

    An author's handler raises it to answer the client with a code of the author's choice. The Python client raises it when
    the server answers a command with an error. `str()` gives the message. If one value is wrong, the message has its path.
    """

    anchor = "command-refused"
    _of_author = False

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message or code


class ProtocolError(ReactorError):
    """The other end sent data that is not a message of the protocol."""

    anchor = "protocol"
    _of_author = False


class SessionEnded(ReactorError):
    """The session is over. `reason` is a `reactor_trio.protocol.EndReason`, or `"lost"` if the connection broke.

    `code` says why the server refused this client, if it did (`docs/reference/protocol.md` has the codes); else None.
    """

    anchor = "session-ended"
    _of_author = False

    def __init__(self, reason: str, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message or f"the session ended: {reason}")
        if reason == "model_error":
            self.anchor = ModelFailed.anchor
        self.reason = reason
        self.code = code


class ConnectionRefused(ReactorError):
    """The server refused the WebSocket with the HTTP status `status`.

    `message` is the server's text. `retry_after` is its `Retry-After` in seconds, or None if the response has none. `code`
    says why, for programs (`docs/reference/protocol.md` has the codes); None if a proxy or another program answered.
    """

    anchor = "connection-refused"
    _of_author = False

    def __init__(
        self, status: int, message: str, *, retry_after: float | None = None, code: str | None = None
    ) -> None:
        super().__init__(f"refused with HTTP {status}: {message}")
        self.status = status
        self.message = message
        self.retry_after = retry_after
        self.code = code


class UploadRefused(ReactorError):
    """The server refused an upload and kept no part of it.

    `status` is the HTTP status of the response; `code` says why in one word (`docs/reference/protocol.md`), None if that
    is not known.
    """

    anchor = "upload-refused"
    _of_author = False

    def __init__(self, status: int, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


class ModelFailed(ReactorError):
    """`load()` or `run()` raised, or `run()` returned, so no model is served. `__cause__` is the author's exception."""

    anchor = "model-failed"


def _maker() -> str:
    """The name of the module that makes the error for which this is called."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__"))
