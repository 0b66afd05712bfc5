"""`warm_up` calls a step until its time has settled, and says so where the load of a model is watched."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import trio
from tests.support.models import Picture

from reactor_trio.adapters import warm_up
from reactor_trio.interface import ReactorPipeline
from reactor_trio.testing import open_server


@pytest.fixture
def step(monkeypatch):
    """A step that takes the next of the given times; `taken` has how many calls there were."""

    class Step:
        taken = 0
        times: list[float]
        now = 0.0

        def __call__(self):
            self.now += self.times[min(self.taken, len(self.times) - 1)]
            self.taken += 1

    step = Step()
    monkeypatch.setattr(trio, "current_time", lambda: step.now)
    return step


@pytest.mark.parametrize(
    ("times", "calls"),
    [
        ([0.1], 3),
        ([60, 0.1], 3),
        ([60, 0.5, 1.0, 0.1], 5),  # compiles, warms up, records a CUDA graph, replays it twice
        ([60, 0.12, 0.1], 3),
        ([60, 0.13, 0.1], 4),
        ([0.0], 3),
        ([1, 2] * 20, 20),  # it never settles
    ],
)
def test_it_ends_with_two_calls_alike(step, times, calls):
    step.times = times
    assert warm_up(step) == pytest.approx(times[min(calls, len(times)) - 1])
    assert step.taken == calls


def test_the_number_of_calls_has_bounds(step):
    step.times = [1, 2, 1, 2, 1, 2]
    warm_up(step, at_least=1, at_most=4)
    assert step.taken == 4
    step.taken = 0
    warm_up(step, at_least=1, at_most=1)
    assert step.taken == 1
    with pytest.raises(ValueError, match="at_least=3 and at_most=2; expected 1 <= at_least <= at_most"):
        warm_up(step, at_most=2)


def test_the_log_has_one_line(step, caplog):
    step.times = [60, 0.25]
    with caplog.at_level(logging.INFO, "reactor_trio.adapters"):
        warm_up(step, text="compiling")
    assert caplog.messages == ["compiling: 3 runs; the first took 60 s, the last 0.25 s"]


async def test_a_client_that_waits_for_the_model_sees_each_warm_up_call(autojump_clock):
    class Compiled(ReactorPipeline):
        async def load(self, config):
            times = iter([40, 1, 1])

            def step():
                autojump_clock.jump(next(times))
                runs.append(len(reports))

            warm_up(step, text="compiling")

        def inference(self):
            yield Picture(main_video=np.zeros((4, 4, 3), np.uint8))

    runs, reports = [], []
    async with open_server(Compiled, on_progress=lambda fraction, text: reports.append((fraction, text))):
        pass
    # load() did not pause, so only its last report was seen
    assert reports == [(None, "compiling, run 3; the last took 1 s")]
    assert len(runs) == 3


def test_an_error_of_the_step_is_raised():
    def step():
        raise MemoryError("out of memory")

    with pytest.raises(MemoryError, match="out of memory"):
        warm_up(step)
