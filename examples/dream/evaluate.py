"""Measures the dream against the game: python evaluate.py [--steps 1000] [--dreams 16]

It prints how far dreams drift from the game that is played with the same keys, how many presses of keys have their effect
within three steps, and how many steps a second this machine takes.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from dream import LEGIBLE, WEIGHTS, Dreams
from maze import HEADINGS, KEYS, STEP, WALLS, Fingers, Maze, read
from onnxruntime import InferenceSession as Session
from onnxruntime import SessionOptions, get_available_providers

WARM = 60  # steps that a dream has gone on before a key is pressed
SOON = 3  # steps within which a press must have its effect


def opened(threads: int, weights: Path = WEIGHTS) -> Session:
    options = SessionOptions()
    options.intra_op_num_threads = threads
    return Session(weights, options, get_available_providers())


def psnr(pictures: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Of each picture, in dB, at most 60."""
    return -10 * np.log10(np.square(pictures - others).mean(axis=(1, 2, 3)).clip(1e-6))


def turned(heading: np.ndarray, other: np.ndarray) -> np.ndarray:
    """From one heading to the other, in headings: positive to the right."""
    return (other - heading + HEADINGS // 2) % HEADINGS - HEADINGS // 2


def drift(network: Session, number: int, steps: int, temperature: float, seed: int) -> None:
    dice = np.random.default_rng(seed)
    maze, fingers = Maze.scattered(number, dice), Fingers(number, dice)
    dreams = Dreams(network, maze, dice)
    blurred, longest = np.zeros(number, int), np.zeros(number, int)
    print(f"\n{number} dreams at temperature {temperature:g}, random keys; medians of 10 steps up to each")
    print("step | cells from the game | degrees from it | dB to the game | dB to the game at the dream's place | clarity")
    rows = []
    for step in range(1, steps + 1):
        keys = fingers.next()
        maze.step(keys)
        pictures = dreams.step(keys, temperature)
        place, clarity = read(pictures)
        blurred = np.where(clarity < LEGIBLE, blurred + 1, 0)
        longest = np.maximum(longest, blurred)
        away = np.hypot(place.x - maze.x, place.y - maze.y)
        angle = np.abs(turned(maze.heading, place.heading)) * 360 / HEADINGS
        own = Maze(*(side.clip(1, len(WALLS) - 1.1) for side in (place.x, place.y)), place.heading)  # inside the outer walls
        rows.append((away, angle, psnr(pictures, maze.draw()), psnr(pictures, own.draw()), clarity))
        if step in {10, 50, 100, 200, 500} or step % 1000 == 0 or step == steps:
            print(step, *(f"{np.median(value):.2f}" for value in np.array(rows[-10:]).transpose(1, 0, 2)), sep=" | ")
    print(f"blurred for 15 steps or longer: {(longest >= 15).sum()} of {number}; longest blur: {longest.max()} steps")


def presses(network: Session, number: int, temperature: float, seed: int) -> None:
    """Count presses of one key, each in a dream that has gone on for a while and then stood still."""
    print(f"\npresses with an effect within {SOON} steps, of those that have one in the game; temperature {temperature:g}")
    dice = np.random.default_rng(seed)
    total = np.zeros(2, int)
    for index, key in enumerate(KEYS):
        fingers = Fingers(number, dice)
        start = Maze.scattered(number, dice)
        dreams = Dreams(network, start, dice)
        for _ in range(WARM):
            dreams.step(fingers.next(), temperature)
        for _ in range(3):
            pictures = dreams.step(np.zeros((number, len(KEYS)), bool), temperature)
        before, clear = read(pictures)
        game = Maze(before.x, before.y, before.heading)
        pressed = np.zeros((number, len(KEYS)), bool)
        pressed[:, index] = True
        for _ in range(SOON):
            pictures = dreams.step(pressed, temperature)
            game.step(pressed)
        after, _ = read(pictures)
        if key in {"left", "right"}:
            expected, seen = turned(before.heading, game.heading), turned(before.heading, after.heading)
            counts = np.ones(number, bool)
            right = (seen * np.sign(expected) >= 2) & (clear >= LEGIBLE)
        else:
            way = np.stack([game.x - before.x, game.y - before.y])
            length = np.hypot(*way)
            counts = length >= 2 * STEP  # else a wall is in the way
            along = (way * np.stack([after.x - before.x, after.y - before.y])).sum(0) / length.clip(1e-6)
            right = along >= length / 2
        total += (right & counts).sum(), counts.sum()
        print(f"{key}: {(right & counts).sum()} of {counts.sum()}")
    print(f"all: {total[0]} of {total[1]}, {total[0] / total[1]:.1%}")


def speed() -> None:
    print("\nsteps of the network alone")
    for threads in (1, 2):
        dreams = Dreams(opened(threads), Maze.scattered(1, np.random.default_rng(1)), np.random.default_rng(1))
        keys = np.array([[True, False, False, True]])
        best = 0.0
        for _ in range(6):
            begun = time.perf_counter()
            for _ in range(50):
                dreams.step(keys, 0)
            best = max(best, 50 / (time.perf_counter() - begun))
        print(f"{threads} thread{'s' * (threads > 1)}: {best:.0f} a second")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--dreams", type=int, default=16)
    parser.add_argument("--presses", type=int, default=100, help="of each key")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.5])
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    options = parser.parse_args()
    network = opened(2, options.weights)
    for temperature in options.temperatures:
        drift(network, options.dreams, options.steps, temperature, options.seed)
        presses(network, options.presses, temperature, options.seed)
    speed()
