"""`DistributedRunner` with real processes: results, arrays, each failure by its name, and nothing left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_trio.distributed import (
    DistributedRunner,
    RankDesync,
    SharedSlotAllocationFailed,
    WorkerCrashed,
    WorkerTimeout,
)
from reactor_trio.distributed.worker_failures import RankError
from reactor_trio.errors import ReactorError
from tests.distributed.workers import Full, Summing, Worker

PATIENCE = 120.0


@contextmanager
def group(world_size: int = 2, **options: Any) -> Iterator[DistributedRunner]:
    options.setdefault("init_process_group", False)
    options.setdefault("call_timeout", PATIENCE)
    runner = DistributedRunner(Worker, world_size=world_size, **options)
    runner.start()
    try:
        yield runner
    finally:
        runner.shutdown()


def runs(pid: int) -> bool:
    """Whether the process runs; a dead one may still be waiting for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid: int) -> bool:
    """Wait for the end of a process that may not be our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], PATIENCE)[0])
    finally:
        os.close(descriptor)


def test_calls_go_to_all_ranks_and_the_result_of_rank_0_comes_back() -> None:
    with group(load_kwargs={"offset": 10}) as runner:
        assert runner.healthy
        rank, world_size, device, calls, pid = runner.generate(("describe",))
        assert (rank, world_size, calls) == (0, 2, 1)
        assert device in ("cpu", "cuda:0"), "two ranks share the card of a machine that has one"
        assert pid != os.getpid()
        runner.generate({"any": ["value", None]})
        assert runner.generate(("describe",))[3] == 3
        runner.reset()
        assert runner.generate(("describe",))[3] == 1
        for shape in ((2, 3), (100, 200, 3), (1, 1), (0, 4), (300, 400, 3)):  # the slots grow, and serve smaller ones
            made = runner.generate(np.zeros(shape, np.float32))
            assert made.shape == shape
            assert made.dtype == np.float32
            assert np.all(made == 10)
            made += 1  # it is the caller's own
    assert not runner.healthy
    runner.shutdown()
    with pytest.raises(ReactorError, match=r"start\(\) the group first"):
        runner.generate(1)


def test_tensors_cross_and_ranks_find_each_other() -> None:
    import torch

    runner = DistributedRunner(Summing, world_size=2, call_timeout=PATIENCE)
    runner.start()
    try:
        for dtype in (torch.float32, torch.int64):
            total = runner.generate(torch.ones(2, 3, dtype=dtype))
            assert total.dtype == dtype
            assert torch.equal(total, torch.full((2, 3), 3, dtype=dtype))
        given = torch.arange(6).reshape(2, 3).t()
        assert torch.equal(runner.generate(given), given * 3)
    finally:
        runner.shutdown()


def test_load_that_raises_comes_out_of_start() -> None:
    runner = DistributedRunner(Worker, world_size=2, load_kwargs={"broken": 1}, init_process_group=False)
    with pytest.raises(OSError, match="no weights") as raised:
        runner.start()
    assert "in load" in "".join(raised.value.__notes__)
    assert not runner.healthy


def test_a_rank_that_dies_in_load() -> None:
    runner = DistributedRunner(Worker, world_size=2, load_kwargs={"dies": 1}, init_process_group=False)
    with pytest.raises(WorkerCrashed, match="rank 1 ended with exit code 3 in load"):
        runner.start()


def test_an_error_of_all_ranks_leaves_the_group_usable() -> None:
    with group() as runner:
        with pytest.raises(Full, match="rank 0"):
            runner.generate(("raise", (0, 1)))
        with pytest.raises(RankError, match="Unpicklable: cannot cross"):
            runner.generate(("unpicklable",))
        assert runner.healthy
        assert runner.generate(5) == 5


@pytest.mark.parametrize(
    ("given", "failure", "text"),
    [
        (("raise", (1,)), RankDesync, "rank 0 raised nothing; rank 1 raised Full: rank 1"),
        (("raise each its own",), RankDesync, "rank 0 raised ValueError"),
        (("raise and hang",), RankDesync, "others did not return: rank 0 raised Full"),
        (("die", 1), WorkerCrashed, "rank 1 ended with exit code -9 in generate"),
    ],
)
def test_failures_that_end_the_group(given: Any, failure: type[Exception], text: str) -> None:
    with group() as runner:
        pids = [process.pid for process in runner._ranks.processes]  # type: ignore[union-attr]
        with pytest.raises(failure, match=text):
            runner.generate(given)
        assert not runner.healthy
        assert not [pid for pid in pids if runs(pid)]
        with pytest.raises(failure, match="the group of ranks has failed"):
            runner.generate(1)


def test_a_call_that_takes_too_long() -> None:
    with group(call_timeout=0.5) as runner, pytest.raises(WorkerTimeout, match=r"longer than 0\.5 s in rank 1"):
        runner.generate(("hang", 1))


@pytest.mark.parametrize("given", [bytes(5 << 20), np.zeros(5 << 20, np.uint8), ("small",)], ids=["large", "array", "small"])
def test_a_stopped_rank_does_not_hold_a_call_beyond_its_time(given: Any) -> None:
    """Also while the call is sent: a pipe holds some 200 kB."""
    with group(call_timeout=0.5) as runner:
        stopped = runner._ranks.processes[1].pid  # type: ignore[union-attr]
        os.kill(stopped, signal.SIGSTOP)  # type: ignore[arg-type]
        with pytest.raises(WorkerTimeout, match=r"generate took longer than 0\.5 s in rank 1"):
            runner.generate(given)
        assert not runs(stopped)  # type: ignore[arg-type]
        runner.shutdown()


def test_a_rank_that_stops_in_its_answer_does_not_hold_a_call_beyond_its_time() -> None:
    with group(call_timeout=0.5) as runner, pytest.raises(WorkerTimeout, match=r"longer than 0\.5 s in rank 0"):
        runner.generate(("stop in the answer", 0))


def test_no_memory_for_the_arrays(monkeypatch: Any) -> None:
    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    with group(1) as runner:
        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(SharedSlotAllocationFailed, match="12288 bytes of arrays: No space left"):
            runner.generate(np.zeros((64, 64, 3), np.uint8))
        monkeypatch.undo()
        assert runner.generate(np.zeros((64, 64, 3), np.uint8)).shape == (64, 64, 3)


def test_the_child_processes_of_a_rank_end_with_it() -> None:
    with group(1) as runner:
        child = runner.generate(("child",))
        assert runs(child)
    assert ends(child)


#: makes a child that lives longer than the program, and prints its number
FORKS = "print(os.fork() or time.sleep(1000), flush=True)"


@pytest.mark.parametrize("end", ["sys.exit()", "os.kill(os.getpid(), 9)", f"{FORKS}; os.kill(os.getpid(), 9)"])
def test_ranks_end_with_the_program(end: str, tmp_path: Path) -> None:
    program = f"""
import os, sys, time
from reactor_trio.distributed import DistributedRunner
from tests.distributed.workers import Worker

if __name__ == "__main__":
    runner = DistributedRunner(Worker, world_size=2, init_process_group=False)
    runner.start()
    print(*[process.pid for process in runner._ranks.processes], flush=True)
    {end}
"""
    file = tmp_path / "program.py"
    file.write_text(program)
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    with (tmp_path / "said").open("w+") as said:  # a pipe would end with the last of its processes
        subprocess.run([sys.executable, str(file)], env=environment, stdout=said, timeout=PATIENCE)
        said.seek(0)
        first, second, *children = [int(pid) for pid in said.read().split()]
    try:
        assert ends(first)
        assert ends(second)
        assert all(runs(child) for child in children)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


def test_a_wrong_number_of_ranks() -> None:
    with pytest.raises(ValueError, match="world_size must be 1 or more"):
        DistributedRunner(Worker, world_size=0)
