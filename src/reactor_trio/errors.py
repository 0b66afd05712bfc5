"""Every error of the package, split by who is at fault.

The author's class, its manifest or its frames (`DeclarationError`, `ManifestError`, `OutputError`), a client's command
(`CommandError`), the other end of a connection (`ProtocolError`, `SessionEnded`), the model while it ran (`ModelFailed`).
Errors that report a wrong type or value also inherit the built-in they would otherwise be, so that `except TypeError`
and `except ValueError` in author code keep their meaning.
"""

from __future__ import annotations

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


class ReactorError(Exception):
    """Base of every error that this package raises on purpose."""


class DeclarationError(ReactorError, TypeError, ValueError):
    """A model, state, output or message class is declared wrongly; raised when the class is made and names the place."""


class ManifestError(ReactorError):
    """`reactor.yaml`, `config.yml` or what they point to cannot be used; names the file and the key."""


class OutputError(ReactorError, TypeError, ValueError):
    """A yielded or emitted value does not fit the declared tracks.

    The message names the track, what was expected and what was given, and ends with the file and line of the `yield` or
    `emit`, where that is known.
    """

    def name_place(self, place: str) -> None:
        """Name the author's `file:line`; what is named already stays."""
        if place and not self._placed:
            self._placed = True
            self.args = (f"{self} (at {place})",)

    _placed = False


class BufferClosed(ReactorError):
    """A `read` of an input track will get no more frames: the client has left, or the model closed the buffer.

    Let it pass in a pipeline, where it ends the generator cleanly; catch it in `run()`.
    """


class CommandError(ReactorError):
    """A command was refused and changed nothing.

    Raised by an author's handler to answer the client with a code of its own, and by the client when the server answers
    a command with an error. `str()` is the message, which names the path of the offending value where there is one.
    """

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message or code


class ProtocolError(ReactorError):
    """The other end sent something that is not a message of the protocol."""


class SessionEnded(ReactorError):
    """The session is over; `reason` is one of `reactor_trio.protocol.EndReason` or `"lost"` if the link broke."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or f"the session ended: {reason}")
        self.reason = reason


class ConnectionRefused(ReactorError):
    """The server refused the WebSocket with an HTTP status; `retry_after` is its advice in seconds, if it gave one."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"refused with HTTP {status}: {message}")
        self.status = status
        self.retry_after = retry_after


class UploadRefused(ReactorError):
    """A file was not taken, and nothing of it was kept; `status` is the HTTP status that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ModelFailed(ReactorError):
    """`load()` or `run()` raised, or `run()` returned: there is no model to serve. `__cause__` is the author's exception."""
