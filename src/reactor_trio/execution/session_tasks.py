"""The life of a session on the model loop: its tasks and scopes.

What is done in which order is in `lifecycle`. This module tells the life of the session what has happened, and has the
actions performed (`performer`).

The disconnect cancels `run`'s own task, not the driver. The driver is shielded until `@disconnected` has run: otherwise a
step that happens to be at an `await` would unwind before that hook, and a step that happens to be at a yield after it
(`driver_scopes`).

An exception of author code is caught in the task that ran it, before a nursery can group it, and returned as a value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from reactor_trio.concurrency import SessionOver, current_call, strip
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.driver_scopes import CLOSE_TIMEOUT
from reactor_trio.execution.landing import Landing
from reactor_trio.execution.performer import perform_each
from reactor_trio.execution.served_performer import ServedPerformer
from reactor_trio.execution.session_binding import SEEN_SESSION
from reactor_trio.lifecycle import HOOKS, RESTARTS, Action, Event

#: what an author reads whose code has left a cancel scope or a nursery open; Trio mends the stack and raises
LEFT_OPEN = (
    "model code left a cancel scope or a nursery open: leave it in the call that entered it, and leave an async generator "
    "with `async with aclosing(...)`"
)

#: what `END_STEP` waits for, and what becomes of that when it takes too long
WHAT_RAN = "the step, handler or hook that ran when the client left"
OUTLASTS = "; the end of the session goes on, and cancels it after @disconnected"


class SessionTasks:
    """Runs one session on the model loop.

    Args:
        make_performer: makes what performs the actions of the session's life, given what carries out a `restart`.
    """

    def __init__(self, session: DrivenSession, make_performer: Callable[..., ServedPerformer]) -> None:
        self.session = session
        self.performer = make_performer(restart=self._restart)
        self._released = False

    async def run(self) -> BaseException | None:
        """Run the session from its first to its last line of author code; returns the author's exception if one ended it.

        The model ends if the exception `ends_model`: SystemExit, and KeyboardInterrupt off the main thread.
        """
        try:
            return await self._run()
        except BaseException as raised:
            if not _only_misnesting(rest := strip(raised, trio.Cancelled)):
                raise
            failures = self.session.failures
            if failures.error is None:
                failures.error = RuntimeError(LEFT_OPEN)
                failures.error.__cause__ = rest
            return failures.outcome()
        finally:
            self.release()

    def release(self) -> None:
        """Release what refers back to this object: the session is over, or has never begun.

        Then reference counting frees all that the session held. Author code may keep its `ClientInfo`. A second call does
        nothing: `run` has released a session that failed before it began.
        """
        if self._released:
            return
        self._released = True
        self.session.binding.close_inputs()
        self.performer.release()
        del self.performer
        self.session.release()

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _run(self) -> BaseException | None:
        session = self.session
        SEEN_SESSION.set(session)
        session.host.observer.begun(session.session_id, self)
        session.call = current_call()
        self.performer.open_driver()
        session.binding.begin(session)
        try:
            if await self._is_made() and await self._goes_on(Event.MADE):
                await self._serve_client()
        finally:
            try:
                await self._end(Event.UNWOUND)
            finally:
                session.failures.look_for_lost_part()
                await self._end(Event.ENDED)
        return session.failures.outcome()

    async def _is_made(self) -> bool:
        """Make what the session needs; False if that raised, which ends the session."""
        try:
            return await self._goes_on(Event.BEGUN)
        except trio.Cancelled:
            raise
        except BaseException as error:
            self.session.failures.of_making(error)
            return False

    async def _serve_client(self) -> None:
        """Serve the client until it leaves or the driver ends the session."""
        with self.session.serving:
            async with trio.open_nursery() as self._nursery:
                try:
                    if await self._goes_on(Event.STARTED) and await self._goes_on(Event.GREETED):
                        await trio.sleep_forever()
                finally:
                    await self._end(Event.LEFT)

    async def _drive(self) -> None:
        """Task: the driver's, from before the author's generator exists until that is closed."""
        session, scopes, failures = self.session, self.session.scopes, self.session.failures
        with scopes.stop, scopes.guard as guard:
            cut_short = False
            try:
                await self.performer.driver.drive(self.performer)
            except BaseException as error:
                cut_short = failures.of_driving(error, session.over)
            finally:
                session.turn.give_back()
                await self.performer.ready_for(Action.CLOSE_DRIVER)
                scopes.protect_closing()
                try:
                    for action in session.life.event(Event.DRIVER_ENDED):
                        await self.performer.perform(action)
                except BaseException as error:
                    failures.of_closing(error, session.over)
            if cut_short and failures.error is None:
                failures.error = RuntimeError(
                    "inference() holds a cancel scope or nursery open across a yield, and that scope was cancelled"
                )
        if guard.cancel_called:  # not cancelled_caught: what the closing raised was taken above
            failures.took_too_long("closing inference()", CLOSE_TIMEOUT)
        session.end()

    async def _restart(self, event: Event, landing: Landing | None = None) -> None:
        """Restart the session's code, in the driver's task. All hooks run if it is fresh: any may have a part in the state.

        `landing`: the world that `Event.PUT` puts.

        Raises what the closing and the making of the state raise; SessionOver if a hook or the client has ended the session.
        """
        for each in RESTARTS[event]:
            if not await self._goes_on(each, landing) or self.session.over:
                raise SessionOver

    # ---- the life of the session --------------------------------------------------------------------------------------

    async def _goes_on(self, event: Event, landing: Landing | None = None) -> bool:
        """Tell the life what has happened and perform what follows; False if that has ended the session."""
        for action in self.session.life.event(event):
            await self._perform(action, landing)
        return self.session.failures.error is None

    async def _end(self, event: Event) -> None:
        """Tell the life of an end and perform what follows, each action in its time, whatever has brought the end."""
        actions = self.session.life.event(event)
        self.session.ending.set()
        if self.session.boundary is not None:
            self.session.boundary.session_ends()
        await perform_each(actions, self._perform_in_time)

    async def _perform_in_time(self, action: Action) -> None:
        await self.performer.ready_for(action)
        began = trio.current_time()
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True) as limit:
            await self._perform(action)
        if limit.cancelled_caught:
            if action is Action.END_STEP:
                self.session.failures.took_too_long(WHAT_RAN, CLOSE_TIMEOUT, OUTLASTS)
            else:
                what = f"@{action.value}" if action in HOOKS else f"{action.value} at the end of the session"
                self.session.failures.took_too_long(what, CLOSE_TIMEOUT)
        elif action in HOOKS and (took := trio.current_time() - began) > CLOSE_TIMEOUT:
            self.session.failures.could_not_be_cancelled(f"@{action.value}", took, CLOSE_TIMEOUT)

    async def _perform(self, action: Action, landing: Landing | None = None) -> None:
        """Begin or end the driver's task, or have the action performed. What a hook raises goes no further."""
        perform = partial(self.performer.perform, action)
        match action:
            case Action.DRIVE:
                self._nursery.start_soon(self._drive)
            case Action.END_DRIVER:
                self.session.scopes.stop.cancel()
                self.session.stopped.set()
            case Action.CLOSE_DRIVER:
                await self._close_for_restart(perform)
            case Action.PUT_WORLD:
                assert landing is not None, "Event.PUT comes with it"
                await self.performer.put_world(landing)
            case _ if action in HOOKS:
                await self.performer.call_hook(action.value, perform)
            case _:
                await perform()

    async def _close_for_restart(self, perform: Callable[[], Awaitable[None]]) -> None:
        with self.session.calls.running("closing inference() has run"):
            try:
                await perform()
            except BaseException as error:  # a nursery that is open across a yield groups GeneratorExit
                if (raised := strip(error, GeneratorExit)) is not None:
                    raise raised from None


def _only_misnesting(error: BaseException | None) -> bool:
    """Whether Trio raised it, and nothing else, because author code has left a cancel scope or a nursery open."""
    if isinstance(error, BaseExceptionGroup):
        return all(_only_misnesting(one) for one in error.exceptions)
    return isinstance(error, RuntimeError) and "stack corrupted" in str(error)
