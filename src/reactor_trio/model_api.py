"""`VideoModel`, `command` and `model` under their Reactor 1.x module name, so that 1.x models import them unchanged."""

from reactor_trio.interface import VideoModel, command, model

__all__ = ["VideoModel", "command", "model"]
