"""`RuntimeHost`: a server that any thread can start and stop. Notebooks, tests and programs without Trio use it.

Trio runs in a thread of its own; control crosses by `run_sync_soon`. The caller's thread needs no loop and no signals.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from inspect import signature
from types import TracebackType
from typing import Any, Generic, TypeVar

import trio

from reactor_trio.admission import PhaseEntry
from reactor_trio.concurrency.kept_errors import WHOLE_TRACEBACK
from reactor_trio.configuration.manifest import Manifest
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import ReactorError
from reactor_trio.interface.model import Model
from reactor_trio.placement.model_source import check_given, check_options
from reactor_trio.server.serve import Serving, serve

T = TypeVar("T")

#: the keyword arguments of `serve`
_OPTIONS = tuple(name for name, option in signature(serve).parameters.items() if option.kind is option.KEYWORD_ONLY)


class ServerThread(Generic[T]):
    """A server on a Trio thread of its own: that of a model, or a gate.

    Args:
        serve: serves until the event `drain=` is set, and passes what it serves to `task_status=`.
        ended: called on the server's thread when the server has ended, with the exception that ended it or None.
        beside: async functions that run on the server's loop for its whole life.
    """

    def __init__(
        self,
        serve: Callable[..., Awaitable[None]],
        ended: Callable[[BaseException | None], object] = lambda _error: None,
        beside: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        self._serve = serve
        self._ended = ended
        self._beside = beside
        self._ready = threading.Event()
        #: Waited for instead of the thread: Python 3.11 takes a thread for ended whose `join` was interrupted by Ctrl-C.
        self._over = threading.Event()
        self._serving: T | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._drain: trio.Event | None = None
        #: `stop` may be called before the thread has its loop
        self._stop_asked = False
        #: what `serve` raised, None while it has not; once that was raised to a caller, a copy without frames
        self._error: BaseException | None = None
        #: whether `wait` or `stop` has reported the end, so that `stop` has nothing to add
        self._reported = False
        self._thread = threading.Thread(target=self._run, name="reactor-io", daemon=True)

    @property
    def serving(self) -> T:
        """The server. Use it on its own loop only (`post`). Raises ReactorError before `launch`."""
        if self._serving is None:
            raise ReactorError("the server has not been started")
        return self._serving

    def launch(self, timeout: float | None = None) -> None:
        """Start the thread and wait until the server is ready.

        Raises what `serve` raises, ReactorError if `stop` was called meanwhile, TimeoutError if it is not ready in
        `timeout` seconds (it goes on loading).
        """
        self._thread.start()
        if not self._ready.wait(timeout):
            raise TimeoutError(f"the model was not ready within {timeout} s")
        if self._serving is None:
            self._finish()
            raise ReactorError("the server was stopped before it was ready")

    def post(self, function: Callable[..., object], *args: object) -> None:
        """Call `function(*args)` on the server's I/O loop; returns at once. It must not raise."""
        assert self.serving is not None  # raises before the start
        assert self._token is not None
        self._token.run_sync_soon(function, *args)

    def drain(self) -> None:
        """Refuse newcomers and let sessions end, as `stop` does, without waiting for it."""
        assert self._drain is not None, "the server has not been started"
        self.post(self._drain.set)

    def stop(self, timeout: float | None = None) -> None:
        """Drain and stop; returns when the server is gone, after `runtime.drain_notice`.

        Does nothing if `wait` or another `stop` has reported the end.

        Raises what `serve` raised, TimeoutError if it is not gone in `timeout` seconds (a step that does not end).
        """
        if self._thread.ident is None or self._reported:
            return
        self._stop_asked = True
        if self._token is not None and self._drain is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._drain.set)
        if not self._over.wait(timeout):
            raise TimeoutError(f"the server did not stop within {timeout} s")
        self._finish()

    def wait(self) -> None:
        """Wait until the server has ended. Raises what `serve` raised, at each call."""
        self._over.wait()
        self._finish()

    def _finish(self) -> None:
        self._thread.join()
        self._reported = True
        if (error := self._error) is not None:
            self._error = _without_frames(error)
            try:
                raise error.with_traceback(None) if isinstance(error, ReactorError) else error  # the frames of that thread
            finally:
                del error  # else it and this frame keep each other

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            self._error = error
        self._ready.set()
        try:
            self._ended(self._error)
        finally:
            self._over.set()

    async def _main(self) -> None:
        self._drain = drain = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        if self._stop_asked:  # read after the token is there, so that `stop` cannot come between
            drain.set()
        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[T]) -> None:
                try:
                    await self._serve(drain=drain, task_status=task_status)
                except Exception as error:
                    self._error = error  # raised here, it would stay with Trio, and that with the nurseries of the server
                nursery.cancel_scope.cancel()

            for function in self._beside:
                nursery.start_soon(function)
            try:
                self._serving = await nursery.start(run)
                self._ready.set()
            except RuntimeError:  # ended before it was ready; `_error` says why
                pass


def _without_frames(error: BaseException) -> BaseException:
    """Copy an exception. Its traceback has the frames of the author's code, with the pictures and the model in them."""
    if isinstance(error, BaseExceptionGroup):
        return error.derive([_without_frames(each) for each in error.exceptions])
    try:
        again = copy(error)
        vars(again).pop(WHOLE_TRACEBACK, None)
    except Exception:  # its class wants other arguments
        again = ReactorError(f"{type(error).__name__}: {error}")
    again.__cause__ = None if error.__cause__ is None else _without_frames(error.__cause__)
    return again


class RuntimeHost(ServerThread[Serving]):
    """Serves a model from a thread of its own; usable as a context manager.

    Args:
        model: a model class or a manifest.
        options: those of `serve`, except `drain` and `task_status`. Without `port` it is that of `settings=`, if that is
            not the default 8080, and else a free one that the system chooses.

    Raises ReactorError if the model or the settings are of another type, or an option is unknown.
    """

    def __init__(self, model: type[Model] | Manifest, **options: Any) -> None:
        settings = options.get("settings")
        check_given(model, settings)
        check_options(options, _OPTIONS)
        port = 0 if settings is None or settings.port == Settings().port else settings.port
        super().__init__(partial(serve, model, **{"port": port, **options}))

    @property
    def url(self) -> str:
        """The viewer page. Raises ReactorError before `start`."""
        return self.serving.url

    def start(self, timeout: float | None = None) -> str:
        """Load the model and serve it; returns the URL once it is ready.

        Raises what `serve` raises, TimeoutError if it is not ready in `timeout` seconds (it goes on loading).
        """
        self.launch(timeout)
        return self.url

    def revoke(self, session_id: str) -> None:
        """End the session with this id for the reason `revoked`. Returns at once; does nothing if no such session runs."""
        self.post(self.serving.runtime.revoke, session_id)

    def watch(self, after: int = 0) -> list[PhaseEntry]:
        """The server's phases with a number above `after`, oldest first."""
        return self.serving.runtime.journal.after(after)

    def __enter__(self) -> RuntimeHost:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
