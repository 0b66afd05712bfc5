"""Frames on a device: a stand-in that computes on command, and a record of the calls to CUDA's names.

Both use the host's memory. They cannot show what CUDA itself does: that a copy really overlaps the model's work.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
import trio
import trio.testing
from tests.support.stand_in_cuda import stand_in_cuda

from reactor_trio.execution.fences import wait_for_fences
from reactor_trio.interface import Audio, Output, ReactorModel, ReactorPipeline, Video, VideoModel, get_ctx
from reactor_trio.media import chunk_from_output, frames, to_host
from reactor_trio.media import device_frames as devices
from reactor_trio.media.device_frames import CudaQueue, DeviceFrames, DeviceQueue, open_queue
from reactor_trio.testing import hold_clock, open_session


class Picture(Output):
    picture: Video


class Sound(Output):
    picture: Video
    voice: Audio


class Moment:
    """A fence of the stand-in."""

    def __init__(self) -> None:
        self.passed = threading.Event()
        self.waiting = threading.Event()

    def query(self) -> bool:
        return self.passed.is_set()

    def synchronize(self) -> None:
        self.waiting.set()
        assert self.passed.wait(120)


class LateQueue(DeviceQueue):
    """A device that lags: its copies are done, the test makes its fences pass, and its transfers are counted."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.fetched = 0
        self.late = True
        self.begun = threading.Event()

    def record(self, device: torch.device) -> Moment:
        self.moments.append(Moment())
        if not self.late:
            self.moments[-1].passed.set()
        self.begun.set()
        return self.moments[-1]

    def fetch(self, tensor: torch.Tensor, made: Moment | None) -> torch.Tensor:
        assert made is not None
        made.synchronize()
        self.fetched += 1
        return tensor.clone()


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> LateQueue:
    """Treat all tensors as lying on the stand-in."""
    stand_in = LateQueue()
    owned = frames._owned
    monkeypatch.setattr(devices, "open_queue", lambda device: stand_in)
    take = lambda data: owned(data) if isinstance(data, np.ndarray) else DeviceFrames.take(data)
    monkeypatch.setattr(frames, "_owned", take)
    return stand_in


def ramp(*shape: int) -> torch.Tensor:
    return torch.arange(int(np.prod(shape)), dtype=torch.uint8).view(*shape)


def test_a_tensor_in_the_hosts_memory_becomes_an_array() -> None:
    tensor = ramp(2, 3, 4, 3)
    want = tensor.numpy().copy()
    taken = chunk_from_output(tensor.transpose(1, 2), (Picture,)).videos["picture"]
    tensor.zero_()
    assert isinstance(taken, np.ndarray)
    assert taken.flags.c_contiguous
    assert not taken.flags.writeable
    assert np.array_equal(taken, want.transpose(0, 2, 1, 3))


def test_samples_in_the_hosts_memory_become_an_array() -> None:
    samples = torch.arange(10, dtype=torch.int16)[None]
    chunk = chunk_from_output(Sound(picture=ramp(2, 3, 4, 3), voice=samples), (Sound,))
    samples.zero_()
    parts = [to_host(tracks["voice"]) for tracks, _ in chunk.split()]
    assert np.array_equal(np.concatenate(parts, axis=1), np.arange(10, dtype=np.int16)[None])


def test_a_tensor_on_a_device_may_be_overwritten_at_once_and_is_fetched_once(queue: LateQueue) -> None:
    tensor = ramp(3, 2, 4, 3)
    want = tensor.numpy().copy()
    chunk = chunk_from_output(tensor, (Picture,))
    tensor.zero_()
    parts = [tracks["picture"] for tracks, _ in chunk.split()]
    assert [part.shape for part in parts] == [(2, 4, 3)] * 3
    assert queue.fetched == 0  # nothing waited: the fence has not passed
    assert chunk.pending_fences == queue.moments
    queue.moments[0].passed.set()
    assert chunk.pending_fences == []
    for part, expected in zip(parts * 2, [*want, *want], strict=True):
        array = to_host(part)
        assert np.array_equal(array, expected)
        assert not array.flags.writeable
    assert queue.fetched == 1


def test_viewers_at_the_same_time_share_the_transfer(queue: LateQueue) -> None:
    (part,) = (tracks["picture"] for tracks, _ in chunk_from_output(ramp(2, 4, 3), (Picture,)).split())
    arrays: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: arrays.append(to_host(part))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert queue.moments[0].waiting.wait(120)
    assert arrays == []
    queue.moments[0].passed.set()
    for thread in threads:
        thread.join(10)
    assert (len(arrays), queue.fetched) == (4, 1)


def test_an_encoder_on_the_device_gets_the_frame_there(queue: LateQueue) -> None:
    """The encoder gets a copy and not the author's tensor."""
    tensor = ramp(2, 2, 4, 3)
    parts = [tracks["picture"] for tracks, _ in chunk_from_output(tensor, (Picture,)).split()]
    assert isinstance(parts[1], DeviceFrames)
    assert parts[1].made is queue.moments[0]
    assert torch.equal(parts[1].tensor, tensor[1])
    assert parts[1].tensor.data_ptr() != tensor[1].data_ptr()
    assert queue.fetched == 0


def test_samples_on_a_device_are_split_there(queue: LateQueue) -> None:
    output = Sound(picture=np.zeros((3, 2, 4, 3), np.uint8), voice=torch.arange(10, dtype=torch.int16)[None])
    parts = [tracks["voice"] for tracks, _ in chunk_from_output(output, (Sound,)).split()]
    queue.moments[0].passed.set()
    assert [to_host(part).tolist() for part in parts] == [[[0, 1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]]]
    assert queue.fetched == 1


def test_a_refused_tensor_is_not_copied(queue: LateQueue) -> None:
    with pytest.raises(TypeError, match=r"got bfloat16 \(2, 4, 3\); to_frames converts it"):
        chunk_from_output(torch.zeros(2, 4, 3, dtype=torch.bfloat16), (Picture,))
    assert queue.moments == []


async def test_the_wait_for_a_device_leaves_the_loop_free(queue: LateQueue) -> None:
    chunk = chunk_from_output(ramp(2, 4, 3), (Picture,))
    waited: list[float] = []

    async def wait() -> None:
        waited.append(await wait_for_fences(chunk))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.to_thread.run_sync(queue.moments[0].waiting.wait, 10)
        assert waited == []
        queue.moments[0].passed.set()
    assert waited[0] > 0
    assert await wait_for_fences(chunk) == 0


class OnDevice(ReactorPipeline):
    buffer = None

    def inference(self):
        self.buffer = torch.zeros(2, 4, 3, dtype=torch.uint8)
        for i in range(1, 100):
            self.buffer.fill_(i)  # overwrites the previously yielded frame in place
            yield Picture(picture=self.buffer)


class LoopOnDevice(ReactorModel):
    async def run(self):
        buffer = torch.zeros(2, 4, 3, dtype=torch.uint8)
        for i in range(1, 100):
            await self.connected.wait()
            buffer.fill_(i)
            await self.emit(Picture(picture=buffer), compute_time=0.1)


class BlocksOnDevice(VideoModel):
    def start_session(self):
        buffer, i = torch.zeros(1, 2, 4, 3, dtype=torch.uint8), 0
        while not get_ctx().should_stop():
            i += 1
            buffer.fill_(i)
            get_ctx().emit_block(buffer)


@pytest.mark.parametrize("video", ["raw", "jpeg"])
@pytest.mark.parametrize("model", [OnDevice, LoopOnDevice, BlocksOnDevice])
async def test_frames_on_a_device_arrive_in_order(autojump_clock, queue, model, video) -> None:
    queue.late = False
    async with open_session(model, video=[video], step_cost=0.1) as client:
        taken = await client.take(5)
    assert [int(frame.data.mean()) for frame in taken] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("model", [OnDevice, BlocksOnDevice])
async def test_a_step_lasts_until_the_device_has_finished_it(autojump_clock, queue: LateQueue, model) -> None:
    """The second step does not begin while the device computes the first, although the thread is free."""
    async with open_session(model) as client:
        async with hold_clock():
            await trio.to_thread.run_sync(queue.begun.wait, 10)
            await trio.to_thread.run_sync(queue.moments[0].waiting.wait, 10)
            await trio.testing.wait_all_tasks_blocked()
            assert len(queue.moments) == 1
            queue.late = False
            queue.moments[0].passed.set()
            assert int((await client.take(1))[0].data.mean()) == 1


def test_a_device_without_known_events_is_copied_by_torch_itself() -> None:
    assert type(open_queue(torch.device("mps"))) is DeviceQueue
    taken = DeviceFrames.take(ramp(2, 4, 3))
    assert taken.made is None
    assert np.array_equal(taken.host(), ramp(2, 4, 3).numpy())


def test_cuda_is_called_in_this_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_queue(torch.device("cuda", 1)), CudaQueue)
    calls = stand_in_cuda(monkeypatch)
    taken = DeviceFrames.take(ramp(2, 4, 3))
    assert calls == ["record event0 on the model's"]
    assert np.array_equal(taken.host(), ramp(2, 4, 3).numpy())
    assert calls[1:] == [
        "open side", "enter side", "side waits for event0", "pinned memory", "record event1 on side", "leave side",
        "wait for event1",
    ]  # fmt: skip
    calls.clear()
    taken[0].host()
    assert calls == []


def test_a_transfer_allows_for_a_graph_that_the_model_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread's mode of capture is "thread local" (1) meanwhile, and then what it was."""
    calls, modes = stand_in_cuda(monkeypatch), [0]

    def exchange(mode: Any) -> None:
        modes.append(mode._obj.value)
        mode._obj.value = modes[-2]
        calls.append(f"mode {modes[-1]}")

    monkeypatch.setattr(devices, "capture_mode_exchange", lambda: exchange)
    DeviceFrames.take(ramp(2, 4, 3)).host()
    assert calls[1] == "mode 1"
    assert calls[-2:] == ["wait for event1", "mode 0"]
