"""Memory of a card is free when a session is over, with the collector off: frames on a device, and a state's own tensors.

A stand-in for the device counts its tensors; they lie in the host's memory.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reactor_trio.interface import InputState, ReactorPipeline
from reactor_trio.media import device_frames, frames
from reactor_trio.media.device_frames import DeviceFrames, DeviceQueue
from tests.leftovers.held import BIG
from tests.leftovers.kinds import BREAKS, SHAPE
from tests.leftovers.matrix import LIMITS, SETTINGS, Cell, Visits, leaves, too_slow, window_passes
from tests.leftovers.visitor import Visitor
from tests.support.models import Picture


class Latent(InputState):
    level: int = 0


class OnCard(ReactorPipeline):
    """Keeps a tensor in its state and one in its generator."""

    state: Latent
    output: Picture
    fps = 20

    def inference(self):
        self.state.latent = torch.zeros(SHAPE, dtype=torch.uint8)
        own = torch.ones(SHAPE, dtype=torch.uint8)
        BIG.watch("tensor of the state", self.state.latent)
        BIG.watch("tensor of the generator", own)
        while True:
            if self.state.level == BREAKS:
                raise ValueError("the model raises")
            yield (self.state.latent + own)[None].expand(2, *SHAPE)


async def raises(visits: Visits) -> None:
    visitor = await Visitor(visits.server).open("/ws?video=jpeg")
    await visitor.pictures(3)
    await visitor.say("set_level", level=BREAKS)
    assert await visitor.until_over() == "model_error"


async def watches(visits: Visits) -> None:
    visitor = await Visitor(visits.server).open("/ws?video=jpeg")
    await visitor.pictures(5)
    await visitor.leave()


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat all tensors as lying on a device, and count those that the runtime takes."""
    owned, take = frames._owned, DeviceFrames.take

    def taken(data):
        if isinstance(data, np.ndarray):
            return owned(data)
        frame = take(data)
        BIG.watch("frame on the device", frame._transfer.tensor)
        return frame

    monkeypatch.setattr(device_frames, "open_queue", lambda _device: DeviceQueue())
    monkeypatch.setattr(frames, "_owned", taken)


@pytest.mark.parametrize(
    ("visit", "ending"),
    [(watches, ""), (raises, ""), (leaves, ""), (too_slow, "too slow"), (window_passes, "resume window passes")],
    ids=["client leaves", "model raises", "values are set", "too slow", "resume window passes"],
)
async def test_no_tensor_is_left(autojump_clock, monkeypatch, tmp_path, caplog, card, visit, ending):
    caplog.set_level("CRITICAL", "reactor_trio")  # pytest's records of the exception would keep the variables of author code
    settings = SETTINGS.get(ending, {}) | {"limits": {"ping_interval": 2.0} | LIMITS.get(ending, {})}
    left = await Cell(OnCard, visit, settings, 4, 3, visit).run(monkeypatch, tmp_path)
    assert not left.lines, left
    assert not +BIG.alive
