"""`DistributedRunner`: starts a process for each rank, calls all of them together, and tells their failures apart.

Every method blocks. A call goes to all ranks and returns when all have answered. While it waits, it watches the processes
too: a rank that dies is noticed at once, though the others wait for it inside a collective operation. A failed group is
killed whole and stays unusable.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from multiprocessing import connection as connections
from multiprocessing import util
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, NoReturn

from reactor_trio.descriptors import keep_from_children
from reactor_trio.distributed.shared_payloads import CALLS, PayloadMemory, decode, encode
from reactor_trio.distributed.worker_failures import RankDesync, WorkerCrashed, WorkerTimeout, unpickled
from reactor_trio.distributed.worker_process import GroupAnswer, GroupCall, Start, run_worker
from reactor_trio.errors import ReactorError
from reactor_trio.lost_part import LOST
from reactor_trio.plain_text import sendable

#: Seconds for which the other ranks may go on after one has raised, and for which ranks may end by themselves.
GRACE = 5.0


class DistributedRunner:
    """A group of worker processes, one a rank. Only one thread at a time may call it; a second one waits.

    A group that has failed ends the model when a session has ended by an error, unless since the failure `start()` of this
    group or of another one has succeeded, or `shutdown()` was called.

    Args:
        worker_cls: see `DistributedWorker`; pickled by reference, so it must stand at the top of a module.
        world_size: number of ranks.
        load_kwargs: keyword arguments of each worker's `load`.
        call_timeout: seconds that `generate` and `reset` may take, from the first byte that is sent to the last answer.
        start_timeout: seconds that the start of all ranks with their `load` may take.
        init_process_group: whether torch's default process group is made before `load` if there are several ranks: NCCL if
            each rank has a card of its own, otherwise Gloo.

    Attributes:
        world_size: number of ranks.
    """

    def __init__(
        self,
        worker_cls: type[Any],
        *,
        world_size: int = 1,
        load_kwargs: Mapping[str, Any] | None = None,
        call_timeout: float = 30.0,
        start_timeout: float = 3600.0,
        init_process_group: bool = True,
    ) -> None:
        if world_size < 1:
            raise ValueError(f"world_size must be 1 or more, not {world_size}")
        self.world_size = world_size
        self._worker_class = worker_cls
        self._load_kwargs = dict(load_kwargs or {})
        self._call_timeout = call_timeout
        self._start_timeout = start_timeout
        self._process_group = init_process_group and world_size > 1
        self._lock = threading.Lock()
        self._ranks: _Ranks | None = None
        self._failure: Exception | None = None

    @property
    def healthy(self) -> bool:
        """Whether the group is started, and none of its ranks has failed or died."""
        return self._ranks is not None and self._failure is None and self._ranks.alive

    def start(self) -> None:
        """Start the processes and load the workers. Raises what `load` raises, WorkerCrashed, or WorkerTimeout."""
        with self._lock:
            if self._ranks is not None:
                raise ReactorError("DistributedRunner.start(): the group is started already")
            if not hasattr(os, "memfd_create"):
                raise ReactorError("DistributedRunner needs Linux, for memory that its processes share")
            self._ranks, self._failure = _Ranks(self.world_size), None
            try:
                self._ranks.start(self._worker_class, self._load_kwargs, self._process_group)
                for answer in self._answers("load", _Deadline(self._start_timeout)):
                    if (error := _error(answer)) is not None:
                        raise error
            except BaseException as failure:
                self._close()
                self._lost(failure)
                raise
            LOST.replaced()

    def generate(self, input: Any, /) -> Any:  # noqa: A002 - Reactor's name
        """Call `generate(input)` of every rank; returns the result of rank 0, its arrays copied.

        If all ranks raise the same type, raises the exception of rank 0, and the group can be used further. Raises
        RankDesync, WorkerCrashed or WorkerTimeout after which it cannot, and SharedSlotAllocationFailed.
        """
        return self._call("generate", input)

    def reset(self) -> None:
        """Call `reset()` of every rank. Raises as `generate` does."""
        self._call("reset", None)

    def shutdown(self) -> None:
        """End all processes, at once if they have failed. A second call does nothing. The end of the program calls it."""
        with self._lock:
            self._close()
            LOST.forget(self)

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _call(self, method: Any, value: Any) -> Any:
        with self._lock:
            if self._failure is not None:
                self._lost(self._failure)
                raise type(self._failure)(f"the group of ranks has failed: {self._failure}") from self._failure
            if self._ranks is None:
                raise ReactorError(f"DistributedRunner.{method}(): start() the group first")
            deadline = _Deadline(self._call_timeout)
            try:
                self._ranks.send(method, value, deadline)
            except _Late as late:
                self._too_late(method, deadline, *late.args)
            answers = self._answers(method, deadline)
            errors = [_error(answer) for answer in answers]
            first = errors[0]
            if any(type(error) is not type(first) for error in errors):
                self._fail(RankDesync(f"the ranks disagree in {method}: " + _each(errors)))
            if first is not None:
                raise first
            return self._ranks.result(answers[0])

    def _answers(self, method: str, deadline: _Deadline) -> list[GroupAnswer]:
        """The answers of all ranks. Ends the group and raises if they do not come."""
        ranks = self._ranks
        assert ranks is not None
        waiting = dict(enumerate(ranks.connections))
        answers: dict[int, GroupAnswer] = {}
        while waiting:
            ready = connections.wait(
                [*waiting.values(), *(process.sentinel for process in ranks.processes)],
                deadline.left(),
            )
            if not ready:
                if any(answer.error is not None for answer in answers.values()):
                    errors = [_error(answers.get(rank)) for rank in range(self.world_size)]
                    self._fail(RankDesync(f"some ranks raised in {method} and others did not return: " + _each(errors)))
                self._too_late(method, deadline, *waiting)
            for rank, connection in list(waiting.items()):
                if connection in ready:
                    try:
                        answers[rank] = ranks.receive(rank, deadline)
                    except _Late:
                        self._too_late(method, deadline, rank)
                    except (EOFError, OSError):
                        self._crashed(rank, method)
                    del waiting[rank]
                    if answers[rank].error is not None:
                        deadline.shorten(GRACE)
                elif ranks.processes[rank].sentinel in ready and not connection.poll():
                    self._crashed(rank, method)  # something that it has started holds its connection open
        return [answers[rank] for rank in range(self.world_size)]

    def _too_late(self, method: str, deadline: _Deadline, *ranks: int) -> NoReturn:
        late = ", ".join(map(str, sorted(ranks)))
        self._fail(WorkerTimeout(f"{method} took longer than {deadline.seconds:g} s in rank {late}"))

    def _crashed(self, rank: int, method: str) -> NoReturn:
        assert self._ranks is not None
        process = self._ranks.processes[rank]
        process.join(GRACE)
        self._fail(WorkerCrashed(f"rank {rank} ended with exit code {process.exitcode} in {method}"))

    def _fail(self, failure: Exception) -> NoReturn:
        self._failure = failure
        if self._ranks is not None:
            self._ranks.close(at_once=True)
        self._lost(failure)
        raise failure

    def _lost(self, failure: BaseException) -> None:
        why = f"{type(failure).__name__}: {failure}"
        LOST.note(self, f"a group of ranks has failed, and was neither replaced nor shut down: {why}")

    def _close(self) -> None:
        ranks, self._ranks = self._ranks, None
        if ranks is not None:
            ranks.close(at_once=self._failure is not None)


class _Late(Exception):
    """A rank, the only argument, has not taken its call, or not finished its answer, in time."""


class _Deadline:
    """The time that a call of all ranks may take, also inside of reads and writes that a stopped rank blocks."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        return max(0.0, self._at - time.monotonic())

    def shorten(self, seconds: float) -> None:
        """Let at most so many seconds be left."""
        self._at = min(self._at, time.monotonic() + seconds)

    @contextlib.contextmanager
    def for_rank(self, rank: int, connection: Connection) -> Iterator[None]:
        """Bound each read and write of the block. Raises _Late; the connection is of no use after that."""
        seconds, fraction = divmod(max(self.left(), 0.001), 1.0)  # the system takes 0 for no limit
        limit = struct.pack("@ll", int(seconds), int(fraction * 1e6))
        with socket.socket(fileno=os.dup(connection.fileno())) as link:  # a pipe of multiprocessing is a pair of sockets
            link.setblocking(True)  # a program may have set a default timeout, which would hold for the pair
            link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        try:
            yield
        except BlockingIOError:
            raise _Late(rank) from None


class _Ranks:
    """The processes of a group, the connections to them, and the shared memory for what is sent to them."""

    def __init__(self, world_size: int) -> None:
        self.processes: list[SpawnProcess] = []
        self.connections: list[Connection] = []
        self._lifelines: list[Connection] = []
        self._world_size = world_size
        self._folder = tempfile.mkdtemp(prefix="reactor-ranks-")
        #: kills what is left if the program ends, or forgets the runner, without `shutdown`; runs before multiprocessing
        #: waits for its children
        self._left = util.Finalize(self, _kill, (self.processes, self._folder), exitpriority=100)
        self._memory = PayloadMemory(None, CALLS)

    @property
    def alive(self) -> bool:
        """Whether every process runs."""
        return len(self.processes) == self._world_size and all(process.is_alive() for process in self.processes)

    def start(self, worker_class: type[Any], load_kwargs: dict[str, Any], process_group: bool) -> None:
        """Start the processes. They answer when they have loaded."""
        spawn = multiprocessing.get_context("spawn")
        store = str(Path(self._folder) / "store") if process_group else None
        for rank in range(self._world_size):
            ours, theirs = spawn.Pipe()
            lifeline, held = spawn.Pipe()
            start = Start(rank, self._world_size, worker_class, load_kwargs, self._memory.descriptor, store)
            process = spawn.Process(target=run_worker, args=(theirs, held, start), name=f"reactor-rank-{rank}")
            process.start()
            theirs.close()
            held.close()
            self.processes.append(process)
            self.connections.append(keep_from_children(ours))
            self._lifelines.append(keep_from_children(lifeline))

    def send(self, method: Any, value: Any, deadline: _Deadline) -> None:
        """Send a call to all ranks. Raises _Late if one does not read it in time.

        Raises SharedSlotAllocationFailed, and what pickling raises, before anything is sent.
        """
        stream, buffers = encode(value)
        call = GroupCall(method, stream, tuple(self._memory.write(buffers)))
        for rank, connection in enumerate(self.connections):
            with contextlib.suppress(OSError), deadline.for_rank(rank, connection):  # dead: the wait for answers tells
                connection.send(call)

    def receive(self, rank: int, deadline: _Deadline) -> GroupAnswer:
        """The answer of a rank that has begun to send one. Raises EOFError or OSError if it is dead, and _Late."""
        with deadline.for_rank(rank, self.connections[rank]):
            answer: GroupAnswer = self.connections[rank].recv()
        return answer

    def result(self, answer: GroupAnswer) -> Any:
        """The value in an answer of rank 0."""
        return decode(answer.stream, self._memory.read(list(answer.sizes))) if answer.stream else None

    def close(self, *, at_once: bool) -> None:
        """End the processes, and everything that they have started."""
        if not at_once:
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.send(GroupCall("stop"))
            deadline = time.monotonic() + GRACE
            for process in self.processes:
                process.join(max(0.0, deadline - time.monotonic()))
        self._left()
        for connection in (*self.connections, *self._lifelines):
            connection.close()
        self._memory.close()


def _kill(processes: list[SpawnProcess], folder: str) -> None:
    """Kill the process group of each rank, and wait for the ranks."""
    for process in processes:
        assert process.pid is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: it leads no group yet
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
    shutil.rmtree(folder, ignore_errors=True)


def _error(answer: GroupAnswer | None) -> Exception | None:
    return None if answer is None or answer.error is None else unpickled(answer.error)


def _each(errors: list[Exception | None]) -> str:
    said = ("raised nothing" if error is None else f"raised {type(error).__name__}: {sendable(error)}" for error in errors)
    return "; ".join(f"rank {rank} {text}" for rank, text in enumerate(said))
