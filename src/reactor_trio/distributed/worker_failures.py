"""What an author defines for each rank, the failures of a group of ranks, and exceptions on their way between processes."""

from __future__ import annotations

import pickle  # nosec B403 - between processes of one group, over pipes that no other process has
import traceback
from typing import Any, Protocol

from reactor_trio.errors import ReactorError
from reactor_trio.plain_text import sendable


class DistributedWorker(Protocol):
    """The methods of an author's worker class. It needs no base class; `__init__` takes no arguments.

    Attributes:
        rank, world_size, device: set before `load`. The device is `torch.device("cuda", rank)`, or the text "cpu" without
            CUDA.
    """

    rank: int
    world_size: int
    device: Any

    def load(self, **load_kwargs: Any) -> None:
        """Load this rank's part of the model."""

    def generate(self, input: Any, /) -> Any:  # noqa: A002 - Reactor's name
        """Make a step. Each rank gets the same input; the result of rank 0 is that of the group."""

    def reset(self) -> None:
        """Forget what belongs to one client."""


class WorkerCrashed(ReactorError):
    """A rank's process has ended. The group cannot be used any more."""


class WorkerTimeout(ReactorError, TimeoutError):
    """A call took longer than its limit in some rank. The group cannot be used any more."""


class RankDesync(ReactorError):
    """Some ranks raised in a call and others did not, or they raised different errors. The group cannot be used any more."""


class RankError(RuntimeError):
    """Stands for an exception of a rank that cannot be pickled. Its text has the exception's type and message."""


def pickled(error: BaseException) -> bytes:
    """Encode an exception of this process, with its traceback as a note."""
    note = "In the rank:\n" + "".join(traceback.format_exception(error))
    try:
        error.add_note(note)
        data = pickle.dumps(error)
        pickle.loads(data)  # nosec B301 - our own bytes: some exceptions can be pickled and not be made again
    except Exception:  # pickling runs code of the exception's class
        stand_in = RankError(f"{type(error).__qualname__}: {sendable(error)}")
        stand_in.add_note(note)
        data = pickle.dumps(stand_in)
    return data


def unpickled(data: bytes) -> Exception:
    """Decode the exception of a rank. Its class may be missing here; then it becomes a RankError."""
    try:
        error = pickle.loads(data)  # from a process that this one has started  # nosec B301
    except Exception as reason:  # unpickling runs code of the exception's class
        return RankError(f"an exception that cannot be read here: {sendable(reason)}")
    return error if isinstance(error, Exception) else RankError(f"{type(error).__qualname__}: {sendable(error)}")
