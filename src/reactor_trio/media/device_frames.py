"""Frames in a device's memory: copied in the order of the device's own queue, fetched to the host once, when a thread needs
them.

A device runs behind its program. When a model yields a tensor, the tensor may not be computed yet, and whatever the author
does to it next is queued behind that computation. The runtime therefore does not wait at the yield: it queues a copy, which
makes the tensor its own, and a *fence* (an event) behind the work of the model's stream. A worker thread that needs the
values waits for that fence and not for the whole device, which may be busy with the next step by then. The transfer runs on
a stream of its own into pinned memory, once for all frames of a yield and all viewers. An encoder that works on the device
uses `tensor` and needs no transfer. Other video encoders get each frame as YUV, half as many bytes (`device_conversion`).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch


class Made(Protocol):
    """A fence in a device's queue: it passes when the device has finished all work queued before it. A CUDA event is one."""

    def query(self) -> bool:
        """Whether the fence has passed."""

    def synchronize(self) -> None:
        """Block until the fence has passed."""


class DeviceQueue:
    """The queue of a device. This base class serves any device for which we know no fences and no streams."""

    def record(self, device: torch.device) -> Made | None:
        """Put a fence behind the work queued on the current stream; None if the device has no fences."""
        return None

    @contextmanager
    def beside(self, device: torch.device, made: Made | None) -> Iterator[None]:
        """Do the work of a block behind the fence. Blocks at the end until it is complete. On a device that has streams the
        work goes to one beside the model's.
        """
        if made is not None:
            made.synchronize()
        yield

    def host_memory(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Memory of the host to which this device copies quickly."""
        import torch

        return torch.empty(shape, dtype=dtype)

    def fetch(self, tensor: torch.Tensor, made: Made | None) -> torch.Tensor:
        """Copy the tensor to the host's memory. Blocks until it is there: without a fence, until all queued work is done."""
        with self.beside(tensor.device, made):
            host = self.host_memory(tuple(tensor.shape), tensor.dtype)
            host.copy_(tensor, non_blocking=True)
        return host  # until here the tensor must live: the allocator of a device does not know the stream


class CudaQueue(DeviceQueue):
    """The queue of a CUDA device, or of ROCm, which torch calls CUDA too. Its owner works on one device.

    The stream beside the model's is one for the queue's life: torch's allocator keeps the memory of each stream apart, and
    would keep the temporary values of a conversion for each of 32 streams.
    """

    def __init__(self) -> None:
        self._stream: Any = None

    def record(self, device: torch.device) -> Made:
        """Record an event whose waiters sleep; waiters of a default event spin."""
        import torch

        cuda: Any = torch.cuda
        event = cuda.Event(blocking=True)
        event.record(cuda.current_stream(device))
        made: Made = event
        return made

    @contextmanager
    def beside(self, device: torch.device, made: Made | None) -> Iterator[None]:
        """As `DeviceQueue.beside`; only the end waits for the fence. It may run while the model captures a graph."""
        import torch

        cuda: Any = torch.cuda
        with _apart_from_captures():
            if self._stream is None:
                self._stream = cuda.Stream(device)
            stream = self._stream
            with cuda.stream(stream):
                stream.wait_event(made)
                yield
                complete = cuda.Event(blocking=True)
                complete.record(stream)
            complete.synchronize()

    def host_memory(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Pinned memory: a copy to other memory would wait for all work of the device."""
        import torch

        return torch.empty(shape, dtype=dtype, pin_memory=True)


#: of `cudaStreamCaptureMode`: what other threads capture forbids this thread nothing
_THREAD_LOCAL = 1


@contextmanager
def _apart_from_captures() -> Iterator[None]:
    """A block whose calls neither fail nor do harm while another thread captures a CUDA graph.

    In the mode that torch takes by default, a capture forbids all threads most calls, except to threads that say otherwise.
    """
    exchange, mode = capture_mode_exchange(), ctypes.c_int(_THREAD_LOCAL)
    if exchange is None:
        yield
        return
    exchange(ctypes.byref(mode))
    try:
        yield
    finally:
        exchange(ctypes.byref(mode))  # it has the mode from before


@cache
def capture_mode_exchange() -> Any:
    """CUDA's function that sets a thread's mode and returns the last one, which torch does not have; None without CUDA."""
    return getattr(ctypes.CDLL(None), "cudaThreadExchangeStreamCaptureMode", None)


def open_queue(device: torch.device) -> DeviceQueue:
    """Return the queue for a kind of device."""
    return CudaQueue() if device.type == "cuda" else DeviceQueue()


class _Transfer:
    """The runtime's own copy of a yielded tensor, and its single transfer to the host."""

    def __init__(self, tensor: torch.Tensor) -> None:
        import torch

        self._queue = open_queue(tensor.device)
        self.tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
        self.made = self._queue.record(tensor.device)
        self._host: npt.NDArray[Any] | None = None
        self._lock = threading.Lock()

    @property
    def fetched(self) -> bool:
        return self._host is not None

    def host(self) -> npt.NDArray[Any]:
        with self._lock:  # the first thread fetches, the others wait for it
            if self._host is None:
                host: npt.NDArray[Any] = self._queue.fetch(self.tensor, self.made).numpy()
                host.flags.writeable = False
                self._host = host
            return self._host


class DeviceFrames:
    """Frames or samples of one yield on a device, or a part of them. Any thread may use them.

    Attributes:
        tensor: the values on their device. Use them only after the fence, and do not change them.
    """

    def __init__(self, transfer: _Transfer, key: Any = ...) -> None:
        self._transfer = transfer
        self._key = key
        self.tensor = transfer.tensor[key]

    @classmethod
    def take(cls, tensor: torch.Tensor) -> DeviceFrames:
        """Take over a tensor in its present state, which may not have been computed yet. Does not wait for the device."""
        return cls(_Transfer(tensor))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, as of an array."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions, as of an array."""
        return int(self.tensor.ndim)

    @property
    def nbytes(self) -> int:
        """The size in bytes, as of an array."""
        return int(self.tensor.nbytes)

    def __getitem__(self, key: Any) -> DeviceFrames:
        """Select a part, which shares the transfer of the whole yield. A part cannot be divided again."""
        assert self._key is ...
        return DeviceFrames(self._transfer, key)

    @property
    def fetched(self) -> bool:
        """Whether the values are in the host's memory, too."""
        return self._transfer.fetched

    @property
    def made(self) -> Made | None:
        """The fence behind which the values are computed; None if the device has none, and then `host` waits."""
        return self._transfer.made

    def host(self) -> npt.NDArray[Any]:
        """The values as a read-only numpy array. Blocks, so call it on a worker thread. The first call fetches the whole
        yield.
        """
        whole = self._transfer.host()
        return whole if self._key is ... else np.asarray(whole[self._key])
