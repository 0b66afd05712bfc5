"""`InputQueue` between two loops that run when the test says so."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np
import pytest
from tests.support.models import Main

from reactor_trio.errors import BufferClosed
from reactor_trio.execution.input_queue import InputQueue
from reactor_trio.interface import Input, InputBuffer, InputFrame, ReactorModel, ReactorPipeline, ReadMode, Video
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.telemetry import Telemetry


class Webcam(Input):
    camera: Video


class Pipeline(ReactorPipeline):
    output: Main
    input: Webcam


class Loop(ReactorModel):
    output: Main
    input: Webcam


class Host:
    """What is posted waits for `turn`."""

    def __init__(self) -> None:
        self.posts: deque = deque()

    def post(self, function, *args):
        self.posts.append((function, args))

    def post_io(self, function, *args):
        function(*args)

    def turn(self):
        while self.posts:
            function, args = self.posts.popleft()
            function(*args)


class Setting(Telemetry):
    def __init__(self, model=Pipeline, **options) -> None:
        self.host, self.drops, self.heard = Host(), Counter(), 0
        self.flow = InputQueue(
            self.host, declaration_of(model), self, lambda _frame: None, self._hear, lambda: None, **options
        )
        self.buffer: InputBuffer = self.flow.inputs["input"].camera

    def dropped(self, place, reason, frames):
        assert place == "input"
        self.drops[reason] += frames

    def _hear(self):
        self.heard += 1

    def put(self, session, *values):
        for value in values:
            self.flow.put(session, "camera", InputFrame(np.full((1, 1, 3), value, np.uint8), 0.0))

    def read(self):
        frames = self.buffer.try_read(max(1, self.buffer.available), ReadMode.FIFO)
        return [int(frame.data[0, 0, 0]) for frame in frames or ()]


def test_the_attribute_holds_the_authors_class_with_buffers():
    assert isinstance(Setting().flow.inputs["input"], Webcam)


def test_many_frames_are_one_post():
    setting = Setting()
    session = setting.flow.begin()
    setting.host.turn()
    setting.put(session, 1, 2, 3)
    assert len(setting.host.posts) == 1
    setting.host.turn()
    assert setting.heard == 1
    assert setting.read() == [1, 2, 3]
    setting.put(session, 4)
    setting.host.turn()
    assert setting.heard == 2


def test_a_look_does_not_wait_for_the_word():
    setting = Setting()
    session = setting.flow.begin()
    setting.host.turn()
    setting.put(session, 1)
    assert setting.read() == [1]  # the model's loop has not had its turn
    setting.put(session, 2)
    setting.host.turn()
    assert setting.read() == [2]


@pytest.mark.parametrize("model", [Pipeline, Loop])
def test_frames_that_come_before_the_model_knows_the_session_are_kept(model):
    setting = Setting(model)
    session = setting.flow.begin()
    setting.put(session, 1)
    assert setting.buffer.available == 0  # a look before the session is open takes nothing, and loses nothing
    setting.host.turn()
    assert setting.read() == [1]
    assert not setting.drops


def test_input_frames_of_a_past_session_are_not_read_by_the_next():
    setting = Setting(Loop)
    first = setting.flow.begin()
    setting.host.turn()
    setting.put(first, 1)
    setting.host.turn()
    setting.put(first, 2)
    setting.flow.close()
    setting.put(first, 3)
    second = setting.flow.begin()
    setting.put(first, 4)
    setting.put(second, 5)
    setting.host.turn()
    setting.put(first, 6)
    assert setting.read() == [5]
    assert setting.drops == {"unread": 5}


def test_a_model_that_computes_for_a_minute_costs_no_more_memory():
    setting = Setting()
    session = setting.flow.begin()
    setting.host.turn()
    setting.put(session, *range(200))
    assert setting.drops == {"evicted": 72}
    assert setting.read() == list(range(72, 200))
    setting = Setting(most_bytes=18)  # six pictures, three in each of the two places
    session = setting.flow.begin()
    setting.host.turn()
    setting.put(session, *range(5))
    assert setting.drops == {"evicted": 2}
    assert setting.read() == [2, 3, 4]


def test_waiting_input_of_a_track_is_bounded_in_bytes_in_each_queue():
    """By default 512 MiB: what the model has looked at and not read, and what has come since."""
    setting = Setting()
    session = setting.flow.begin()
    setting.host.turn()
    full_hd = InputFrame(np.broadcast_to(np.uint8(0), (1080, 1920, 3)), 0.0)  # takes no memory, and counts all the same
    for _ in range(200):
        setting.flow.put(session, "camera", full_hd)
    assert setting.buffer.available > 1  # the model has looked: these lie in its buffer now
    for _ in range(200):
        setting.flow.put(session, "camera", full_hd)
    assert (400 - setting.drops["evicted"]) * full_hd.data.nbytes <= 512 * 2**20


def test_a_frame_larger_than_the_bound_waits_alone_and_a_newer_one_takes_its_place():
    setting = Setting(most_bytes=4)  # two bytes in each of the two places, and a frame has three
    session = setting.flow.begin()
    setting.host.turn()
    setting.put(session, 1)
    assert setting.read() == [1]
    setting.put(session, 2, 3)
    assert setting.drops == {"evicted": 1}
    assert setting.read() == [3]


async def test_a_pipelines_buffers_are_closed_until_a_client_comes(autojump_clock):
    setting = Setting()
    with pytest.raises(BufferClosed):
        await setting.buffer.read()
    setting.flow.begin()
    setting.host.turn()
    assert not setting.buffer.closed
