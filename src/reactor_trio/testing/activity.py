"""Describes what a model did while a test waited in vain: its steps, the frames dropped, and where its code is."""

from __future__ import annotations

import inspect
import linecache
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from reactor_trio.concurrency import ModelHost
from reactor_trio.interface.model import Model
from reactor_trio.kinds.table import kind_of
from reactor_trio.lifecycle import State
from reactor_trio.testing.author_frames import author_frames

if TYPE_CHECKING:
    from reactor_trio.execution.session_tasks import SessionTasks

#: in code: file and line
Location = tuple[str, int]

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_LIBRARY = str(Path(os.__file__).parent) + os.sep


@dataclass(frozen=True)
class Mark:
    """Counters at one instant."""

    steps: int
    empty: int
    drops: dict[tuple[str, str], int]


def mark(tasks: SessionTasks | None, drops: dict[tuple[str, str], int]) -> Mark:
    """Return the counters now."""
    return Mark(0, 0, drops) if tasks is None else Mark(tasks.session.step, tasks.session.empty_steps, drops)


async def done_since(
    before: Mark,
    tasks: SessionTasks | None,
    drops: dict[tuple[str, str], int],
    host: ModelHost,
    came: dict[str, int],
) -> str:
    """Describe what happened since `before`. `came`: the frames that the client has received, by track."""
    if tasks is None:
        return "no session of this client runs"
    now = mark(tasks, drops)
    steps, empty = now.steps - before.steps, now.empty - before.empty
    said = [f"the model made frames in {steps} steps" if steps else "the model made no frame"]
    said[0] += f" and gave none {empty} times (Idle, None or a return)" if empty else ""
    if steps:
        said.append("frames that came since the session began: " + ", ".join(f"{n} of {name}" for name, n in came.items()))
    lost = {where: frames - before.drops.get(where, 0) for where, frames in drops.items()}
    said += [f"dropped: {frames} ({place}, {reason})" for (place, reason), frames in lost.items() if frames]
    location = await _author_location(tasks, host)
    return "; ".join([*said, location] if location else said)


async def _author_location(tasks: SessionTasks, host: ModelHost) -> str:
    """Describe where the author's code is; empty if that is unknown."""
    session = tasks.session
    if session.life.state is State.CLOSED:
        return ""
    kind, begun = kind_of(session.declaration), session.step or session.empty_steps
    if (frames := await author_frames(tasks, host)) is None:
        hook = ": @connected has not returned" if session.declaration.connected is not None else ""
        return "" if begun else f"{kind.method} has not begun{hook}"
    if (place := _innermost(_locations(frames), session.model)) is None:
        return "" if begun else "no step has ended"
    source = linecache.getline(*place).strip()
    return f"{kind.method} is at {place[0]}:{place[1]}" + (f": {source}" if source else "")


def _innermost(places: Iterable[Location], model: Model) -> Location | None:
    """Return the last place in the author's code, given the places from the outermost call to the innermost."""
    own = inspect.getfile(type(model))
    found = None
    for place in places:
        others = place[0].startswith((_PACKAGE, _LIBRARY, "<")) or "site-packages" in Path(place[0]).parts
        if place[0] == own or not others:
            found = place
    return found


def _locations(frames: Iterable[tuple[FrameType, int]]) -> Iterator[Location]:
    return ((frame.f_code.co_filename, line) for frame, line in frames)
