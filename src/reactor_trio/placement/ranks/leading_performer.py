"""`LeadingPerformer`: has every rank make each call of author code that a session on rank 0 makes.

A session ends in a fixed order. The hook `@disconnected` waits for the running call: steps are whole (`lifecycle`). So first
the input tracks are closed, and a step that waits for an input frame ends with BufferClosed, on every rank. An `async` step
that waits for something else gets `STEP_GRACE_PERIOD` seconds, and is then cancelled. What rank 0 does at once, as clearing
`connected`, the other ranks do at the begin of their next call, which is the next part of the end (`AT_NEXT_CALL`).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec
import trio

from reactor_trio.crossing.messages import Command
from reactor_trio.crossing.world_pieces import PackedWorld
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.driver import Driver
from reactor_trio.execution.landing import Landing
from reactor_trio.execution.served_performer import ServedPerformer
from reactor_trio.execution.step_loop import StepMade, StepSource
from reactor_trio.interface.model import Model
from reactor_trio.lifecycle import HOOKS, Action, Event
from reactor_trio.placement.ranks.leader import Leader
from reactor_trio.placement.ranks.led_world import LedWorld
from reactor_trio.placement.ranks.rank_messages import AT_NEXT_CALL, LED, CallKind, RankCall
from reactor_trio.placement.ranks.world_parts import send_part

if TYPE_CHECKING:
    from reactor_trio.execution.session_moments import SessionMoments

T = TypeVar("T")

#: seconds that the running step has to return when the session is over
STEP_GRACE_PERIOD = 2.0


class LedCalls:
    """The calls of one session that every rank makes. Steps have it, too, so it knows no performer, which has the steps."""

    def __init__(self, session: DrivenSession, leader: Leader) -> None:
        self._session = session
        self._leader = leader

    async def lead(self, kind: CallKind, make: Callable[[], Awaitable[T]], **about: Any) -> T:
        """Have every rank make a call, this one by `make`."""
        return await self._leader.call(RankCall(0, kind, self._session.step, **about), make, self._watch_cancellation())

    async def agree(self, code: str) -> int:
        """See `Leader.agree`."""
        return await self._leader.agree(code)

    @property
    def others(self) -> int:
        """How many ranks there are besides this one."""
        return len(self._leader.links)

    def send_parts(self, parts: Sequence[PackedWorld]) -> None:
        """Send each of the other ranks its part of a world, in a call `unpack`."""
        for link, part in zip(self._leader.links, parts, strict=True):
            send_part(link, [part.data])

    def take_parts(self) -> tuple[PackedWorld, ...]:
        """Take what the other ranks have sent in a call `pack`; all of it has come."""
        return tuple(part.take() for part in self._leader.parts)

    def drop_parts(self) -> None:
        """Drop what the other ranks have sent, and what still comes."""
        self._leader.parts = ()

    async def level(self) -> None:
        """Return when no rank is in a call, before a step: the step must see commands that arrive meanwhile."""
        with self._session.calls.running("a call of another rank has run"):
            await self._leader.level()

    def _watch_cancellation(self) -> Callable[[], bool]:
        """Return what says later, in this task, whether the call that begins now was cancelled.

        A cancelled scope around this task is one answer: the end of the session cancels a hook of its begin, a time limit
        cancels a hook of its end or the closing. The scope `stop` cancels a step, a handler and a restart. It is looked at
        too, because a cancelled async generator arms the guard, which hides it. It cancels nothing that begins after it or
        under the guard.
        """
        scopes = self._session.scopes
        reached = not (scopes.stop.cancel_called or scopes.guard.shield)
        return lambda: trio.current_effective_deadline() == -math.inf or (reached and scopes.stop.cancel_called)


class LeadingPerformer(ServedPerformer):
    """Performs the actions of a session on rank 0, and has the other ranks perform them."""

    def __init__(
        self,
        session: DrivenSession,
        controller: tuple[int, float],
        new_driver: Callable[[ServedPerformer], Driver],
        restart: Callable[[Event, Landing | None], Awaitable[None]],
        own_model: Callable[[Model], Model] | None = None,
        moments: SessionMoments | None = None,
        *,
        leader: Leader,
    ) -> None:
        super().__init__(session, controller, new_driver, restart, own_model, moments)
        self._leader = leader
        self._calls = LedCalls(session, leader)
        if moments is not None:
            moments.lead(partial(LedWorld, calls=self._calls))

    def open_driver(self) -> None:
        """Open the driver. Hooks wait for the call of a step, as for each other call."""
        super().open_driver()
        self.session.life.whole_steps = True

    def steps(self, of_author: StepSource) -> StepSource:
        """Make each step a call of every rank."""
        return LedSteps(self._calls, of_author)

    async def ready_for(self, action: Action) -> None:
        """Return when no rank is in a call. `Leader.level` has limits of its own."""
        if action in LED and self.session.over:
            with trio.CancelScope(shield=True):
                await self._leader.level(over=True)

    async def perform(self, action: Action) -> None:
        """Perform the action on this rank, and have the others perform it."""
        make: Callable[[], Awaitable[None]] = partial(super().perform, action)
        if action not in LED or self._lacks(action):
            await make()
            if action in AT_NEXT_CALL:
                self._leader.performed(action)
            return
        if action is Action.MAKE_STATE:  # here first: a state that cannot be made is no call of the other ranks
            await make()
            make = trio.lowlevel.cancel_shielded_checkpoint
        await self._calls.lead("perform", make, action=action, client=self.client.id, at=self.client.joined_at)

    async def carry_out(self, command: Command) -> Any:
        """Carry the command out on every rank; returns the reply of this one.

        Arguments with classes of the author are decoded before, on this rank and then on the others: what a `__post_init__`
        refuses on one rank, perhaps on that alone, reaches the handler of no rank.
        """
        given: dict[str, Any] = {"data": command.data, "files": command.files}
        arguments = self._declaration.commands[command.name].arguments
        if arguments.makes_instances:
            decoded = arguments.decode(command.data, command.files.__getitem__)
            await self._calls.lead("arguments", trio.lowlevel.cancel_shielded_checkpoint, command=command.name, **given)
            await self._leader.agree("invalid_command")
            command, given = msgspec.structs.replace(command, arguments=decoded), {}
        make = partial(super().carry_out, command)
        return await self._calls.lead("command", make, command=command.name, client=command.client, at=command.at, **given)

    async def file_uploaded(self, arguments: dict[str, Any]) -> None:
        """Call `@file_uploaded` on every rank."""
        await self._calls.lead("file", partial(super().file_uploaded, arguments), files=arguments)

    async def _end_call(self) -> None:
        """Return when no call is running, at the latest when `STEP_GRACE_PERIOD` has cancelled it."""
        try:
            await self._end_step()
        finally:
            with trio.move_on_after(STEP_GRACE_PERIOD, shield=True) as grace_period:
                await self._leader.idle()
            if grace_period.cancelled_caught:
                self.session.scopes.stop.cancel()

    PERFORMS: ClassVar = {**ServedPerformer.PERFORMS, Action.END_STEP: _end_call}

    def _lacks(self, action: Action) -> bool:
        """Whether the action is a hook that the model does not have."""
        return action in HOOKS and getattr(self._declaration, action.value) is None


class LedSteps(StepSource):
    """The steps of a session, each made by every rank."""

    def __init__(self, calls: LedCalls, steps: StepSource) -> None:
        self._calls = calls
        self._steps = steps
        self.whole_steps, self.ready = steps.whole_steps, calls.level

    async def resume(self, model: Any) -> StepMade:
        """Have every rank make the step; returns what this one has made."""
        return await self._calls.lead("step", partial(self._steps.resume, model))

    @property
    def of_author(self) -> StepSource:
        """The steps on this rank."""
        return self._steps

    def location(self, model: Any) -> str:
        """The line on this rank."""
        return self._steps.location(model)

    async def close(self) -> None:
        """Close what this rank has open. The closing is a call of its own (`LED`)."""
        await self._steps.close()
