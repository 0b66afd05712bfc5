"""Frames on a device are converted to YUV there: colours, what crosses to the host, and what happens if the device cannot.

The device is the host's memory. That the work overlaps the model's next step only a card can show (`scripts/gpu`).
"""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from tests.support.codec_clips import Decoder, colour_bars, grainy, opened, psnr
from tests.support.stand_in_cuda import stand_in_cuda
from torch.utils._python_dispatch import TorchDispatchMode

from reactor_trio.media import stream_encoder
from reactor_trio.media.conversion import Converter
from reactor_trio.media.device_conversion import DeviceConverter
from reactor_trio.media.device_frames import DeviceFrames
from reactor_trio.pacing import Quality

CPU = torch.device("cpu")
TARGET = Quality(2_000_000, 30)


def on_device(picture: np.ndarray) -> DeviceFrames:
    return DeviceFrames.take(torch.from_numpy(picture.copy()))


def planes(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Y, U and V of I420."""
    height, width = samples.shape[0] * 2 // 3, samples.shape[1]
    u, v = samples[height:].reshape(2, height // 2, width // 2)
    return samples[:height], u, v


def by_definition(picture: np.ndarray) -> list[np.ndarray]:
    """Y, U and V by the formulas of ITU-R BT.601, in float64, not rounded; chroma of the mean of four pixels."""
    red, green, blue = np.moveaxis(picture.astype(float) / 255, 2, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    mean = lambda plane: plane.reshape(plane.shape[0] // 2, 2, plane.shape[1] // 2, 2).mean((1, 3))
    return [16 + 219 * luma, 128 + mean(224 * (blue - luma) / 1.772), 128 + mean(224 * (red - luma) / 1.402)]


def gradient(width: int, height: int) -> np.ndarray:
    down, across = np.mgrid[0:height, 0:width]
    return np.stack([down * 255 // height, across * 255 // width, (down + across) % 256], 2).astype(np.uint8)


PICTURES = {"bars": colour_bars(96, 64), "gradient": gradient(96, 64), "grain": next(grainy(96, 64))}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_every_sample_is_the_nearest_to_its_definition(picture: np.ndarray) -> None:
    samples = DeviceConverter((96, 64), (96, 64), CPU, "i420").fetch(on_device(picture))
    for got, want in zip(planes(samples), by_definition(picture), strict=True):
        assert np.abs(got - want).max() <= 0.51


def test_no_matrix_product_is_computed() -> None:
    """cuBLAS keeps memory of the card for each thread and stream that calls it: gigabytes with a few encoders."""
    names = []

    class Recorded(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            names.append(operation.overloadpacket.__name__)
            return operation(*args, **(kwargs or {}))

    with Recorded():
        DeviceConverter((96, 64), (96, 64), CPU, "nv12").convert(on_device(PICTURES["bars"]))
    assert "avg_pool2d" in names
    assert not {"mm", "bmm", "mv", "addmm", "baddbmm", "addmv", "dot"} & {*names}


def test_the_two_layouts_have_the_same_samples() -> None:
    picture = next(grainy(96, 64))
    _, u, v = planes(DeviceConverter((96, 64), (96, 64), CPU, "i420").fetch(on_device(picture)))
    nv12 = DeviceConverter((96, 64), (96, 64), CPU, "nv12").convert(on_device(picture)).numpy()
    assert np.array_equal(nv12[64:].reshape(32, 48, 2), np.stack([u, v], 2))


@pytest.mark.parametrize(
    ("size", "coded", "apart", "alike"),
    [
        ((64, 48), (64, 48), 1, 0.75), ((63, 47), (64, 48), 1, 0.75), ((32, 24), (32, 24), 1, 0.75),
        ((30, 21), (30, 22), 2, 0.5),
    ],
)
def test_colours_are_those_of_the_conversion_on_the_host(
    size: tuple[int, int], coded: tuple[int, int], apart: int, alike: float
) -> None:
    """Both scale and pad. Where four pixels are alike, it does not matter from which of them the chroma is taken. Scaled by
    a fraction, pixels at an edge get other weights.
    """
    picture = colour_bars(64, 48) if size[0] < 40 else colour_bars(*size)
    if apart == 1:  # scaled by a fraction, the two halves would mix
        picture[: picture.shape[0] // 2] //= 3
    got = planes(DeviceConverter(size, coded, CPU, "i420").fetch(on_device(picture)))
    want = planes(Converter(size, coded).convert(picture).to_ndarray())
    assert np.abs(got[0].astype(int) - want[0]).max() <= apart
    for one, other in zip(got[1:], want[1:], strict=True):
        assert (np.abs(one.astype(int) - other) <= 1).mean() > alike


@pytest.fixture
def crossed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each transfer to the host has."""
    sizes: list[int] = []
    fetch, host = DeviceConverter.fetch, DeviceFrames.host
    counted = lambda array: (sizes.append(array.nbytes), array)[1]
    monkeypatch.setattr(DeviceConverter, "fetch", lambda self, frame: counted(fetch(self, frame)))
    monkeypatch.setattr(DeviceFrames, "host", lambda self: counted(host(self)))
    return sizes


@pytest.mark.parametrize("codec", ["h264", "vp8", "vp9", "av1"])
def test_half_of_a_frame_crosses_to_the_host(codec: str, crossed: list[int]) -> None:
    encoder, decoder, bars = opened(codec, TARGET), Decoder(codec), colour_bars(320, 240)
    packets = [encoder.encode(on_device(bars)) for _ in range(3)]
    backs = [decoder.rgb(packet) for packet in packets]
    assert psnr(backs[-1][:, 20:-20], bars[:, 20:-20]) > 28
    assert crossed == [320 * 240 * 3 // 2] * 3
    encoder.close()


def test_a_smaller_picture_is_scaled_before_it_crosses(crossed: list[int]) -> None:
    encoder, decoder, bars = opened("h264", Quality(2_000_000, 30, 0.5)), Decoder("h264"), colour_bars(320, 242)
    packet = encoder.encode(on_device(bars))
    assert packet.size == (160, 120)
    assert decoder.rgb(packet).shape == (120, 160, 3)
    assert crossed == [160 * 120 * 3 // 2]
    encoder.configure(TARGET)
    assert encoder.encode(on_device(bars)).size == (320, 242)


def test_a_frame_that_was_fetched_for_somebody_else_is_converted_on_the_host(crossed: list[int]) -> None:
    encoder, frame = opened("h264", TARGET), on_device(colour_bars(320, 240))
    frame.host()
    crossed.clear()
    encoder.encode(frame)
    assert crossed == [320 * 240 * 3]  # the host's copy; no other transfer


def test_if_the_device_fails_the_host_converts_from_then_on_and_one_warning_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = []

    def fail(self: DeviceConverter, frame: DeviceFrames) -> np.ndarray:
        tried.append(frame)
        raise RuntimeError("CUDA error: no kernel image is available")

    monkeypatch.setattr(DeviceConverter, "fetch", fail)
    encoder, decoder, bars = opened("h264", TARGET), Decoder("h264"), colour_bars(320, 240)
    with caplog.at_level(logging.WARNING, stream_encoder.log.name):
        packets = [encoder.encode(on_device(bars)) for _ in range(3)]
    backs = [decoder.rgb(packet) for packet in packets]
    assert psnr(backs[-1][:, 20:-20], bars[:, 20:-20]) > 28
    assert len(tried) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "a device cannot convert frames to YUV, the host does: RuntimeError: CUDA error: no kernel image is available"
    ]


def test_on_cuda_conversion_and_copy_follow_the_fence_on_a_stream_beside_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in_cuda(monkeypatch)
    compute = DeviceConverter._compute
    monkeypatch.setattr(DeviceConverter, "_compute", lambda self, frame: (calls.append("convert"), compute(self, frame)))
    picture = colour_bars(64, 48)
    frame = DeviceFrames.take(torch.from_numpy(picture))
    assert calls == ["record event0 on the model's"]
    calls.clear()
    converter = DeviceConverter((64, 48), (64, 48), CPU, "i420")
    first = converter.fetch(frame).copy()
    work = ["enter side", "side waits for event0", "convert"]
    ended = ["record event1 on side", "leave side", "wait for event1"]
    assert calls == ["open side", *work[:2], "pinned memory", "convert", *ended]
    calls.clear()
    assert np.array_equal(converter.fetch(frame), first)
    assert calls == [*work, "record event2 on side", "leave side", "wait for event2"], "the same memory and stream again"
