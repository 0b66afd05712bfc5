"""An exception that is kept keeps the frames of its traceback, and so the variables of every function that it came through.

A session keeps the exception of author code that has ended it. Frames of the runtime among these refer to that session, and
to all that it has. Then each keeps the other, until the garbage collector looks at old objects, which is seldom.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Final

#: packages whose functions stand between two functions of author code, or above them
_OURS = (__name__.partition(".")[0], "trio", "outcome")
#: of a function that can wait: to clear its frame would close it
_CAN_WAIT = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


#: attribute of an exception whose traceback was cut: the whole one, since the frames that are left keep the others
WHOLE_TRACEBACK: Final = "_reactor_whole_traceback"


def forget_variables(error: BaseException) -> None:
    """Forget the variables of the runtime's own functions in the tracebacks of `error`, its causes and its group.

    Lines and names stay, so the log shows the same. Author code keeps its variables, for a debugger after the end. Call it
    when the functions of the traceback have ended.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        for frame in _frames(one):
            if frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
                with suppress(RuntimeError):  # a caller that still runs
                    frame.clear()
        vars(one).pop(WHOLE_TRACEBACK, None)
        waiting += [one.__cause__, one.__context__, *(one.exceptions if isinstance(one, BaseExceptionGroup) else ())]


def _frames(error: BaseException) -> Iterator[FrameType]:
    """The frames of the traceback, each followed by its plain callers, which a frame keeps too."""
    for frame, _ in traceback.walk_tb(getattr(error, WHOLE_TRACEBACK, error.__traceback__)):
        yield frame
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_flags & _CAN_WAIT:
            yield caller
            caller = caller.f_back
