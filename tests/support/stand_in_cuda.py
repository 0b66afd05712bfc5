"""`torch.cuda` where there is none: a record of the calls and of their streams. The work itself happens on the host."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from reactor_trio.media import device_conversion, device_frames
from reactor_trio.media.device_frames import CudaQueue


def stand_in_cuda(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let every device be a CUDA one for the runtime, and return the list that the calls are written to.

    The stream beside the model's is called `side`, events have numbers in the order in which they were made.
    """
    calls: list[str] = []
    numbers = itertools.count()

    class Event:
        def __init__(self, *, blocking: bool) -> None:
            assert blocking
            self.number = next(numbers)

        def record(self, stream: object) -> None:
            calls.append(f"record event{self.number} on {stream}")

        def synchronize(self) -> None:
            calls.append(f"wait for event{self.number}")

    class Stream:
        def __init__(self, device: torch.device) -> None:
            calls.append(f"open {self}")

        def __str__(self) -> str:
            return "side"

        def wait_event(self, event: Event) -> None:
            calls.append(f"side waits for event{event.number}")

    @contextlib.contextmanager
    def entered(stream: Stream) -> Iterator[None]:
        calls.append(f"enter {stream}")
        yield
        calls.append(f"leave {stream}")

    empty = torch.empty

    def allocated(*args: Any, pin_memory: bool = False, **options: Any) -> torch.Tensor:
        calls.extend(["pinned memory"] * pin_memory)
        return empty(*args, **options)

    for module in (device_conversion, device_frames):
        monkeypatch.setattr(module, "open_queue", lambda device: CudaQueue())
    cuda = SimpleNamespace(Event=Event, Stream=Stream, stream=entered, current_stream=lambda device: "the model's")
    monkeypatch.setattr(torch, "cuda", cuda)
    monkeypatch.setattr(torch, "empty", allocated)
    return calls
