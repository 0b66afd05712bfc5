"""Where the sessions of one model sit: each has a port, and with more than one of them a model of its own beside it.

One session: the loaded model itself. Several: shallow copies of it, which share what it holds, weights above all. A copy of
a pipeline is made when its session begins and is gone with it; those of a run loop are made after `load`, since each `run()`
goes on for the server's life, and a session takes one that is free.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from reactor_trio.concurrency import ModelHost
from reactor_trio.errors import DeclarationError
from reactor_trio.execution.drivers.dynamic_batcher import DynamicBatcher
from reactor_trio.execution.drivers.turns import Turn, Turns
from reactor_trio.execution.session_binding import SessionBinding, SharedBinding
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model


class SessionCopy:
    """One place: a model and its port. `own` makes the session's model of it, None if `model` serves it itself."""

    def __init__(self, model: Model, binding: SessionBinding, own: Callable[[Model], Model] | None = None) -> None:
        self.model = model
        self.binding = binding
        self.own = own


class SessionCopies:
    """The seats of a loaded model.

    Args:
        number: sessions at the same time.
        open_port: makes a port, given how its sessions come to the model thread.

    Attributes:
        turns: grants the turns of several sessions; None: there is nothing to share.
        run_loops: the seats whose model has a `run()` that goes on for the server's life.
    """

    def __init__(
        self,
        model: Model,
        declaration: Declaration,
        binding: SessionBinding,
        number: int,
        host: ModelHost,
        open_binding: Callable[[Turn], SessionBinding],
    ) -> None:
        self.turns: Turns | None = None
        self._first = SessionCopy(model, binding)
        self._open_binding = open_binding
        self._shared = number > 1
        if declaration.batched:
            self.turns = DynamicBatcher(host.time, model)
            binding.turn = self.turns.open()
        elif number > 1:
            self.turns = Turns(host.time)
        self.run_loops: list[SessionCopy] = []
        if declaration.kind == "run_loop":
            self.run_loops = [self._run_loop() for _ in range(number)] if self._shared else [self._first]
        self._free = list(self.run_loops)
        if self._shared:
            model._reactor_binding = SharedBinding(binding)

    def take(self) -> SessionCopy:
        """A seat for a new session. On the I/O loop; there is one for as many sessions as were said."""
        if self._free:
            return self._free.pop(0)
        if self.turns is None or not self._shared:
            return self._first
        binding = self._open_binding(self.turns.open())
        return SessionCopy(self._first.model, binding, lambda model: own_copy(model, binding))

    def give_back(self, session_copy: SessionCopy) -> None:
        """Its session is over."""
        if session_copy in self.run_loops:
            self._free.append(session_copy)

    def _run_loop(self) -> SessionCopy:
        assert self.turns is not None
        binding = self._open_binding(self.turns.open())
        return SessionCopy(own_copy(self._first.model, binding), binding)


def own_copy(model: Model, binding: SessionBinding) -> Model:
    """A shallow copy of `model` with this port. Raises DeclarationError if its class makes no copy."""
    copied = copy.copy(model)
    if copied is model or not isinstance(copied, type(model)):
        kind = type(model).__qualname__
        raise DeclarationError(f"{kind}.__copy__ must return a new {kind}: each session gets a copy of the model")
    copied._reactor_binding = binding
    return copied
