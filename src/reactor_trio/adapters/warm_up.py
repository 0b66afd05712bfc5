"""`warm_up`: the first runs of a step, made in `load`, where no client waits for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from reactor_trio.adapters.step_timer import StepTimer
from reactor_trio.interface.progress import progress

if TYPE_CHECKING:
    import torch

log = logging.getLogger("reactor_trio.adapters")

#: Two runs in a row that differ by no more than this part of the shorter one are alike.
ALIKE = 0.2


def warm_up(
    step: Callable[[], object],
    *,
    device: torch.device | str = "cpu",
    text: str = "warming up",
    at_least: int = 3,
    at_most: int = 20,
) -> float:
    """Call a step until its time has settled: until two calls in a row take the same time, give or take a fifth.

    The first call of `torch.compile` compiles, for seconds to minutes. With CUDA graphs (`mode="reduce-overhead"`) the next
    two warm up and record, so a fixed number of calls is easily one too few. `progress` reports each call, so that the
    terminal, `/health` and the page say what the server does; the model is ready when `load` returns. One line in the log
    has the times. Blocks the thread, waits for the device after each call, and cannot be cancelled.

    Args:
        step: one step as clients will have it, with the same shapes: another shape would compile again.
        device: where the step computes, as torch names it.
        text: what is being done, in a few words.
        at_least: calls that are made in any case.
        at_most: calls after which the time counts as settled, as on a machine that does other work.

    Returns the seconds of the last call. Raises what the step raises, and ValueError for counts that cannot be.
    """
    if not 1 <= at_least <= at_most:
        raise ValueError(f"warm_up(): at_least={at_least} and at_most={at_most}; expected 1 <= at_least <= at_most")
    timer, taken = StepTimer(device), list[float]()
    while len(taken) < at_least or (len(taken) < at_most and not _alike(taken[-2:])):
        last = f"; the last took {taken[-1]:.3g} s" if taken else ""
        progress(None, f"{text}, run {len(taken) + 1}{last}")
        with timer:
            step()
        taken.append(timer.wait())
    log.info("%s: %d runs; the first took %.3g s, the last %.3g s", text, len(taken), taken[0], taken[-1])
    return taken[-1]


def _alike(times: list[float]) -> bool:
    return len(times) == 2 and abs(times[0] - times[1]) <= ALIKE * min(times)
