"""Reactor 3.x's package of this name. Only `idle` is here; everything public is in `reactor_trio.interface`."""
