"""Print the time on one core for a step of the rule in a garden of 48 x 48, and for a 528 x 528 picture."""

import timeit

import torch
from automaton import Automaton, empty, sow
from garden import BACKGROUNDS, WEIGHTS, render

torch.set_num_threads(1)
rule = Automaton.trained(WEIGHTS)
cells = empty(48, 48)
sow(cells, 24, 24)
cells = rule(cells, 200)
step = min(timeit.repeat(lambda: rule(cells, 20), number=1, repeat=20)) / 20
picture = min(timeit.repeat(lambda: render(cells, BACKGROUNDS["night"], True, 528), number=10, repeat=20)) / 10
print(f"a step: {step * 1000:.1f} ms; a picture: {picture * 1000:.1f} ms")
