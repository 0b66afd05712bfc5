"""Hides Trio from an asyncio loop that plain author code runs, as `asyncio.run()` in `load`, a step or a handler does.

Author code runs in a task of Trio, so this thread and its task are marked as Trio's. Libraries that work on both loops, such
as AnyIO and httpx, read the mark. On the author's asyncio loop they would then open nurseries of Trio in a task that cannot
wait for them, and Trio ends with an internal error. So the mark is away while the other loop runs. It is there in all other
plain code, which may ask AnyIO for the time or enter a cancel scope.

There is one place where every loop says that it begins and ends: `asyncio.events._set_running_loop` (asyncio, uvloop,
nest_asyncio). This module wraps it as soon as the program imports asyncio; many servers never do, and start sooner.

The mark has two parts: the name that sniffio gives, and Trio's own note of its loop and task, `GLOBAL_RUN_CONTEXT`, which is
not public. Source: Trio 0.27 to 0.35, `trio/_core/_run.py`; CPython 3.11 to 3.13, `asyncio/base_events.py`.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

from sniffio import thread_local as library_of_thread
from trio._core._run import GLOBAL_RUN_CONTEXT

_EVENTS = "asyncio.events"


class _Mark(threading.local):
    """What is hidden of this thread's Trio; `note` is None while nothing is."""

    note: dict[str, Any] | None = None
    library: str | None = None
    #: the loop that ran before the one that hides Trio, such as a notebook's; None if none ran
    outer: object = None


_mark = _Mark()


def hide_trio_from_nested_loops() -> None:
    """Hide Trio, in each thread, while an asyncio loop runs inside a task of Trio. For the rest of this process's life."""
    if _EVENTS in sys.modules:
        importlib.import_module("asyncio")  # another thread may be importing it
        _wrap(sys.modules[_EVENTS])
    elif not any(isinstance(finder, _AwaitsAsyncio) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AwaitsAsyncio())


def _loop_changes(loop: object, outer: object) -> None:
    """Hide Trio if `loop` begins to run inside a task of Trio; show it again when `outer` follows the loop that hid it."""
    note = vars(GLOBAL_RUN_CONTEXT)
    if _mark.note is None:
        if loop is not None and "task" in note:  # no task: Trio runs as a guest of this loop
            _mark.note, _mark.library, _mark.outer = dict(note), library_of_thread.name, outer
            note.clear()
            library_of_thread.name = None
    elif loop is _mark.outer:
        note.update(_mark.note)
        library_of_thread.name = _mark.library
        _mark.note = _mark.outer = None


def _wrap(events: Any) -> None:
    set_running_loop = events._set_running_loop
    if set_running_loop.__module__ == __name__:
        return

    def set_and_hide(loop: object) -> None:
        _loop_changes(loop, events._get_running_loop())
        set_running_loop(loop)

    sys.modules["asyncio"]._set_running_loop = events._set_running_loop = set_and_hide  # type: ignore[attr-defined]
    if (uvloop := sys.modules.get("uvloop")) is not None:  # compiled code, which keeps the function that it imported
        uvloop.Loop.run_forever = _hiding(uvloop.Loop.run_forever, events)


def _hiding(run_forever: Callable[[Any], None], events: Any) -> Callable[[Any], None]:
    @functools.wraps(run_forever)
    def hide_and_run(loop: Any) -> None:
        outer = events._get_running_loop()
        _loop_changes(loop, outer)
        try:
            run_forever(loop)
        finally:
            _loop_changes(outer, outer)

    return hide_and_run


class _AwaitsAsyncio:
    """A finder of modules: calls `_wrap` at the end of the import of `asyncio.events`."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != _EVENTS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_wrap(module: Any) -> None:
            execute(module)
            _wrap(module)

        spec.loader.exec_module = execute_and_wrap  # type: ignore[method-assign]
        return spec
