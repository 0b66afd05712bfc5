"""A session's side on the model loop of rank 0: what there is without ranks, with each call of author code led.

The end of a session has an order of its own. A hook waits for the call that runs, so a step that waits for an input frame is
told first that none comes; it ends by BufferClosed on every rank. An `async` step that waits for something else is given
`PATIENCE` seconds, then it is cancelled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.drivers.author_calls import AuthorCalls
from reactor_trio.execution.drivers.step_drivers import Driver, GeneratorDriver
from reactor_trio.execution.isolation.ipc_messages import files_to_say
from reactor_trio.execution.ranks.leader import Leader
from reactor_trio.execution.ranks.rank_messages import Call, Kind
from reactor_trio.execution.session_runner import SessionRunner
from reactor_trio.interface.events import Handler
from reactor_trio.interface.messages import ClientInfo

#: seconds that a step has to end by itself when the session is over
PATIENCE = 2.0


class LeadingSessionRunner(SessionRunner):
    """The model's side of one session; `options` are those of `SessionRunner`."""

    def __init__(self, lead: Leader, **options: Any) -> None:
        super().__init__(**options)
        self.lead = lead
        declaration = options["declaration"]
        self._client = options["client"]
        client = ClientInfo(self._client[0], self._client[1], self._send_to)
        self.author = _LeadingCalls(self, self.model, declaration, client)
        self.known = False  # whether the other ranks have heard of the session

    async def run(self) -> BaseException | None:
        """See `SessionRunner`."""
        try:
            return await super().run()
        finally:
            if self.known:
                with trio.CancelScope(shield=True):
                    await self.led("end", _nothing)

    async def begin(self) -> None:
        """The other ranks hear of the session."""
        number, joined_at = self._client
        await self.led("begin", self._is_known, name=self.session_id, client=number, at=joined_at)

    async def end_step(self) -> None:
        """The session is over: return when no call runs."""
        self.binding.input_queue.close()
        with trio.move_on_after(PATIENCE):
            await self.lead.idle()
            return
        self._stop.cancel()

    async def led(self, kind: Kind, make: Callable[[], Awaitable[Any]], **about: Any) -> Any:
        """Have all ranks make a call."""
        return await self.lead.call(Call(0, kind, self.step, **about), make)

    async def _is_known(self) -> None:
        self.known = True
        await trio.lowlevel.cancel_shielded_checkpoint()

    def _open_driver(self) -> Driver:
        return _LeadingDriver(self)


class _LeadingDriver(GeneratorDriver):
    def __init__(self, runner: LeadingSessionRunner) -> None:
        super().__init__(runner)
        self._leading = runner

    async def resume(self, model: Any) -> Any:
        return await self._leading.led("step", partial(super().resume, model))

    async def close(self) -> None:
        await self._leading.led("close", super().close)

    async def _until_next_step(self) -> float | None:
        with self._leading.calls.running("a call of another rank has run"):
            await self._leading.lead.level()  # not before the step itself: a command that comes meanwhile is seen by it
        return await super()._until_next_step()


class _LeadingCalls(AuthorCalls):
    def __init__(self, runner: LeadingSessionRunner, *what: Any) -> None:
        super().__init__(*what)
        self._runner = runner

    async def hook(self, kind: str, handler: Handler | None, arguments: dict[str, Any] | None = None) -> None:
        if kind == "disconnected":
            await self._runner.end_step()
        if not self._runner.known:  # also if the client has left before the others could hear of it
            await self._runner.begin()
        await super().hook(kind, handler, arguments)

    async def call_hook(self, kind: str, handler: Handler, arguments: dict[str, Any]) -> None:
        call = partial(super().call_hook, kind, handler, arguments)
        await self._runner.led("hook", call, name=kind, files=files_to_say(arguments))

    async def carry_out(self, command: Command, state: Any) -> Any:
        return await self._runner.led(
            "command", partial(super().carry_out, command, state), name=command.name, client=command.client,
            at=command.at, data=command.data, files=files_to_say(command.files),
        )  # fmt: skip


async def _nothing() -> None:
    await trio.lowlevel.checkpoint()
