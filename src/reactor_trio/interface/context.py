"""`get_ctx()`: from any code of a blocking session to that session.

Code that the runtime calls, and tasks and threads that carry its context variables, know their session by a context
variable. A plain `threading.Thread` starts with none: it belongs to the session that runs if it was not alive when that
session began. So a thread left over from a past session is told so, and never reaches the next client.
"""

from __future__ import annotations

import contextvars
import threading
import weakref
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy.typing as npt

from reactor_trio.interface.profiling import Profiler


class Track(Protocol):
    """One track of the session."""

    def emit(self, data: object, bucket: int | None = None) -> None:
        """Emit on this track to the client: what has the same `bucket` on other tracks is shown with it.

        Without a bucket each track counts its own. Raises TypeError on a track from the client.
        """
        ...

    def latest(self) -> npt.NDArray[Any] | None:
        """The newest frame of this track from the client, None before the first. Raises TypeError on one to the client."""
        ...


class Context(Protocol):
    """A blocking session, as its model sees it. Every method may be called from any thread."""

    def should_stop(self) -> bool:
        """Whether the session is over: true at once when the client has left, and for ever. Poll it in every loop."""
        ...

    def emit_block(self, frames: object) -> None:
        """Queue a frame, a block of frames, or a black frame; waits while the buffer is full.

        Args:
            frames: `uint8` RGB `(H, W, 3)` or `(N, H, W, 3)`, numpy or torch; None for one black frame of the last size.

        Raises ValueError (an OutputError) if it has another shape or dtype. After the session nothing happens.
        """
        ...

    def send(self, message: Mapping[str, Any]) -> None:
        """Send JSON to every client of the session; it arrives before what is emitted after it.

        `{"type": ..., "data": {...}}` goes out as it is, any other mapping as the data of a message of type `message`.
        Raises TypeError if it cannot be JSON, ValueError for a type that is the runtime's own.
        """
        ...

    def disable_monitoring(self) -> None:
        """The model pauses on purpose: the time until `enable_monitoring` is not taken for slowness."""
        ...

    def enable_monitoring(self) -> None:
        """The model works again."""
        ...

    def get_track(self, name: str | None = None) -> Track:
        """The track `name`. Without a name: the one declared with `default=True`, else `main_video`, else the first video.

        Raises RuntimeError for a track that the model does not declare.
        """
        ...

    def profiler(self) -> Profiler:
        """What `get_profiler()` gives."""
        ...


_CONTEXT: contextvars.ContextVar[Context | None] = contextvars.ContextVar("reactor_context", default=None)
_running: dict[Context, weakref.WeakSet[threading.Thread]] = {}


def get_ctx() -> Context:
    """The session that the calling code serves. Raises RuntimeError outside one, also after it has ended."""
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
        "get_ctx(): no session runs in this thread; call it in start_session(), in a @command method, in what they call, "
        "or in a thread that they start"
    )


@contextmanager
def running(context: Context) -> Generator[contextvars.Context, None, None]:
    """The session of `context` runs during this block; yields the context variables for its code."""
    variables = contextvars.copy_context()
    variables.run(_CONTEXT.set, context)
    _running[context] = weakref.WeakSet(threading.enumerate())
    try:
        yield variables
    finally:
        del _running[context]
