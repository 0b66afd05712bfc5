"""Performs the actions of a session's life (`lifecycle`) on author code and on what belongs to it.

Nothing else calls the hooks of a session's begin and end, makes or drops its state, or closes what its driver has open:
neither under the server, nor on the ranks that follow, nor where a program steps a model by hand.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, cast

from reactor_trio.execution.author_calls import AuthorCalls, KeepsState
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.messages import ClientInfo
from reactor_trio.interface.model import Model
from reactor_trio.lifecycle import HOOKS, Action


class LifeBinding(Protocol):
    """What a session binding does in the life of a session."""

    def connect(self) -> None:
        """Set `connected`."""

    def disconnect(self) -> None:
        """Clear `connected`."""

    def close_output(self) -> None:
        """Queue no more output: the session is over."""

    def close_inputs(self) -> None:
        """Close the input tracks: readers get BufferClosed."""

    def end(self) -> None:
        """Forget the session, which is over."""


class Closes(Protocol):
    """Moves author code along, and closes it."""

    async def close(self) -> None:
        """End what is left of author code."""


class Performer(AuthorCalls):
    """Performs the actions of one session: `PERFORMS` says what each is, and a subclass adds what its sessions have besides.

    Args:
        binding: through which the model reaches the session.
        keeper: keeps the state, unless the model does.

    Attributes:
        driver: moves the author code of the session along, and closes it.
    """

    driver: Closes

    def __init__(
        self, model: Model, declaration: Declaration, client: ClientInfo, binding: LifeBinding, keeper: KeepsState
    ) -> None:
        super().__init__(model, declaration, client)
        self._life_binding = binding
        self.keeper = keeper

    async def perform(self, action: Action) -> None:
        """Perform an action, or nothing if this session has nothing for it. Raises what author code raises."""
        if action in HOOKS:
            await self.hook(action.value, {})
        elif (performs := self.PERFORMS.get(action)) is not None and (waits := performs(self)) is not None:
            await waits

    def _make_state(self) -> None:
        if self._declaration.keeps_state:
            self.keeper = cast(KeepsState, self.model)
        state = self._declaration.state
        self.keeper.state = None if state is None else state()

    def _drop_state(self) -> None:
        self.keeper.state = None
        self._life_binding.end()

    #: what each action does that is no hook
    PERFORMS: ClassVar[Mapping[Action, Callable[[Any], Awaitable[None] | None]]] = {
        Action.MAKE_STATE: _make_state,
        Action.SET_CONNECTED: lambda self: self._life_binding.connect(),
        Action.CLEAR_CONNECTED: lambda self: self._life_binding.disconnect(),
        Action.CLOSE_OUTPUT: lambda self: self._life_binding.close_output(),
        Action.CLOSE_INPUTS: lambda self: self._life_binding.close_inputs(),
        Action.CLOSE_DRIVER: lambda self: self.driver.close(),
        Action.RELEASE: _drop_state,
    }


async def perform_each(actions: Sequence[Action], perform: Callable[[Action], Awaitable[None]]) -> None:
    """Perform the actions of an end: each, whatever those before it raise. Raises what the last one of these has raised."""
    if actions:
        try:
            await perform(actions[0])
        finally:
            await perform_each(actions[1:], perform)
