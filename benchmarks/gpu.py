"""What only a card can show, for a machine that has one: conversion, overlap, steps, encoders, memory, processes, ranks.

`scripts/gpu` runs it. Each part stands for itself: what fails is a line of the table with its reason, and the others go on.
With `--device cpu` the parts that need no card run on the processor, which shows that the benchmark works and nothing else.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import gpu_models, gpu_sessions
from benchmarks.report import NeedsCard, Report, machine

SIZES = {"480p": (640, 480), "720p": (1280, 720), "1080p": (1920, 1080)}


def main() -> int:
    """Exit code 0 if no part failed. Apart from the other benchmarks, which import more than a bare machine has."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", default="", help="of torch (default: cuda if there is a card)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples: to see that it works, not to compare")
    parser.add_argument("--part", action="append", metavar="P", help="this one alone, such as memory; may be repeated")
    parser.add_argument("--json", type=Path, metavar="F", help="write machine and figures to this file, too")
    options = parser.parse_args()
    facts, report = machine(), Report("gpu")
    run(report, quick=options.quick, device=options.device, only=options.part)
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": facts, "benchmarks": [report.as_dict()]}, indent=2) + "\n")
    return int(any(not bar["met"] for bar in report.bars))


def run(report: Report, *, quick: bool, device: str, only: list[str] | None = None) -> None:
    """Every part, or those that `only` names, each for itself."""
    import torch

    on = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    print(f"  torch {torch.__version__}, {torch.cuda.get_device_name(on) if on.type == 'cuda' else 'no card'}")
    rows: list[list[object]] = []
    failed = 0
    for name in only or PARTS:
        part = PARTS[name]
        began = time.perf_counter()
        try:
            rows.extend([name, *row] for row in part(on, quick))
        except NeedsCard:
            rows.append([name, "", "needs a card"])
        except Exception as error:  # whatever a driver, a compiler or an absent package says
            failed += 1
            rows.append([name, "", f"failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"])
        print(f"  {name}: {time.perf_counter() - began:.0f} s", flush=True)
    report.table(f"on {on}", ["part", "what", "result"], rows)
    report.bar("parts that failed", failed, 0, "")


# ---- pictures ---------------------------------------------------------------------------------------------------------


def conversion(device: Any, quick: bool) -> Iterator[list[object]]:
    """RGB to the host and converted there, and converted on the device; how far apart they are. Bare: a copy of the YUV."""
    import torch

    from reactor_trio.media.conversion import Converter
    from reactor_trio.media.device_conversion import DeviceConverter
    from reactor_trio.media.device_frames import DeviceFrames

    for name, (width, height) in SIZES.items():
        size = width, height
        rgb = torch.randint(0, 256, (height, width, 3), dtype=torch.uint8, device=device)
        there, here = DeviceConverter(size, size, device, "i420"), Converter(size, size)

        def on_host(rgb: Any = rgb, here: Any = here) -> Any:
            return here.convert(DeviceFrames.take(rgb).host())

        def on_device(rgb: Any = rgb, there: Any = there) -> Any:
            return there.fetch(DeviceFrames.take(rgb))

        ours, theirs = on_device()[:height].astype(int), on_host().to_ndarray()[:height]
        apart = int(np.abs(ours - theirs).max())
        yuv = there.convert(DeviceFrames.take(rgb))
        pinned = torch.empty(yuv.shape, dtype=yuv.dtype, pin_memory=device.type == "cuda")

        def bare(yuv: Any = yuv, pinned: Any = pinned) -> None:
            pinned.copy_(yuv, non_blocking=True)
            _wait(device)

        times = [1000 * _seconds(convert, 5 if quick else 100) for convert in (on_host, on_device, bare)]
        yield [
            name,
            f"host {times[0]:.2f} ms, device {times[1]:.2f} ms a frame, bare copy {times[2]:.3f} ms "
            f"({times[1] / times[2]:.1f}x); luma at most {apart} apart",
        ]


def overlap(device: Any, quick: bool) -> Iterator[list[object]]:
    """What a fetch beside it takes from a busy model: its step alone, and with a frame fetched in each step."""
    import torch

    from reactor_trio.media.device_conversion import DeviceConverter
    from reactor_trio.media.device_frames import DeviceFrames

    if device.type != "cuda":
        raise NeedsCard
    large = torch.rand(4096, 4096, device=device, dtype=torch.float16)
    rgb = torch.randint(0, 256, (1080, 1920, 3), dtype=torch.uint8, device=device)
    converter = DeviceConverter((1920, 1080), (1920, 1080), device, "i420")

    def step() -> None:
        for _ in range(20):
            large @ large
        torch.cuda.current_stream().synchronize()

    def beside(fetch: Callable[[], object]) -> float:
        def fetching_step() -> None:
            thread = threading.Thread(target=fetch)
            thread.start()
            step()
            thread.join()

        return _seconds(fetching_step, 50)

    alone = beside(lambda: None)
    for name, fetch in (
        ("RGB", lambda: DeviceFrames.take(rgb).host()), ("YUV", lambda: converter.fetch(DeviceFrames.take(rgb)))
    ):  # fmt: skip
        fetch()
        yield [f"1080p as {name}", f"step alone {1000 * alone:.2f} ms, with a fetch {1000 * beside(fetch):.2f} ms"]


# ---- encoders, memory -------------------------------------------------------------------------------------------------


def nvenc(device: Any, quick: bool) -> Iterator[list[object]]:
    """Whether the card's encoder opens, and how long a frame takes."""
    import torch

    from reactor_trio.media import CodecSettings
    from reactor_trio.media.device_frames import DeviceFrames
    from reactor_trio.media.nvenc import NvencEncoder, nvenc_refusal
    from reactor_trio.pacing import Quality

    if device.type != "cuda":
        raise NeedsCard
    if (refusal := nvenc_refusal()) is not None:
        yield ["", f"does not open: {refusal}"]
        return
    frame = torch.randint(0, 256, (720, 1280, 3), dtype=torch.uint8, device=device)
    encoder = NvencEncoder(CodecSettings())
    encoder.configure(Quality(4_000_000, 30))
    yield ["720p", f"{1000 * _seconds(lambda: encoder.encode(DeviceFrames.take(frame)), 100):.2f} ms a frame"]
    encoder.close()


def jpeg(device: Any, quick: bool) -> Iterator[list[object]]:
    """JPEG by nvJPEG, through torchvision, beside the way by the host that the runtime takes."""
    import torch

    from reactor_trio.media import CodecSettings
    from reactor_trio.media.device_frames import DeviceFrames
    from reactor_trio.media.jpeg import JpegEncoder

    if device.type != "cuda":
        raise NeedsCard
    frame = torch.randint(0, 256, (720, 1280, 3), dtype=torch.uint8, device=device)
    encoder = JpegEncoder(CodecSettings())
    host = 1000 * _seconds(lambda: encoder.encode(DeviceFrames.take(frame)), 50)
    try:
        from torchvision.io import encode_jpeg
    except ImportError:
        yield ["720p", f"by the host {host:.2f} ms a frame; torchvision is absent"]
        return
    planes = frame.permute(2, 0, 1).contiguous()
    card = 1000 * _seconds(lambda: encode_jpeg(planes, quality=85).cpu(), 50)
    yield ["720p", f"by the host {host:.2f} ms, nvJPEG {card:.2f} ms a frame"]


def memory(device: Any, quick: bool) -> Iterator[list[object]]:
    """What the device's memory grows by over 10 000 frames that are taken, converted and fetched."""
    import torch

    from reactor_trio.media.device_conversion import DeviceConverter
    from reactor_trio.media.device_frames import DeviceFrames

    if device.type != "cuda":
        raise NeedsCard
    rgb = torch.randint(0, 256, (720, 1280, 3), dtype=torch.uint8, device=device)
    converters = [DeviceConverter((1280, 720), (1280, 720), device, "i420") for _ in range(4)]
    count = 500 if quick else 10_000

    def fetch(number: int) -> int:
        converters[number % 4].fetch(DeviceFrames.take(rgb))
        return torch.cuda.memory_reserved(device)

    reserved = [torch.cuda.memory_reserved(device)]
    with ThreadPoolExecutor(4) as threads:
        for number in range(0, count, 4):
            reserved.append(max(threads.map(fetch, range(number, number + 4))))
    taken, grown = (reserved[100] - reserved[0]) / 2**20, (reserved[-1] - reserved[100]) / 2**20
    yield [
        f"{count} frames of 720p, 4 encoders",
        f"{taken:.0f} MiB reserved for the first 400, {grown:.1f} MiB for the others",
    ]
    if grown > 0:
        raise ValueError(f"the device's memory grew by {grown:.1f} MiB over {count} frames")


def _wait(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _seconds(work: Callable[[], object], times: int) -> float:
    """The median of so many calls, after three that do not count."""
    taken = []
    for number in range(times + 3):
        began = time.perf_counter()
        work()
        if number >= 3:
            taken.append(time.perf_counter() - began)
    return statistics.median(taken)


#: what yields the rows of each part: what, and result
PARTS: dict[str, Callable[[Any, bool], Iterator[list[object]]]] = {
    "conversion to YUV": conversion, "overlap": overlap, "model": gpu_models.plain, "torch.compile": gpu_models.compiled,
    "CUDA graph": gpu_models.graph, "isolation: process": gpu_models.isolated, "NVENC": nvenc, "JPEG on the card": jpeg,
    "memory": memory, "ranks": gpu_models.ranks, "colours": gpu_sessions.colours, "memory back": gpu_sessions.memory_back,
    "failures": gpu_sessions.failures, "captures": gpu_sessions.captures,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
