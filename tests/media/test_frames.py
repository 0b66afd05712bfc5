"""The values that a model may yield, and the chunks and bundles made from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from reactor_trio.errors import OutputError
from reactor_trio.interface import Audio, Output, Video
from reactor_trio.media import chunk_from_output, to_host
from reactor_trio.media.frames import black_chunk


class One(Output):
    picture: Video


class Two(Output):
    picture: Video
    depth: Video


class Sound(Output):
    picture: Video
    voice: Audio


class Maybe(Output):
    picture: Video
    voice: Audio | None = None


def pictures(*shape: int, value: int = 0) -> np.ndarray:
    return np.full((*shape, 3), value, np.uint8)


def test_a_frame_is_copied_once_unless_it_is_read_only() -> None:
    frame = pictures(4, 6)
    chunk = chunk_from_output(frame, (One,))
    frame[:] = 9
    assert not np.any(chunk.videos["picture"])
    frame.flags.writeable = False
    assert chunk_from_output(frame, (One,)).videos["picture"] is frame


def writable() -> np.ndarray:
    return pictures(2, 4, 6)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def over_buffer(buffer: object) -> np.ndarray:
    return read_only(np.frombuffer(buffer, np.uint8).reshape(4, 6, 3))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("make", "copied"),
    [
        (lambda: read_only(writable()[0]), True),
        (lambda: read_only(read_only(writable()[:1])[0]), True),
        (lambda: read_only(writable().view(np.recarray)[0]), True),
        (lambda: read_only(np.asarray(memoryview(writable()))), True),
        (lambda: over_buffer(bytearray(72)), True),
        (lambda: over_buffer(memoryview(bytearray(72)).toreadonly()), True),
        (lambda: read_only(np.from_dlpack(writable())), True),
        (lambda: read_only(writable())[0], False),
        (lambda: read_only(read_only(writable()).view(np.recarray)[0]), False),
        (lambda: over_buffer(bytes(72)), False),
        (lambda: over_buffer(memoryview(bytes(72))), False),
    ],
)
def test_a_read_only_view_is_copied_unless_its_owner_is_read_only_too(make: Any, copied: bool) -> None:
    frame = make()
    assert not frame.flags.writeable
    assert (chunk_from_output(frame, (One,)).videos["picture"] is not frame) is copied


def test_a_read_only_view_of_a_tensor_is_copied() -> None:
    tensor = torch.zeros((4, 6, 3), dtype=torch.uint8)
    chunk = chunk_from_output(read_only(tensor.numpy()), (One,))
    tensor.fill_(9)
    assert not np.any(chunk.videos["picture"])


def test_a_batch_is_split_in_order() -> None:
    batch = np.stack([pictures(4, 6, value=i) for i in range(3)])
    parts = list(chunk_from_output(One(picture=batch), (One,)).split())
    assert [int(tracks["picture"][0, 0, 0]) for tracks, _ in parts] == [0, 1, 2]
    assert [duration for _, duration in parts] == [None] * 3


def test_a_batch_of_one_frame_and_an_empty_batch() -> None:
    ((tracks, _),) = chunk_from_output(pictures(1, 4, 6), (One,)).split()
    assert tracks["picture"].shape == (4, 6, 3)
    assert chunk_from_output(pictures(0, 4, 6), (One,)).length == 0


def test_a_single_frame_beside_a_batch_is_in_each_bundle() -> None:
    chunk = chunk_from_output(Two(picture=pictures(3, 4, 6), depth=pictures(2, 2, value=5)), (Two,))
    assert [int(tracks["depth"][0, 0, 0]) for tracks, _ in chunk.split()] == [5, 5, 5]


def test_batches_of_different_length_are_refused_with_both_names() -> None:
    with pytest.raises(ValueError, match="picture has 3 and depth has 2"):
        chunk_from_output(Two(picture=pictures(3, 4, 6), depth=pictures(2, 4, 6)), (Two,))


def test_audio_is_split_as_evenly_as_possible_and_sets_the_duration() -> None:
    samples = np.arange(1000, dtype=np.int16)[None]
    parts = list(chunk_from_output(Sound(picture=pictures(3, 4, 6), voice=samples), (Sound,)).split())
    assert [tracks["voice"].shape[1] for tracks, _ in parts] == [334, 333, 333]
    assert np.array_equal(np.concatenate([tracks["voice"] for tracks, _ in parts], axis=1), samples)
    assert [duration for _, duration in parts] == [334 / 48_000, 333 / 48_000, 333 / 48_000]


def test_an_optional_track_may_be_left_out() -> None:
    ((tracks, duration),) = chunk_from_output(Maybe(picture=pictures(4, 6)), (Maybe,)).split()
    assert (list(tracks), duration) == (["picture"], None)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "a model yields an Output, a frame, Idle or None, not int"),
        ("x", "not str"),
        (One(picture=None), "track picture: expected uint8 .* got NoneType"),
        (One(picture=[[1]]), "track picture: .* got list"),
        (np.zeros((4, 6, 3), np.float32), r"track picture: .* got float32 \(4, 6, 3\); scale to 0..255 and cast"),
        (np.zeros((4, 6, 4), np.uint8), r"got uint8 \(4, 6, 4\)"),
        (np.zeros((4, 6), np.uint8), r"got uint8 \(4, 6\)"),
        (np.zeros((1, 2, 4, 6, 3), np.uint8), r"got uint8 \(1, 2, 4, 6, 3\)"),
        (np.zeros((0, 6, 3), np.uint8), r"got uint8 \(0, 6, 3\)"),
        (torch.zeros(4, 6, 3), r"got float32 \(4, 6, 3\)"),
        (Two(picture=None, depth=None), "Two is not an Output of this model"),
    ],
)
def test_a_value_that_does_not_fit_its_track_is_refused_by_name(value: object, message: str) -> None:
    with pytest.raises(OutputError, match=message):
        chunk_from_output(value, (One,))


@pytest.mark.parametrize("samples", [np.zeros((1, 10), np.float32), np.zeros(10, np.int16), np.zeros((2, 10), np.int16), 3])
def test_audio_that_does_not_fit_is_refused(samples: object) -> None:
    with pytest.raises(OutputError, match=r"track voice: expected int16 \(1, M\)"):
        chunk_from_output(Sound(picture=pictures(4, 6), voice=samples), (Sound,))


def test_a_bare_frame_for_two_tracks_is_ambiguous() -> None:
    with pytest.raises(TypeError, match="ambiguous: this model has picture, depth"):
        chunk_from_output(pictures(4, 6), (Two,))
    with pytest.raises(TypeError, match="ambiguous"):
        chunk_from_output(pictures(4, 6), (One, Two))


def test_a_tensor_is_copied_on_its_own_device() -> None:
    tensor = torch.full((2, 4, 6, 3), 7, dtype=torch.uint8)
    chunk = chunk_from_output(One(picture=tensor), (One,))
    tensor.zero_()
    parts = [to_host(tracks["picture"]) for tracks, _ in chunk.split()]
    assert [part.shape for part in parts] == [(4, 6, 3)] * 2
    assert all(np.all(part == 7) for part in parts)


def test_a_black_frame_has_the_last_size_or_720p() -> None:
    assert black_chunk(One.__reactor_tracks__, {"picture": (4, 6)}).videos["picture"].shape == (4, 6, 3)
    assert black_chunk(One.__reactor_tracks__, {}).videos["picture"].shape == (720, 1280, 3)
