"""Calls of author code that return: a session's hooks and the handlers of its commands, plain or async.

They run in the calling task, on the model loop; the plain ones of a blocking model run on the thread that its driver names
when it is opened. Their exceptions are raised to the calling task, which knows what they mean for the session.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from reactor_trio.crossing.messages import Command
from reactor_trio.execution.traced_awaitable import Observer, TracedAwaitable
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.events import Handler
from reactor_trio.interface.messages import ClientInfo, ModelMessage, message_data, plain
from reactor_trio.interface.model import Model

#: Calls a method of the author with its arguments.
CallHandler = Callable[[Callable[..., Any], dict[str, Any]], Awaitable[Any]]


class KeepsState(Protocol):
    """Has the state of a session in an attribute."""

    state: Any


class AuthorCalls:
    """Calls a model's hooks and handlers for one session.

    Args:
        client: given to each hook or handler that has a parameter for the client.

    Attributes:
        keeper: keeps the state of the session: the session itself, or the model of an app.
    """

    keeper: KeepsState

    def __init__(self, model: Model, declaration: Declaration, client: ClientInfo) -> None:
        self.model = model
        self._declaration = declaration
        self.client = client
        #: calls a blocking model's handlers and hooks on their thread
        self.call_handler: CallHandler | None = None
        #: that thread; None: they run in the calling task
        self.thread: threading.Thread | None = None
        #: sees where a handler or hook waits
        self.observer: Observer | None = None

    async def hook(self, kind: str, arguments: dict[str, Any]) -> None:
        """Call the hook of this kind, if the model has it. Raises what the hook raises."""
        handler: Handler | None = getattr(self._declaration, kind)
        if handler is not None:
            await self.call(handler, arguments)

    async def file_uploaded(self, arguments: dict[str, Any]) -> None:
        """Call `@file_uploaded`. Raises what the hook raises."""
        await self.hook("file_uploaded", arguments)

    async def carry_out(self, command: Command) -> Any:
        """Call the command's handler, or set its field of the state; returns the reply as plain JSON data.

        Raises what the handler raises, the error of a reply that is not JSON, and what a class of the arguments raises:
        those of a command from another process are decoded here, since that calls author code.
        """
        spec = self._declaration.commands[command.name]
        arguments = command.arguments
        if spec.arguments.parameters and not arguments:
            arguments = spec.arguments.decode(command.data, command.files.__getitem__)
        if spec.handler is not None:
            result = await self.call(spec.handler, arguments)
            return message_data(result) if isinstance(result, ModelMessage) else plain(result, command.name)
        if spec.field is not None:
            setattr(self.keeper.state, spec.field, arguments[spec.field])
        return None

    async def call(self, handler: Handler, arguments: dict[str, Any]) -> Any:
        """Call a method of the author; returns or raises what it does."""
        function: Callable[..., Any] = getattr(self.model, handler.attribute)
        if handler.client_parameter is not None:
            arguments = {**arguments, handler.client_parameter: self.client}
        result = function(**arguments) if self.call_handler is None else await self.call_handler(function, arguments)
        if not inspect.isawaitable(result):
            return result
        return await TracedAwaitable(result, observer=self.observer)
