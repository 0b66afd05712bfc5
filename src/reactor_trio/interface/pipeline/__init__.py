"""Reactor 3.x's package of this name, with its public names."""

from reactor_trio.interface.model import Idle, ReactorPipeline
from reactor_trio.interface.state import InputState

__all__ = ["Idle", "InputState", "ReactorPipeline"]
