"""Frames that lie on a device: taken over in its own queue, brought to the host once, by whoever needs them there.

A device computes behind its program. A yielded tensor may not have been computed yet, and what the author does to it next is
queued behind that. So nothing is waited for at the yield: the copy that makes the tensor ours and an event are queued behind
the work of the model's stream. Who wants the values waits for that event, in a worker thread, and not for the device, which
may be at the next step by then. The transfer runs on a stream of its own into pinned memory, once for all frames of a yield
and all viewers; an encoder that works on the device takes `tensor` and needs none.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch


class Made(Protocol):
    """The moment at which a device has done all that was queued before; a CUDA event is one."""

    def query(self) -> bool:
        """Whether it has passed."""

    def synchronize(self) -> None:
        """Block until it has."""


class DeviceQueue(Protocol):
    """What differs between devices."""

    def record(self, device: torch.device) -> Made | None:
        """Mark the end of what is queued now on the current stream; None if the device cannot."""

    def fetch(self, tensor: torch.Tensor, made: Made | None) -> torch.Tensor:
        """The tensor in the host's memory. Blocks until it is there."""


class CudaQueue:
    """CUDA, and ROCm under its name."""

    def record(self, device: torch.device) -> Made:
        """An event whose waiters sleep, since the default one is spun on."""
        cuda = _cuda()
        event = cuda.Event(blocking=True)
        event.record(cuda.current_stream(device))
        made: Made = event
        return made

    def fetch(self, tensor: torch.Tensor, made: Made | None) -> torch.Tensor:
        """Behind `made`, on a stream beside the model's."""
        import torch

        cuda = _cuda()
        stream = cuda.Stream(tensor.device)
        with cuda.stream(stream):
            stream.wait_event(made)
            host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            host.copy_(tensor, non_blocking=True)
            copied = cuda.Event(blocking=True)
            copied.record(stream)
        copied.synchronize()  # only then may the tensor go: the allocator knows nothing of this stream
        return host


def _cuda() -> Any:
    """`torch.cuda`, whose streams and events are not typed."""
    import torch

    return torch.cuda


class PlainQueue:
    """Any other device: its own copy to the host, which waits for all that is queued."""

    def record(self, device: torch.device) -> None:
        """It has no events that we know."""

    def fetch(self, tensor: torch.Tensor, made: Made | None) -> torch.Tensor:
        """By torch's own rules."""
        return tensor.cpu()


def open_queue(device: torch.device) -> DeviceQueue:
    """The queue of a device."""
    return CudaQueue() if device.type == "cuda" else PlainQueue()


class _Transfer:
    """A yielded tensor, ours now, and its one way to the host."""

    def __init__(self, tensor: torch.Tensor) -> None:
        import torch

        self._queue = open_queue(tensor.device)
        self.tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
        self.made = self._queue.record(tensor.device)
        self._host: npt.NDArray[Any] | None = None
        self._lock = threading.Lock()

    def host(self) -> npt.NDArray[Any]:
        with self._lock:  # the first who comes fetches, the others wait for it
            if self._host is None:
                host: npt.NDArray[Any] = self._queue.fetch(self.tensor, self.made).numpy()
                host.flags.writeable = False
                self._host = host
            return self._host


class DeviceFrames:
    """Frames or samples of one yield on a device, or a part of them; any thread may use them.

    Attributes:
        tensor: the values on their device, to be used when `made` has passed, and to be left as they are.
    """

    def __init__(self, transfer: _Transfer, key: Any = ...) -> None:
        self._transfer = transfer
        self._key = key
        self.tensor = transfer.tensor[key]

    @classmethod
    def take(cls, tensor: torch.Tensor) -> DeviceFrames:
        """Take over a tensor in its present state, which may lie in the device's future. Does not wait for the device."""
        return cls(_Transfer(tensor))

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """As of an array."""
        return int(self.tensor.ndim)

    def __getitem__(self, key: Any) -> DeviceFrames:
        """A part of the whole, which shares its transfer; parts are not divided again."""
        assert self._key is ...
        return DeviceFrames(self._transfer, key)

    @property
    def made(self) -> Made | None:
        """When the device has computed them; None if it cannot be told, and `host` waits."""
        return self._transfer.made

    def host(self) -> npt.NDArray[Any]:
        """The values as a read-only numpy array. Blocks: for a worker thread. The first call fetches the whole yield."""
        whole = self._transfer.host()
        return whole if self._key is ... else np.asarray(whole[self._key])
