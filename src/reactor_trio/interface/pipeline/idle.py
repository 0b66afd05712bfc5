"""`Idle` and its type under their Reactor 3.x names: models annotate `inference()` with `_IdleType`, private as it is."""

from reactor_trio.interface.model import Idle, IdleType

_IdleType = IdleType

__all__ = ["Idle", "_IdleType"]
