"""Print how long this machine takes to make a world, and for a tick with its 512 x 512 picture."""

import timeit

from game import Env

env = Env(size=(512, 512), seed=1, length=None)
made = min(timeit.repeat(env.reset, number=1, repeat=3))
tick = min(timeit.repeat(lambda: env.step(0), number=20, repeat=5)) / 20
print(f"a world: {made:.2f} s; a tick with its picture: {tick * 1000:.1f} ms, {1 / tick:.0f} a second")
