"""Records how long the steps of a real model take on this machine, as a trace for `benchmarks traces`.

    python -m benchmarks.record_trace conv benchmarks/traces_data/conv.json

`conv` is a small convolutional network of torch on one core, `conv2` the same on two, which on a machine with two busy
cores makes them wait for each other, `game` a physics of particles in numpy and some plain Python, `sleep` a model that
draws a picture and sleeps for what is left of 1/30 s, `sleep12` the same for twelve at a time. Each runs alone in its
process, as fast as it can; the first steps, in which caches and thread pools fill, belong to the trace.

Those in `traces_data` were recorded on a virtual machine of two cores that others worked on, too: hence the stalls and the
slow stretches. 600 steps each, 100 of `sleep12`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.report import machine


def conv(threads: int = 1) -> Callable[[], object]:
    """Eight 3x3 convolutions of up to 24 channels over 160x120."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    channels = [3, *[24] * 7, 3]
    layers = [torch.nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(channels)]
    net, picture = torch.nn.Sequential(*layers), torch.rand(1, 3, 120, 160)

    def step() -> object:
        with torch.inference_mode():
            return (torch.sigmoid(net(picture)) * 255).to(torch.uint8).numpy()

    return step


def game() -> Callable[[], object]:
    """700 particles that attract each other, drawn into 320x240."""
    dice = np.random.default_rng(1)
    at, speed = dice.random((700, 2)), np.zeros((700, 2))

    def step() -> object:
        nonlocal at, speed
        for part in np.array_split(np.arange(len(at)), 12):
            away = at[None, :] - at[part, None]
            speed[part] += 1e-6 * (away / (1e-2 + (away**2).sum(2, keepdims=True))).sum(1)
        at = (at + speed) % 1
        picture = np.zeros((240, 320, 3), np.uint8)
        for x, y in at:
            picture[int(y * 240), int(x * 320)] += 40
        return picture

    return step


def sleep(frames: int = 1) -> Callable[[], object]:
    """1/30 s a frame in all, most of it asleep."""

    def step() -> object:
        until = time.perf_counter() + frames / 30
        picture = np.tile(np.arange(640, dtype=np.uint8)[None, None, :, None], (frames, 480, 1, 3))
        time.sleep(max(0.0, until - time.perf_counter()))
        return picture

    return step


MODELS = {"conv": conv, "conv2": partial(conv, 2), "game": game, "sleep": sleep, "sleep12": partial(sleep, 12)}


def main() -> None:
    """Write `{"model", "machine", "seconds": [...]}`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record_trace", description=__doc__.split("\n")[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("file", type=Path)
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    make = MODELS[options.model]
    step, seconds = make(), []
    for _ in range(options.steps):
        began = time.perf_counter()
        step()
        seconds.append(round(time.perf_counter() - began, 6))
    facts = {name: text for name, text in machine().items() if name in ("processor", "system", "python")}
    document = {"model": options.model, "machine": facts, "seconds": seconds}
    options.file.write_text(json.dumps(document) + "\n")
    median, longest = 1000 * float(np.median(seconds)), 1000 * max(seconds)
    print(f"{options.file}: {len(seconds)} steps, median {median:.1f} ms, longest {longest:.1f} ms")


if __name__ == "__main__":
    main()
