"""How a process that serves sets up the Python interpreter: threads that take turns quickly, and a garbage collector that
seldom stops them.

A collection stops every thread. A full one takes 10 ms with the server's own imports and 80 ms with torch, and then 0.1 ms
or more for each client. A step that begins so late also makes the runtime start the next ones earlier (`pacing.StepMargin`),
so for seconds all pictures are older. Hence:

* Objects that live as long as the process, modules and what `load` made, are never looked at again (`settle`).
* With many clients there are many objects that live for some milliseconds, such as the frames under way. By default each of
  them that lives through about ten small collections counts as old, and they make a full collection necessary every few
  seconds. With `BETWEEN_MIDDLE` small collections between two of the middle generation, few get that far. Small collections,
  which find most of what a model's step leaves behind, remain as frequent as ever.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Seconds after which Python asks a thread to let another one go on. The loop must run within about a millisecond of a
#: frame's due time, also beside a model that computes in Python; the default is 5 ms, which a viewer sees as jitter.
SWITCH_INTERVAL = 0.001
#: collections of the youngest generation between two of the middle one; Python's default is 10
BETWEEN_MIDDLE = 100


def prepare_to_serve() -> None:
    """Set up this process to serve. Called once, by the main function of a process that is ours."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    youngest, _, oldest = gc.get_threshold()
    gc.set_threshold(youngest, BETWEEN_MIDDLE, oldest)


@contextmanager
def importing() -> Iterator[None]:
    """Pause the garbage collector during a block of imports: it would find nothing, and take a tenth of their time.

    What was made meanwhile then counts as old. Else the first small collection after the block would look at all of it.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
            gc.enable()


def settle() -> None:
    """Collect garbage once, then exclude every object that exists now from later collections."""
    gc.collect()
    gc.freeze()
