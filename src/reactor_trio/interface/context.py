"""`get_ctx()`: finds the session of the calling code, anywhere in a blocking model.

A context variable holds the session, in code that the runtime calls and in tasks and threads that inherit its context. A
plain `threading.Thread` starts with an empty context. It belongs to the running session if it started after that session
began. A thread left over from a past session therefore gets an error, and never reaches the next client.
"""

from __future__ import annotations

import contextvars
import threading
import weakref
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import numpy.typing as npt

from reactor_trio.interface.profiling import Profiler

T = TypeVar("T")


class Track(Protocol):
    """One track of the session."""

    def emit(self, data: object, bucket: int | None = None) -> None:
        """Emit data on this output track. The client shows it together with data of the same `bucket` on other tracks.

        Without a bucket, each track counts its own buckets. Raises TypeError on an input track.
        """

    def latest(self) -> npt.NDArray[Any] | None:
        """Return the newest frame of this input track, None before the first. Raises TypeError on an output track."""


class Context(Protocol):
    """A blocking session from the model's point of view. All methods are thread-safe."""

    def should_stop(self) -> bool:
        """Whether the session is over: true from the moment the client leaves. Poll it in every loop."""

    def emit_block(self, frames: object) -> None:
        """Queue a frame, a block of frames, or a black frame. Blocks while the buffer is full.

        Args:
            frames: `uint8` RGB `(H, W, 3)` or `(N, H, W, 3)`, numpy or torch; None for one black frame of the last size.

        Raises OutputError (a ValueError) for any other shape or dtype. Does nothing after the session's end.
        """

    def send(self, message: Mapping[str, Any]) -> None:
        """Send JSON to every client of the session. It arrives before any frame emitted after it.

        A mapping of the form `{"type": ..., "data": {...}}` is the message itself. Any other mapping becomes the data of a
        message of type `message`. Raises TypeError if it has no JSON form, ValueError for a type reserved for the runtime.
        """

    def disable_monitoring(self) -> None:
        """Exclude the time until `enable_monitoring` from the measured frame rate, for a deliberate pause of the model."""

    def enable_monitoring(self) -> None:
        """Measure the frame rate again."""

    def get_track(self, name: str | None = None) -> Track:
        """Return the track `name`; by default the one declared with `default=True`, else `main_video`, else the first video.

        Raises RuntimeError for a track that the model does not declare.
        """

    def profiler(self) -> Profiler:
        """Return the result of `get_profiler()`."""


_CONTEXT: contextvars.ContextVar[Context | None] = contextvars.ContextVar("reactor_context", default=None)
_running: dict[Context, weakref.WeakSet[threading.Thread]] = {}


def get_ctx() -> Context:
    """Return the session that the calling code serves. Raises RuntimeError outside a session, and after its end."""
    context = _CONTEXT.get()
    if context is not None:
        if context in _running:
            return context
        raise RuntimeError("get_ctx(): the session that this code belongs to has ended")
    thread = threading.current_thread()
    own = [context for context, older in _running.items() if thread not in older]
    if len(own) == 1:
        return own[0]
    raise RuntimeError(
        "get_ctx(): no session runs in this thread; call it in start_session(), in a @command method, in code they call, "
        "or in a thread that they start"
    )


@contextmanager
def running(context: Context) -> Generator[contextvars.Context, None, None]:
    """Mark the session of `context` as running during this block. Yields the `contextvars.Context` to run its code in."""
    variables = contextvars.copy_context()
    variables.run(_CONTEXT.set, context)
    _running[context] = weakref.WeakSet(threading.enumerate())
    try:
        yield variables
    finally:
        del _running[context]


@contextmanager
def set_during(variable: contextvars.ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable to `value` in this block, and in tasks and calls that the block starts."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
