"""Which arrays a step gives away: only those that nobody but the yielded value holds are passed on without a copy."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
import pytest

from reactor_trio.interface import ReactorPipeline
from reactor_trio.interface.tracks import Output, TrackPayload, Video
from reactor_trio.media import frames as media_frames
from reactor_trio.media.frames import chunk_from_output, keep_frames_in
from reactor_trio.testing import open_session


class Picture(Output):
    main: Video
    side: Video | None = None


class Single(Output):
    main: Video


def frames(*_: object) -> np.ndarray:
    return np.zeros((2, 4, 6, 3), np.uint8)


def passed_on(make: Any, track: str = "main") -> bool:
    """Whether the array of a track goes on without a copy, if a step gives what `make` returns."""
    value = make()
    address = (value if isinstance(value, np.ndarray) else data_of(value, track)).ctypes.data
    chunk = chunk_from_output(value, (Picture,) if isinstance(value, Picture) else (Single,), of_step=True)
    made = chunk.videos[track]
    assert isinstance(made, np.ndarray)
    assert not made.flags.writeable
    return made.ctypes.data == address


def data_of(value: Any, track: str) -> np.ndarray:
    data = getattr(value, track)
    return data.data if isinstance(data, TrackPayload) else data


class Held:
    """Keeps what it is given, as an author's variable does."""

    def __init__(self, *views: Any) -> None:
        self.views = views
        self.kept: list[Any] = []

    def __call__(self) -> Output:
        array = frames()
        self.kept = [view(array) for view in self.views]
        return Single(main=array)


@pytest.mark.parametrize("make", [frames, lambda: Single(main=frames()), lambda: Picture(main=frames(), side=frames())])
def test_an_array_without_another_reference_is_not_copied(make):
    assert passed_on(make)


def test_nor_is_that_of_a_second_track():
    assert passed_on(lambda: Picture(main=frames(), side=frames()), "side")


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array, lambda array: array[0], lambda array: array.reshape(-1), memoryview, weakref.ref,
        lambda array: array.ctypes, lambda array: np.from_dlpack(array),
        lambda array: (ctypes.c_uint8 * array.nbytes).from_buffer(array),
    ],
)  # fmt: skip
def test_an_array_that_something_else_reaches_is_copied(view):
    assert not passed_on(Held(view))


def test_an_array_that_a_tensor_shares_is_copied():
    import torch

    assert not passed_on(Held(torch.from_numpy))
    assert not passed_on(lambda: Single(main=torch.zeros((4, 6, 3), dtype=torch.uint8).numpy()))


@pytest.mark.parametrize(
    "make",
    [
        lambda: frames()[1:], lambda: np.asfortranarray(frames()),
        lambda: np.frombuffer(bytearray(72), np.uint8).reshape(4, 6, 3),
        lambda: frames().view(np.recarray), lambda: Single(main=frames()[1:]), lambda: Single(main=TrackPayload(frames())),
    ],
)  # fmt: skip
def test_an_array_that_does_not_own_its_memory_in_row_order_is_copied(make):
    assert not passed_on(make)


def test_an_array_of_two_tracks_and_an_output_that_the_author_keeps_are_copied():
    def twice() -> Picture:
        array = frames()
        return Picture(main=array, side=array)

    kept: list[Any] = []

    def keeps(value: Any) -> Any:
        kept.append(value)
        return value

    def known_weakly() -> Any:
        value = Single(main=frames())
        kept.append(weakref.ref(value))
        return value

    assert not passed_on(twice)
    assert not passed_on(lambda: keeps(Single(main=frames())))
    assert not passed_on(lambda: keeps(frames()))
    assert not passed_on(known_weakly)


def test_an_array_behind_a_property_is_copied():
    stays = frames()

    class Odd(Single):
        pass

    Odd.main = property(lambda _: stays, lambda _self, _value: None)  # type: ignore[assignment,method-assign]
    assert not passed_on(lambda: Odd(main=frames()))


def test_an_array_is_copied_where_another_process_reads_the_copy_and_where_no_step_made_it():
    def made_elsewhere(*args: Any) -> np.ndarray:
        return np.empty(*args)

    keep_frames_in(made_elsewhere)
    try:
        assert not passed_on(frames)
    finally:
        keep_frames_in(np.empty)
    value = frames()
    assert chunk_from_output(value, (Single,)).videos["main"] is not value


class Gives(ReactorPipeline):
    """Gives every other array away, and keeps the others until the next step."""

    output: Single

    def inference(self):
        while True:
            yield Single(main=frames())
            kept = frames()
            yield Single(main=kept)
            yield frames()
            kept = frames()
            yield kept


@pytest.mark.parametrize("thread", [False, True])
async def test_a_served_step_gives_an_array_away(monkeypatch, autojump_clock, thread):
    owned, copied = media_frames._owned, []

    def looked_at(data: Any) -> Any:
        copied.append(data.flags.writeable)
        return owned(data)

    monkeypatch.setattr(media_frames, "_owned", looked_at)
    async with open_session(Gives, thread=thread) as client:
        await client.take(16)
    assert copied[:8] == [False, True] * 4
