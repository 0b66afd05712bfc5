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
from reactor_trio.execution.drivers.dynamic_batcher import Batches
from reactor_trio.execution.drivers.turns import Turn, Turns
from reactor_trio.execution.session_binding import Port, SharedPort
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model


class Seat:
    """One place: a model and its port. `own` makes the session's model of it, None if `model` serves it itself."""

    def __init__(self, model: Model, port: Port, own: Callable[[Model], Model] | None = None) -> None:
        self.model = model
        self.port = port
        self.own = own


class Seats:
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
        port: Port,
        number: int,
        host: ModelHost,
        open_port: Callable[[Turn], Port],
    ) -> None:
        self.turns: Turns | None = None
        self._first = Seat(model, port)
        self._open_port = open_port
        self._shared = number > 1
        if declaration.batched:
            self.turns = Batches(host.time, model)
            port.turn = self.turns.open()
        elif number > 1:
            self.turns = Turns(host.time)
        self.run_loops: list[Seat] = []
        if declaration.kind == "run_loop":
            self.run_loops = [self._run_loop() for _ in range(number)] if self._shared else [self._first]
        self._free = list(self.run_loops)
        if self._shared:
            model._reactor_port = SharedPort(port)

    def take(self) -> Seat:
        """A seat for a new session. On the I/O loop; there is one for as many sessions as were said."""
        if self._free:
            return self._free.pop(0)
        if self.turns is None or not self._shared:
            return self._first
        port = self._open_port(self.turns.open())
        return Seat(self._first.model, port, lambda model: own_copy(model, port))

    def give_back(self, seat: Seat) -> None:
        """Its session is over."""
        if seat in self.run_loops:
            self._free.append(seat)

    def _run_loop(self) -> Seat:
        assert self.turns is not None
        port = self._open_port(self.turns.open())
        return Seat(own_copy(self._first.model, port), port)


def own_copy(model: Model, port: Port) -> Model:
    """A shallow copy of `model` with this port. Raises DeclarationError if its class makes no copy."""
    copied = copy.copy(model)
    if copied is model or not isinstance(copied, type(model)):
        kind = type(model).__qualname__
        raise DeclarationError(f"{kind}.__copy__ must return a new {kind}: each session gets a copy of the model")
    copied._reactor_port = port
    return copied
