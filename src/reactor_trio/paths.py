"""`get_weights_path` under its Reactor 3.x module name, so that 3.x models import it unchanged."""

from reactor_trio.interface import get_weights_path

__all__ = ["get_weights_path"]
