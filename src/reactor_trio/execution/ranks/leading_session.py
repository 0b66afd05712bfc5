"""The model's side of a session on rank 0: a `SessionRunner` that has every rank make each call of author code.

A session ends in a fixed order. The hook `@disconnected` waits for the running call. So first the input tracks are closed: a
step that waits for an input frame ends with BufferClosed, on every rank. An `async` step that waits for something else gets
`PATIENCE` seconds, and is then cancelled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from reactor_trio.crossing.messages import Command
from reactor_trio.execution.driven_session import Phase
from reactor_trio.execution.drivers.author_calls import AuthorCalls
from reactor_trio.execution.drivers.step_drivers import Driver, GeneratorDriver
from reactor_trio.execution.ranks.leader import Leader
from reactor_trio.execution.ranks.rank_messages import CallKind, RankCall
from reactor_trio.execution.session_runner import SessionRunner

#: seconds that the running step has to return when the session is over
PATIENCE = 2.0


class LeadingSessionRunner(SessionRunner):
    """See `SessionRunner`, whose options are `options`."""

    def __init__(self, lead: Leader, **options: Any) -> None:
        super().__init__(**options)
        self.lead = lead
        self.author = _LeadingCalls(self, self.model, self.declaration, self.author.client)
        self.output_pacer.on_first_frame = lead.made_frame
        self.known = False  # to the other ranks

    async def run(self) -> BaseException | None:
        """See `SessionRunner`."""
        try:
            return await super().run()
        finally:
            if self.known:
                with trio.CancelScope(shield=True):
                    await self.led("end", _nothing)

    async def begin(self) -> None:
        """Begin the session on the other ranks."""
        client = self.author.client
        await self.led("begin", self._is_known, name=self.session_id, client=client.id, at=client.joined_at)

    async def end_step(self) -> None:
        """The session is over: return when no call is running, at the latest when `PATIENCE` has cancelled it."""
        self.binding.input_queue.close()
        with trio.move_on_after(PATIENCE):
            await self.lead.idle()
            return
        self._stop.cancel()

    async def led(self, kind: CallKind, make: Callable[[], Awaitable[Any]], **about: Any) -> Any:
        """Have every rank make a call, this one by `make`."""
        return await self.lead.call(RankCall(0, kind, self.step, **about), make)

    async def _is_known(self) -> None:
        self.known = True
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def _renew_state(self) -> None:
        await super()._renew_state()
        if self.known:
            await self.begin()

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
            await self._leading.lead.level()  # not in `resume`: the step must see commands that arrive now
        return await super()._until_next_step()


class _LeadingCalls(AuthorCalls):
    def __init__(self, runner: LeadingSessionRunner, *what: Any) -> None:
        super().__init__(*what)
        self._runner = runner

    async def hook(self, kind: str, arguments: dict[str, Any]) -> None:
        if kind == "disconnected" and self._runner.phase is Phase.ENDING:  # and not a restart
            await self._runner.end_step()
        if not self._runner.known:  # also if the client left before `connected` could run
            await self._runner.begin()
        if getattr(self._declaration, kind) is not None:
            await self._runner.led("hook", partial(super().hook, kind, arguments), name=kind, files=arguments)

    async def carry_out(self, command: Command, state: Any) -> Any:
        return await self._runner.led(
            "command", partial(super().carry_out, command, state), name=command.name, client=command.client,
            at=command.at, data=command.data, files=command.files,
        )  # fmt: skip


async def _nothing() -> None:
    await trio.lowlevel.checkpoint()
