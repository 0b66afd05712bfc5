"""Describes what a model did while a test waited in vain: its steps, the frames dropped, and where its code is."""

from __future__ import annotations

import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.concurrency.stacks import awaits
from reactor_trio.interface.model import Model

if TYPE_CHECKING:
    from reactor_trio.execution.session_runner import SessionRunner

#: a place in code: file and line
Place = tuple[str, int]

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_LIBRARY = str(Path(os.__file__).parent) + os.sep


@dataclass(frozen=True)
class Mark:
    """Counters at one instant."""

    steps: int
    empty: int
    drops: dict[tuple[str, str], int]


def mark(runner: SessionRunner | None, drops: dict[tuple[str, str], int]) -> Mark:
    """Return the counters now."""
    return Mark(0, 0, drops) if runner is None else Mark(runner.session.step, runner.session.empty_steps, drops)


async def done_since(
    before: Mark,
    runner: SessionRunner | None,
    drops: dict[tuple[str, str], int],
    host: ModelHost,
    came: dict[str, int],
) -> str:
    """Describe what happened since `before`. `came`: the frames that the client has received, by track."""
    if runner is None:
        return "no session of this client runs"
    now = mark(runner, drops)
    steps, empty = now.steps - before.steps, now.empty - before.empty
    said = [f"the model made frames in {steps} steps" if steps else "the model made no frame"]
    said[0] += f" and gave none {empty} times (Idle, None or a return)" if empty else ""
    if steps:
        said.append("frames that came since the session began: " + ", ".join(f"{n} of {name}" for name, n in came.items()))
    lost = {where: frames - before.drops.get(where, 0) for where, frames in drops.items()}
    said += [f"dropped: {frames} ({place}, {reason})" for (place, reason), frames in lost.items() if frames]
    place = await _place(runner, host)
    return "; ".join([*said, place] if place else said)


async def _place(runner: SessionRunner, host: ModelHost) -> str:
    """Describe where the author's code is; empty if that is unknown."""
    session = runner.session
    if session.kind == "pipeline":
        if (generator := runner.generator) is not None:
            return _said("inference()", _innermost(_places(awaits(generator)), session.model))
        hook = ": @connected has not returned" if session.declaration.connected is not None else ""
        return f"inference() has not begun{hook}" if not session.step and not session.empty_steps else ""
    if session.kind == "app":
        return "" if session.step or session.empty_steps else "no step has ended"
    if session.kind == "blocking":
        threads = host.opened_author_threads
        frame = sys._current_frames().get(threads[0].thread.ident or -1) if threads else None
        callers = [] if frame is None else list(_places(traceback.walk_stack(frame)))
        return _said("start_session()", _innermost(reversed(callers), session.model))
    return _said("run()", await host.run(_run_place, session.model))


def _said(what: str, place: Place | None) -> str:
    if place is None:
        return ""
    source = linecache.getline(*place).strip()
    return f"{what} is at {place[0]}:{place[1]}" + (f": {source}" if source else "")


def _innermost(places: Iterable[Place], model: Model) -> Place | None:
    """Return the last place in the author's code, given the places from the outermost call to the innermost."""
    own = inspect.getfile(type(model))
    found = None
    for place in places:
        others = place[0].startswith((_PACKAGE, _LIBRARY, "<")) or "site-packages" in Path(place[0]).parts
        if place[0] == own or not others:
            found = place
    return found


def _places(frames: Iterable[tuple[FrameType, int]]) -> Iterator[Place]:
    return ((frame.f_code.co_filename, line) for frame, line in frames)


async def _run_place(model: Model) -> Place | None:
    """Return where `run()` of this instance waits. Runs on the model loop."""
    await trio.lowlevel.checkpoint()
    run = type(model).run.__code__  # type: ignore[attr-defined]
    tasks = [trio.lowlevel.current_root_task()]
    while tasks:
        if (task := tasks.pop()) is None:
            continue
        frames = list(awaits(task.coro))
        for index, (frame, _) in enumerate(frames):
            if frame.f_code is run and frame.f_locals.get("self") is model:
                return _innermost(_places(frames[index:]), model)
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return None
