"""Trains the network from the game alone, on two cores: python train.py

There is no data set. A pool of walkers plays with random keys. In each update the network draws the next picture for some of
them and learns from what the game draws. Most walkers dream: the network's own picture becomes their past, and the game
goes on from where that picture says they are. So the network learns to go on from its own pictures, and to mend them.
Written on the way: `log.csv`, a roll-out as `rollout.png`, and `checkpoint.pt`, from which `--resume` goes on.
"""

import argparse
import copy
import csv
import time
from pathlib import Path

import numpy as np
import torch
from maze import HEADINGS, SIZE, VIEW, Fingers, Maze, read
from network import PAST, Dreamer
from PIL import Image

UPDATES = 16_000
FIRST = 10 / 16  # the part of the updates in which the instruments are learned; then the view counts more
BATCH = 16
POOL = 256  # walkers
WAKING = 0.25  # the share of walkers whose past is always the game's
FIRST_DREAM = 800  # updates; until then the network draws nothing from which it could go on
LEGIBLE = 0.2  # a dream in which place and heading are less clear than this begins again
NEAR = 0.04  # cells: nearer than this to where the game would be, the dream counts as there
LIFE = 200  # steps after which a walker begins elsewhere, on average
INSTRUMENTS = (6, 3)  # the weight of their pixels to one of the view, in the first part and after it
CHANGES = (10, 5)  # more weight, for one that changes by half of its range
NOISE = 0.4  # the standard deviation of the strongest noise on the past; pictures are from -1 to 1
LEARNING_RATE = 1.2e-3, 6e-4  # the highest in the first part, and after it
WARMING = 200  # updates in which the learning rate rises
STEADY = 0.3, 0.1  # the share of either part after which the learning rate sinks to 0
AVERAGE = 0.998  # of the weights that are kept, per update
SEED = 1
JUDGED = 8, 150  # roll-outs for a line of the log, and their steps; every tenth is in the picture


class Walkers:
    """Walkers with their last pictures and keys.

    Attributes:
        maze: where they are in the game.
        past: float32 (N, PAST, 3, SIZE, SIZE) from -1 to 1, oldest first.
        keys: float32 (N, PAST, 4) of the steps to the last PAST pictures.
    """

    def __init__(self, number: int, dice: np.random.Generator) -> None:
        self.dice = dice
        self.maze = Maze.scattered(number, dice)
        self.fingers = Fingers(number, dice)
        self.past = np.zeros((number, PAST, 3, SIZE, SIZE), np.float32)
        self.keys = np.zeros((number, PAST, 4), np.float32)
        self.begin(np.arange(number))

    def begin(self, which: np.ndarray) -> None:
        """Put some walkers elsewhere, where they have taken PAST steps in the game."""
        if len(which) == 0:
            return
        maze, fingers = Maze.scattered(len(which), self.dice), Fingers(len(which), self.dice)
        for step in range(PAST):
            keys = fingers.next()
            maze.step(keys)
            self.past[which, step] = shown(maze)
            self.keys[which, step] = keys
        self.maze.x[which], self.maze.y[which], self.maze.heading[which] = maze.x, maze.y, maze.heading
        self.fingers.held[which] = fingers.held

    def press(self, which: np.ndarray) -> Maze:
        """Let some walkers choose their keys and take a step in the game."""
        fingers = copy.copy(self.fingers)
        fingers.held = fingers.held[which]
        keys = fingers.next()
        self.fingers.held[which] = keys
        self.keys[which] = np.concatenate([self.keys[which, 1:], keys[:, None]], axis=1)
        maze = Maze(self.maze.x[which], self.maze.y[which], self.maze.heading[which])
        maze.step(keys)
        self.maze.x[which], self.maze.y[which], self.maze.heading[which] = maze.x, maze.y, maze.heading
        return maze

    def see(self, which: np.ndarray, pictures: np.ndarray) -> None:
        """Let the pictures be the newest of some walkers' past."""
        self.past[which] = np.concatenate([self.past[which, 1:], pictures[:, None]], axis=1)

    def follow(self, which: np.ndarray, pictures: np.ndarray) -> None:
        """Set walkers, each in a dream, to where the pictures say that they are; begin again with those that are lost."""
        where, clarity = believed(pictures)
        x, y = self.maze.x[which], self.maze.y[which]
        astray = np.hypot(where.x - x, where.y - y) > NEAR
        self.maze.x[which], self.maze.y[which] = np.where(astray, where.x, x), np.where(astray, where.y, y)
        self.maze.heading[which] = where.heading
        lost = (clarity < LEGIBLE) | (self.dice.random(len(which)) < 1 / LIFE)
        self.begin(which[lost | ~where.free()])


def shown(maze: Maze) -> np.ndarray:
    """The game's pictures as the network takes them: float32 (N, 3, SIZE, SIZE) from -1 to 1."""
    return maze.draw().transpose(0, 3, 1, 2) * 2 - 1


def believed(pictures: np.ndarray) -> tuple[Maze, np.ndarray]:
    """`read` for the network's pictures."""
    return read(pictures.transpose(0, 2, 3, 1) / 2 + 0.5)


def predict(network: Dreamer, past: np.ndarray, keys: np.ndarray, noise: np.ndarray) -> torch.Tensor:
    """The next pictures; `noise`, (N,), is the standard deviation of what is added to the past."""
    level = torch.from_numpy(noise.astype(np.float32))
    seen = torch.from_numpy(past).flatten(1, 2)
    seen = seen + level[:, None, None, None] * torch.randn(seen.shape)
    return network(seen.contiguous(memory_format=torch.channels_last), torch.from_numpy(keys).flatten(1), level[:, None])


def importance(before: torch.Tensor, after: torch.Tensor, part: int) -> torch.Tensor:
    """The weight of each pixel's error, (N, 1, SIZE, SIZE); `before` and `after` are two pictures of the game or a dream.

    The instruments are few pixels, and all else follows from them. Those of them that change count most: a network that
    draws a still hand is nearly right everywhere else.
    """
    weight = torch.ones(len(after), 1, SIZE, SIZE)
    change = (after - before)[:, :, VIEW:].abs().amax(dim=1, keepdim=True)
    weight[:, :, VIEW:] = INSTRUMENTS[part] + CHANGES[part] * change
    return weight


class Training:
    """The network, its walkers, and how far the training has come.

    Attributes:
        average: the moving average of the network's weights, which is what is kept.
        done: updates.
    """

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.dice = np.random.default_rng(seed)
        self.network = Dreamer().to(memory_format=torch.channels_last)
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        weights = self.network.parameters()
        self.optimizer = torch.optim.AdamW(weights, LEARNING_RATE[0], betas=(0.9, 0.98), weight_decay=0.01, fused=True)
        self.walkers = Walkers(POOL, self.dice)
        self.done = 0
        self.spent = dict.fromkeys(CLOCKS, 0.0)  # seconds before this process

    def update(self, rate: float, part: int) -> float:
        """Learn from the next step of some walkers; return the loss."""
        which = self.dice.choice(POOL, BATCH, replace=False)
        past = self.walkers.past[which]
        maze = self.walkers.press(which)
        truth = shown(maze)
        pictures = predict(self.network, past, self.walkers.keys[which], NOISE * self.dice.random(BATCH) ** 3)
        target = torch.from_numpy(truth)
        off = pictures - target
        loss = ((off.abs() + 2 * off.square()) * importance(torch.from_numpy(past[:, -1]), target, part)).mean()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.done += 1
        share = 1 - min(AVERAGE, self.done / (self.done + 20))
        torch._foreach_lerp_(list(self.average.parameters()), list(self.network.parameters()), share)

        drawn = pictures.detach().clamp(-1, 1).numpy()
        awake = which < (WAKING * POOL if self.done > FIRST_DREAM else POOL)
        self.walkers.see(which, np.where(awake[:, None, None, None], truth, drawn))
        self.walkers.follow(which[~awake], drawn[~awake])
        self.walkers.begin(which[awake][self.dice.random(awake.sum()) < 1 / LIFE])
        return loss.item()

    def save(self, path: Path, spent: dict[str, float]) -> None:
        parts = {name: getattr(self, name).state_dict() for name in ("network", "average", "optimizer")}
        torch.save(parts | {"done": self.done, "spent": spent}, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def restore(self, path: Path) -> None:
        """Go on from a checkpoint, with other walkers."""
        saved = torch.load(path)
        for name in ("network", "average", "optimizer"):
            getattr(self, name).load_state_dict(saved[name])
        self.done, self.spent = saved["done"], saved["spent"]


def train(options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    training = Training(options.seed)
    if options.resume:
        training.restore(options.out / "checkpoint.pt")
    begun = {name: clock() for name, clock in CLOCKS.items()}
    losses: list[float] = []
    with (options.out / "log.csv").open("a" if options.resume else "w", newline="") as file:
        log = csv.writer(file)
        if not options.resume:
            log.writerow(COLUMNS)
        while training.done < options.updates:
            part, rate = schedule(training.done, options.updates)
            losses.append(training.update(rate, part))
            if training.done % options.every == 0 or training.done == options.updates:
                spent = {name: training.spent[name] + clock() - begun[name] for name, clock in CLOCKS.items()}
                figures = judge(training.average, options.out / "rollout.png")
                row = [training.done, training.done * BATCH, *(round(seconds) for seconds in spent.values()), f"{rate:.2e}"]
                row += [f"{number:.4g}" for number in (np.mean(losses), *figures)]
                losses.clear()
                log.writerow(row)
                file.flush()
                print(", ".join(f"{name} {value}" for name, value in zip(COLUMNS, row, strict=True)), flush=True)
                training.save(options.out / "checkpoint.pt", spent)


def schedule(done: int, updates: int) -> tuple[int, float]:
    """In which part of the training an update is, 0 or 1, and its learning rate."""
    first = round(updates * FIRST)
    part = int(done >= first)
    begun, length = (first, updates - first) if part else (0, first)
    left = 1 - (done - begun) / length
    return part, LEARNING_RATE[part] * min(1, (done - begun + 1) / WARMING, left / (1 - STEADY[part]))


CLOCKS = {"wall_s": time.perf_counter, "processor_s": time.process_time}
COLUMNS = (
    "update", "samples", *CLOCKS, "rate", "loss",
    "psnr", "psnr_of_repeating", "place_off", "heading_off", "clarity", "lost",
)  # fmt: skip


@torch.no_grad()
def judge(network: Dreamer, picture: Path) -> tuple[float, ...]:
    """How good the network is on walks that it has not seen; draws one of its roll-outs above the game's.

    Returns:
        PSNR of the next picture in dB; that of repeating the last picture; then after a roll-out of so many steps from the
        game's pictures: median distance from the game's place in cells, median difference of the heading in degrees, mean
        clarity of the pictures, and the share of dreams that were lost at any time.
    """
    number, steps = JUDGED
    dice = np.random.default_rng(7)
    walkers, everyone = Walkers(number, dice), np.arange(number)
    noise = np.zeros(number)
    errors, repeated, strip = [], [], []
    lost = np.zeros(number, bool)
    truth_past = walkers.past.copy()
    for step in range(steps):
        maze = walkers.press(everyone)
        truth = shown(maze)
        if step < 20:
            errors.append(np.square(predict(network, truth_past, walkers.keys, noise).clamp(-1, 1).numpy() - truth).mean())
            repeated.append(np.square(truth_past[:, -1] - truth).mean())
        truth_past = np.concatenate([truth_past[:, 1:], truth[:, None]], axis=1)
        drawn = predict(network, walkers.past, walkers.keys, noise).clamp(-1, 1).numpy()
        walkers.see(everyone, drawn)
        where, clarity = believed(drawn)
        lost |= clarity < LEGIBLE
        if step % 10 == 9:
            strip.append(np.concatenate([drawn[0], truth[0], drawn[1], truth[1]], axis=1))
    sheet = np.concatenate(strip, axis=2).transpose(1, 2, 0)
    Image.fromarray(((sheet / 2 + 0.5) * 255).round().astype(np.uint8)).save(picture)
    turned = np.abs((where.heading - maze.heading + HEADINGS // 2) % HEADINGS - HEADINGS // 2) * 360 / HEADINGS
    away = np.hypot(where.x - maze.x, where.y - maze.y)
    levels = (10 * np.log10(4 / np.mean(errors)), 10 * np.log10(4 / np.mean(repeated)))
    return (*levels, np.median(away), np.median(turned), clarity.mean(), lost.mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--every", type=int, default=500, help="updates between two lines of the log")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("training"))
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in the folder of --out")
    options = parser.parse_args()
    torch.set_num_threads(2)
    train(options)
