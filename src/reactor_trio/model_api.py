"""Where Reactor 1.x has `VideoModel`, `command` and `model`."""

from reactor_trio.interface import VideoModel, command, model

__all__ = ["VideoModel", "command", "model"]
