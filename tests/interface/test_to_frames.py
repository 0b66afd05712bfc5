"""`to_frames` equals the formula that Reactor's documentation writes by hand, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reactor_trio import to_frames
from reactor_trio.errors import OutputError
from reactor_trio.interface import tensors
from reactor_trio.media import chunk_from_output

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
RANGES = [(-1, 1), (0, 1)]


def by_hand(video: torch.Tensor, span: tuple[float, float]) -> torch.Tensor:
    """The documentation's code, for (1, C, T, H, W)."""
    frames = video.squeeze(0).permute(1, 2, 3, 0)
    if span == (-1, 1):
        return ((frames + 1.0) * 127.5).clamp(0, 255).to(torch.uint8)
    return (frames * 255.0).clamp(0, 255).to(torch.uint8)


def clip(dtype: torch.dtype, *, frames: int = 2, height: int = 5, width: int = 7) -> torch.Tensor:
    random = torch.Generator().manual_seed(3)
    return (torch.rand(1, 3, frames, height, width, generator=random, dtype=torch.float64) * 2.4 - 1.2).to(dtype)


def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the conversion for devices on the host."""
    monkeypatch.setattr(tensors, "_convert_on_host", tensors._convert_on_device)


@pytest.fixture(params=["host", "device"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "device":
        on_device(monkeypatch)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("span", RANGES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_16_bit_value_converts_as_the_formula_does(dtype: torch.dtype, span: tuple[float, float]) -> None:
    """The values include NaN and infinities."""
    values = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    video = values.view(1, 1, 1, 256, 256).expand(1, 3, 1, 256, 256)
    assert torch.equal(to_frames(video, range=span), by_hand(video, span))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("span", RANGES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_edges_between_two_levels(dtype: torch.dtype, span: tuple[float, float]) -> None:
    """Checks each level's exact value and its two neighbours."""
    low, high = span
    exact = (torch.arange(-3, 259, dtype=torch.float64) / 255 * (high - low) + low).to(dtype)
    far = torch.tensor(torch.inf, dtype=dtype)
    values = torch.stack((exact, torch.nextafter(exact, far), torch.nextafter(exact, -far)))
    video = values.expand(1, 3, 1, *values.shape)
    assert torch.equal(to_frames(video, range=span), by_hand(video, span))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_is_black_and_infinities_are_clamped(dtype: torch.dtype) -> None:
    """The row length is not a multiple of a processor's vector length."""
    pixel = torch.tensor([torch.nan, torch.inf, -torch.inf], dtype=dtype)
    frames = to_frames(pixel.view(3, 1, 1, 1).expand(3, 1, 3, 67), range=(-1, 1), layout="CTHW")
    assert (frames == torch.tensor([0, 255, 0], dtype=torch.uint8)).all()


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("dtype", [*DTYPES, torch.uint8])
@pytest.mark.parametrize("layout", tensors.LAYOUTS)
def test_each_layout_gives_the_same_frames(layout: str, dtype: torch.dtype) -> None:
    video, span = clip(dtype), (-1, 1)
    want = by_hand(video, span)
    if dtype == torch.uint8:
        video = torch.arange(210, dtype=torch.uint8).view(1, 3, 2, 5, 7)
        want, span = video[0].permute(1, 2, 3, 0), (0, 255)
    if "T" not in layout:
        want = want[:1]
    order = "BCTHW"[5 - len(layout) :] if "T" in layout else "CHW"
    named = (video if len(layout) == 5 else video[0] if "T" in layout else video[0, :, 0]).permute(
        [order.index(axis) for axis in layout]
    )
    for given in (named, named.contiguous()):
        frames = to_frames(given, range=span)
        assert torch.equal(frames, want)
        assert frames.is_contiguous()
        assert frames.untyped_storage().data_ptr() != given.untyped_storage().data_ptr()


def test_the_thread_count_of_torch_is_restored() -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        to_frames(clip(torch.float32), range=(0, 1))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_the_tensor_is_not_changed() -> None:
    video = clip(torch.float32)
    before = video.clone()
    to_frames(video, range=(-1, 1))
    assert torch.equal(video, before)


@pytest.mark.usefixtures("place")
def test_a_tensor_with_gradients_or_of_inference_mode() -> None:
    video = clip(torch.float32).requires_grad_()
    frames = to_frames(video * 1, range=(-1, 1))
    assert torch.equal(frames, by_hand(video.detach(), (-1, 1)))
    with torch.inference_mode():
        assert torch.equal(to_frames(clip(torch.float32), range=(-1, 1)), frames)
        made_in_it = clip(torch.float32)
    assert torch.equal(to_frames(made_in_it, range=(-1, 1)), frames)


@pytest.mark.usefixtures("place")
def test_any_range_may_be_black_and_white() -> None:
    assert to_frames(torch.tensor([-2.0, 0.0, 2.0]).view(3, 1, 1), range=(-2, 2)).flatten().tolist() == [0, 127, 255]
    assert to_frames(torch.tensor([3.9, 255.0, 300.0]).view(3, 1, 1), range=(0, 255)).flatten().tolist() == [3, 255, 255]


def test_a_clip_without_frames_gives_a_batch_without_frames() -> None:
    assert to_frames(torch.zeros(1, 3, 0, 4, 6), range=(0, 1)).shape == (0, 4, 6, 3)


def test_a_model_can_yield_the_result() -> None:
    from reactor_trio import Output, Video

    class Picture(Output):
        main_video: Video

    chunk = chunk_from_output(Picture(main_video=to_frames(clip(torch.float16), range=(-1, 1))), (Picture,))
    assert (chunk.length, chunk.videos["main_video"].shape) == (2, (2, 5, 7, 3))


def test_an_ambiguous_shape_needs_a_layout() -> None:
    video = torch.rand(1, 3, 3, 4, 6)
    with pytest.raises(OutputError, match=r"float32 \(1, 3, 3, 4, 6\) may be BCTHW or BTCHW; say which with layout="):
        to_frames(video, range=(0, 1))
    assert torch.equal(to_frames(video, range=(0, 1), layout="BCTHW"), by_hand(video, (0, 1)))
    assert torch.equal(to_frames(video, range=(0, 1), layout="BTCHW"), by_hand(video.transpose(1, 2), (0, 1)))


@pytest.mark.parametrize(
    ("tensor", "options", "message"),
    [
        (np.zeros((3, 4, 6), np.float32), {"range": (0, 1)}, r"expected a torch tensor, got ndarray float32 \(3, 4, 6\)"),
        (None, {"range": (0, 1)}, "expected a torch tensor, got NoneType"),
        (torch.zeros(2, 3, 2, 4, 6), {"range": (0, 1)}, r"one clip with 3 channels, .* got float32 \(2, 3, 2, 4, 6\)"),
        (torch.zeros(1, 4, 4, 6), {"range": (0, 1)}, r"got float32 \(1, 4, 4, 6\)"),
        (torch.zeros(4, 6), {"range": (0, 1)}, r"got float32 \(4, 6\)"),
        (torch.zeros(3, 4, 6, dtype=torch.int64), {"range": (0, 1)}, r"or uint8, got int64 \(3, 4, 6\)"),
        (torch.zeros(3, 4, 6, dtype=torch.complex64), {"range": (0, 1)}, "got complex64"),
        (torch.zeros(3, 4, 6, dtype=torch.uint8), {"range": (0, 1)}, r"a uint8 tensor has range=\(0, 255\), not \(0, 1\)"),
        (torch.zeros(3, 4, 6), {"range": "auto"}, r"such as \(-1, 1\) or \(0, 1\), not 'auto'"),
        (torch.zeros(3, 4, 6), {"range": "01"}, "not '01'"),
        (torch.zeros(3, 4, 6), {"range": (1, -1)}, r"not \(1, -1\)"),
        (torch.zeros(3, 4, 6), {"range": (0, float("nan"))}, r"not \(0, nan\)"),
        (torch.zeros(3, 4, 6), {"range": (0, 1, 2)}, r"not \(0, 1, 2\)"),
        (torch.zeros(3, 4, 6), {"range": 1}, "not 1"),
        (torch.zeros(3, 4, 6), {"range": (0, 1), "layout": "CHWT"}, "layout is one of BCTHW, .* not 'CHWT'"),
        (torch.zeros(3, 4, 6), {"range": (0, 1), "layout": "HWC"}, r"layout='HWC' means 3 axes, C = 3 and B = 1; got"),
        (torch.zeros(3, 4, 6), {"range": (0, 1), "layout": "TCHW"}, r"layout='TCHW' means 4 axes"),
    ],
)
def test_the_error_describes_the_wrong_tensor(tensor: object, options: dict[str, object], message: str) -> None:
    with pytest.raises(OutputError, match=message):
        to_frames(tensor, **options)


def test_the_range_is_not_guessed() -> None:
    with pytest.raises(TypeError, match="range"):
        to_frames(torch.zeros(3, 4, 6))
