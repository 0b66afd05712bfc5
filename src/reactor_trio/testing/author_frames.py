"""Where the author's code of a session is now, for each kind of model."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.concurrency.stacks import awaits
from reactor_trio.execution.step_loop import StepLoop
from reactor_trio.interface.declaration import ModelKind

if TYPE_CHECKING:
    from reactor_trio.execution.session_tasks import SessionTasks

#: the frames of a stack, the outermost first, each with its line
Frames: TypeAlias = Iterable[tuple[FrameType, int]]


async def author_frames(tasks: SessionTasks, host: ModelHost) -> Frames | None:
    """The frames of the author's code of a session that goes on; None before it begins, empty if the place is unknown."""
    return await _FRAMES[tasks.session.declaration.kind](tasks, host)


async def _unknown(_tasks: SessionTasks, _host: ModelHost) -> Frames | None:
    """An app is at no place between two steps, and a call of several sessions at no place of one."""
    return ()


async def _of_generator(tasks: SessionTasks, _host: ModelHost) -> Frames | None:
    """Where the generator is suspended, or waits."""
    driver = tasks.performer.driver
    assert isinstance(driver, StepLoop)
    generator = driver.source.of_author.generator  # type: ignore[attr-defined]
    return None if generator is None else awaits(generator)


async def _of_thread(_tasks: SessionTasks, host: ModelHost) -> Frames | None:
    """The stack of a blocking session's thread."""
    threads = host.opened_author_threads
    frame = sys._current_frames().get(threads[0].thread.ident or -1) if threads else None
    return () if frame is None else reversed(list(traceback.walk_stack(frame)))


async def _of_run(tasks: SessionTasks, host: ModelHost) -> Frames | None:
    """Where `run()` of this instance waits."""
    return await host.run(_waiting_run, tasks.session.model)


async def _waiting_run(model: Any) -> Frames:
    await trio.lowlevel.checkpoint()
    code = type(model).run.__code__
    tasks = [trio.lowlevel.current_root_task()]
    while tasks:
        if (task := tasks.pop()) is None:
            continue
        stack = list(awaits(task.coro))
        for index, (frame, _) in enumerate(stack):
            if frame.f_code is code and frame.f_locals.get("self") is model:
                return stack[index:]
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return ()


_FRAMES: Final[dict[ModelKind, Callable[[SessionTasks, ModelHost], Awaitable[Frames | None]]]] = {
    "generator": _of_generator,
    "batch": _unknown,
    "app": _unknown,
    "run_loop": _of_run,
    "blocking": _of_thread,
}
