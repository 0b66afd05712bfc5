"""The process of one rank: it loads the author's worker and answers the calls of `DistributedRunner`, one at a time.

It leads a process group, with what the author's code starts. It ends with the process that started it: a thread waits at a
pipe for that, since the worker may be in a call for long.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple

from reactor_trio.distributed.shared_payloads import RESULTS, Inherited, PayloadMemory, decode, encode
from reactor_trio.distributed.worker_failures import pickled
from reactor_trio.standard_streams import optional_output


class Start(NamedTuple):
    """What a rank needs to begin.

    Attributes:
        memory: descriptor of the memory for arrays.
        store: path of the file by which torch's process groups find each other; None: no process group.
    """

    rank: int
    world_size: int
    worker_class: type[Any]
    load_kwargs: dict[str, Any]
    memory: Inherited
    store: str | None


class GroupCall(NamedTuple):
    """A call to all ranks; `sizes` are those of its arrays in the shared memory."""

    method: Literal["generate", "reset", "stop"]
    stream: bytes = b""
    sizes: tuple[int, ...] = ()


class GroupAnswer(NamedTuple):
    """A rank's answer: a result (of rank 0 alone) or an exception; `sizes` as in `GroupCall`."""

    error: bytes | None = None
    stream: bytes = b""
    sizes: tuple[int, ...] = ()


def run_worker(connection: Connection, lifeline: Connection, start: Start) -> None:
    """The main function of the process."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    threading.Thread(target=_end_with_parent, args=(lifeline,), name="reactor-lifeline", daemon=True).start()
    with optional_output():
        _run(connection, start)


def _run(connection: Connection, start: Start) -> None:
    try:
        memory = PayloadMemory(start.memory, RESULTS)
        worker = _load(start)
    except BaseException as error:  # it belongs to the caller of `start`
        connection.send(GroupAnswer(pickled(error)))
        return
    connection.send(GroupAnswer())
    with contextlib.suppress(EOFError, BrokenPipeError):
        while (call := connection.recv()).method != "stop":
            _answer(worker, call, connection, memory)
    if start.store is not None:
        import torch.distributed

        torch.distributed.destroy_process_group()


def _load(start: Start) -> Any:
    worker = start.worker_class()
    worker.rank, worker.world_size, worker.device = start.rank, start.world_size, _device(start.rank)
    if start.store is not None:
        import torch.distributed

        torch.distributed.init_process_group(
            group_backend(start.world_size),
            init_method=f"file://{start.store}", rank=start.rank, world_size=start.world_size,
        )  # fmt: skip
    worker.load(**start.load_kwargs)
    return worker


def group_backend(world_size: int) -> str:
    """What the ranks meet by: NCCL if each has a card of its own, which it insists on, otherwise Gloo."""
    import torch

    return "nccl" if torch.cuda.device_count() >= world_size else "gloo"


def _device(rank: int) -> Any:
    with contextlib.suppress(PackageNotFoundError):
        if version("torch").endswith("+cpu"):  # a build without CUDA: to ask it would take the seconds of its import
            return "cpu"
    try:
        import torch
    except ImportError:
        return "cpu"
    if not torch.cuda.is_available():
        return "cpu"
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _answer(worker: Any, call: GroupCall, connection: Connection, memory: PayloadMemory) -> None:
    try:
        if call.method == "reset":
            worker.reset()
            connection.send(GroupAnswer())
            return
        result = worker.generate(decode(call.stream, memory.read(list(call.sizes))))
        stream, buffers = encode(result) if worker.rank == 0 else (b"", [])
        sizes = memory.write(buffers)
    except (SystemExit, KeyboardInterrupt):  # this rank is to end
        raise
    except BaseException as error:  # it belongs to the caller
        connection.send(GroupAnswer(pickled(error)))
        return
    connection.send(GroupAnswer(None, stream, tuple(sizes)))


def _end_with_parent(lifeline: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv()
    os.killpg(0, signal.SIGKILL)
