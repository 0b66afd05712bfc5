"""Trains the rule on one core and writes `weights.npz`: python train.py

The rule learns from a pool of states. A state that grew in one round goes back into the pool and grows on in a later one,
so the rule must also keep the figure that it has made. The training cuts some states, so the rule must mend them.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from automaton import ALPHA, Automaton, cut, empty, sow
from figure import HEIGHT, WIDTH, draw
from torch.nn import functional as F

ROUNDS = 1500
BATCH = 4
POOL = 64
LOST = 0.06  # a state whose mean squared error is above this has little to teach; an empty one has 0.15
STEPS = (26, 36)  # in a round; from the seed to the farthest cell is 16
LEARNING_RATE = {"matrices": 2e-2, "bias": 2e-3}
SEED = 2020


def error(states: torch.Tensor, figure: torch.Tensor) -> torch.Tensor:
    """Mean squared error of red, green, blue and alpha, for each state."""
    return (states[:, : ALPHA + 1] - figure).square().mean(dim=(1, 2, 3))


def cosine(optimizer: torch.optim.Optimizer, rounds: int) -> torch.optim.lr_scheduler.LRScheduler:
    """A learning rate that rises in the first twentieth of the rounds, then falls to a hundredth."""
    peak = optimizer.defaults["lr"]
    return torch.optim.lr_scheduler.OneCycleLR(
        optimizer, peak, rounds, pct_start=0.05, final_div_factor=4, cycle_momentum=False
    )


def seeds(number: int) -> torch.Tensor:
    state = empty(HEIGHT, WIDTH)
    sow(state, HEIGHT // 2, WIDTH // 2)
    return state.repeat(number, 1, 1, 1)


def train(rounds: int, seed: int, out: Path) -> Automaton:
    torch.manual_seed(seed)
    dice = np.random.default_rng(seed)
    figure = torch.from_numpy(draw())
    rule = Automaton()
    # Muon takes matrices, and learns in fewer rounds here than Adam does.
    optimizers = [
        torch.optim.Muon([rule.perceive, rule.act], LEARNING_RATE["matrices"], momentum=0.9, weight_decay=0),
        torch.optim.Adam([rule.bias], LEARNING_RATE["bias"]),
    ]
    schedules = [cosine(optimizer, rounds) for optimizer in optimizers]
    pool, losses, begun = seeds(POOL), [], time.perf_counter()
    for done in range(1, rounds + 1):
        drawn = dice.choice(POOL, BATCH, replace=False)
        batch = pool[drawn]
        errors = error(batch, figure)
        best, worst = int(errors.argmin()), int(errors.argmax())
        if done > rounds / 8:  # until then the rule need only grow the figure
            place = dice.uniform(6, HEIGHT - 6), dice.uniform(8, WIDTH - 8)
            cut(batch[best : best + 1], place, place, dice.uniform(3, 8))
        # At first each round has a seed; later each fourth round, so that the other states grow old first.
        if done < 0.4 * rounds or done % 4 == 0 or errors[worst] > LOST:
            batch[worst] = seeds(1)[0]

        grown = rule(batch.contiguous(memory_format=torch.channels_last), int(dice.integers(*STEPS)))
        loss = error(grown, figure).mean()
        stray = (grown - grown.clamp(-2, 2)).abs().mean()  # hidden channels have no target: this keeps them in bounds
        rule.zero_grad()
        (loss + stray).backward()
        for parameter in rule.parameters():  # after so many steps only a gradient's direction is useful, not its length
            parameter.grad /= parameter.grad.norm() + 1e-8
        for part in (*optimizers, *schedules):
            part.step()
        pool[drawn] = grown.detach()

        losses.append(loss.item())
        if done % 100 == 0:
            took = time.perf_counter() - begun
            print(f"round {done} of {rounds}: mean squared error {np.mean(losses[-100:]):.5f}, {took:.0f} s", flush=True)
            rule.save(out)
    return rule


def report(rule: Automaton) -> None:
    """Print the root of the mean squared error as the figure grows, stays, is cut and mends, in a garden of 48 x 48."""
    down, right = (48 - HEIGHT) // 2, (48 - WIDTH) // 2
    figure = F.pad(torch.from_numpy(draw()), (right, right, down, down))
    state = empty(48, 48)
    sow(state, 24, 24)

    def tell(what: str) -> None:
        print(f"{what}: {error(state, figure).sqrt().item():.4f}")

    with torch.no_grad():
        tell("a seed")
        for steps in (50, 50, 100, 800, 1000):
            state = rule(state, steps)
            tell(f"{steps} steps on")
        cut(state, (17, 20), (17, 20), 6)
        tell("cut")
        for steps in (50, 50, 100):
            state = rule(state, steps)
            tell(f"{steps} steps on")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("weights.npz"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rule = train(options.rounds, options.seed, options.out)
    report(rule)
