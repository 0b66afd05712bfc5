"""The model instances that serve a model's sessions: the loaded model, or one shallow copy for each of several sessions.

Copies share what the loaded model holds, weights above all. A copy of a pipeline is made when its session begins and is gone
with it. The copies of a run loop are made after `load`, since each `run()` goes on for the server's life; a session takes a
free one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

from reactor_trio.concurrency import ModelHost
from reactor_trio.errors import DeclarationError
from reactor_trio.execution.round_robin_turns import RoundRobinTurns
from reactor_trio.execution.session_binding import SessionBinding, SharedBinding
from reactor_trio.execution.turns import Turns
from reactor_trio.interface.model import Model
from reactor_trio.kinds.dynamic_batcher import DynamicBatcher
from reactor_trio.kinds.kind import Kind


@dataclass(eq=False)
class ModelInstance:
    """A model instance with its binding. `own` makes a copy of it for the session; None: `model` itself serves it."""

    model: Model
    binding: SessionBinding
    own: Callable[[Model], Model] | None = None


class ModelInstances:
    """The instances of a loaded model, one for each of the sessions that run at the same time.

    Args:
        number: sessions at the same time.

    Attributes:
        turns: the turns of the sessions; None for one session that is stepped alone.
        batcher: the same turns, if the sessions are stepped together, by a task that runs for the model's life; else None.
        run_loops: the instances whose `run()` goes on for the server's life.
    """

    def __init__(
        self,
        model: Model,
        kind: Kind,
        binding: SessionBinding,
        number: int,
        host: ModelHost,
    ) -> None:
        self.turns: Turns | None = None
        self.batcher: DynamicBatcher | None = None
        self._first = ModelInstance(model, binding)
        self._shared = number > 1
        if kind.driving.turns is not None:
            self.turns = self.batcher = kind.driving.turns(host.time, model)
            binding.turn = self.turns.open()
        elif self._shared:
            self.turns = RoundRobinTurns(host.time)
        self.run_loops: list[ModelInstance] = []
        if kind.driving.run is not None:
            self.run_loops = [self._run_loop() for _ in range(number)] if self._shared else [self._first]
        self._free = list(self.run_loops)
        if self._shared:
            model._reactor_binding = SharedBinding(binding)

    def take(self) -> ModelInstance:
        """An instance for a new session, on the I/O loop. There is one for each of `number` sessions."""
        if self._free:
            return self._free.pop(0)
        if self.turns is None or not self._shared:
            return self._first
        binding = self._first.binding.like_this(self.turns.open())
        return ModelInstance(self._first.model, binding, lambda model: own_copy(model, binding))

    def give_back(self, instance: ModelInstance) -> None:
        """Take back the instance of a session that is over."""
        if instance in self.run_loops:
            self._free.append(instance)

    def _run_loop(self) -> ModelInstance:
        assert self.turns is not None
        binding = self._first.binding.like_this(self.turns.open())
        return ModelInstance(own_copy(self._first.model, binding), binding)


def own_copy(model: Model, binding: SessionBinding) -> Model:
    """A shallow copy of `model` with this binding. Raises DeclarationError if its class makes no copy."""
    copied = copy.copy(model)
    if copied is model or not isinstance(copied, type(model)):
        kind = type(model).__qualname__
        raise DeclarationError(f"{kind}.__copy__ must return a new {kind}: each session gets a copy of the model")
    copied._reactor_binding = binding
    return copied
