"""A session's model side as the I/O loop sees it, wherever the model runs: `ModelSession`. And the one in this process.

The session and its playout tell the half what comes from outside, and hear from it by `ModelListener` and `PlayoutSide`.
What they tell never waits; words that must be heard now wake the model, others lie until it looks (`mailbox`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Protocol

from reactor_trio.concurrency import ModelHost
from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.drivers.call_watch import RunningCall
from reactor_trio.execution.mailbox import Mailbox
from reactor_trio.execution.output_pacer import PlayoutSide
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.execution.session_events import SessionEvents
from reactor_trio.execution.session_runner import SessionRunner
from reactor_trio.interface.blocking_tracks import fixed_rate
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.interface.model import Model
from reactor_trio.pacing import BlockCadence, Cadence, PlayoutForecast
from reactor_trio.protocol import EndReason

log = logging.getLogger("reactor_trio.model")

#: Where a call is that waits, say for a device, with no line of author code above that.
NO_LINE = "(no line of the model: it waits for what it has started)"


class ModelSession(Protocol):
    """The model's side of one session; all of it is for the I/O loop, and only `run` waits.

    Attributes:
        mailbox: where this side leaves what it made; the playout hears it.
        reason: why `run` returned without an exception, if nobody ended it.
    """

    mailbox: Mailbox
    reason: EndReason

    def connect(self, session: SessionEvents, playout: PlayoutSide) -> None:
        """Name who hears of answers, messages and frames; once, before `run`."""

    async def run(self) -> BaseException | None:
        """The session from its first to its last line of author code; what author code raised, if that ended it.

        Cancelled, it returns or raises when the model has let go of the session.
        """

    def close(self) -> None:
        """The session is over, whether `run` was ever called or not."""

    @property
    def raised(self) -> BaseException | None:
        """What author code raised, if that ended the session.

        It is there also when `run` was cancelled after that, and so returned nothing: a client may leave while the session
        unwinds.
        """

    async def watch(self, tell: Callable[[str, float], object]) -> None:
        """Task: until cancelled, log each call of author code that runs for `stuck_after` seconds, once, with its stack.

        `tell` is told which one runs for the longest time, and since when; with an empty text when it has ended.
        """

    def stack(self) -> str:
        """Where the model's code is now."""

    def what_is_left(self) -> str:
        """What author code of this session still holds, in words; empty if all is let go."""

    def pause(self, paused: bool) -> None:
        """Nobody watches: no step is begun and no frame taken from now on. Or somebody does again."""

    # ---- from clients -------------------------------------------------------------------------------------------------

    def command(self, command: Command) -> None:
        """A command has come."""

    def take_input(self, track: str, frame: InputFrame) -> None:
        """A frame of an input track has come."""

    # ---- from the playout ---------------------------------------------------------------------------------------------

    def limit(self, fps: float) -> None:
        """What the viewers' encoders take, in frames per second; from the next step on."""

    def handed(self, until: float, epoch: int, *, wake: bool) -> None:
        """The oldest bundle is shown now, until `until`; `wake` if the model cannot know that by itself."""

    def shown(self, until: float) -> None:
        """The bundle on screen now ends at `until`."""


class LocalModelSession:
    """A half on the model loop of this process.

    Args:
        session_id, client: whose it is; the client by number and joining time.
        max_fps, buffer_size: pacing, from the class or the manifest.
        hold: whether the model waits for slow clients.
        stuck_after: seconds after which a call of author code is reported.
        own_model: makes of `model` the one of this session; None: `model` itself serves it.
        closed: told when the session is over.
        model_half: makes the side on the model loop.
    """

    def __init__(
        self,
        session_id: str,
        client: tuple[int, float],
        *,
        host: ModelHost,
        model: Model,
        binding: SessionBinding,
        declaration: Declaration,
        max_fps: float,
        buffer_size: int,
        hold: bool,
        stuck_after: float = math.inf,
        own_model: Callable[[Model], Model] | None = None,
        closed: Callable[[], object] = lambda: None,
        runner_type: Callable[..., SessionRunner] = SessionRunner,
    ) -> None:
        self.mailbox = Mailbox(host.post_io, asleep=True)
        self.reason: EndReason = "done"
        self._replies = Mailbox(host.post, asleep=False)
        self._host = host
        self._input_queue = binding.input_queue
        self._closed = closed
        self._session_id = session_id
        self._model_name = type(model).__name__
        self._stuck_after = stuck_after

        def runner(session: SessionEvents, playout: PlayoutSide) -> SessionRunner:
            return runner_type(
                session_id=session_id, model=model, binding=binding, declaration=declaration, host=host, session=session,
                playout=playout, mailbox=self.mailbox, replies=self._replies, client=client,
                cadence=_cadence(model, declaration, binding, max_fps), forecast=PlayoutForecast(buffer_size,
                assume=not hold),
                own_model=own_model,
            )  # fmt: skip

        self._open: Callable[[SessionEvents, PlayoutSide], SessionRunner] = runner

    def connect(self, session: SessionEvents, playout: PlayoutSide) -> None:
        """See `ModelSession`."""
        self._runner = self._open(session, playout)
        self._input_queue_number = self._input_queue.begin()

    async def run(self) -> BaseException | None:
        """See `ModelSession`."""
        return await self._host.run(self._runner.run)

    def close(self) -> None:
        """See `ModelSession`."""
        if not self._runner.began:
            self._host.post(self._input_queue.close)
        self._closed()

    @property
    def raised(self) -> BaseException | None:
        """See `ModelSession`."""
        return self._runner.raised

    async def watch(self, tell: Callable[[str, float], object]) -> None:
        """See `ModelSession`."""
        await self._runner.calls.watch(self._stuck_after, self._report, tell)

    def _report(self, call: RunningCall) -> None:
        stack = self._host.stack(call.task, call.thread) or NO_LINE
        log.warning(
            "session %s: %s for %g s in %s, whose client is still there. It is here:\n%s",
            self._session_id, call.what, self._stuck_after, self._model_name, stack,
        )  # fmt: skip

    def stack(self) -> str:
        """See `ModelSession`."""
        call = self._runner.calls.oldest
        return (self._host.stack() if call is None else self._host.stack(call.task, call.thread)) or NO_LINE

    def what_is_left(self) -> str:
        """See `ModelSession`."""
        return self._runner.what_is_left()

    def pause(self, paused: bool) -> None:
        """See `ModelSession`."""
        self._replies.send(self._runner.output_pacer.pause, paused)

    def command(self, command: Command) -> None:
        """See `ModelSession`."""
        self._replies.send(self._runner.command, command)

    def take_input(self, track: str, frame: InputFrame) -> None:
        """See `ModelSession`."""
        self._input_queue.put(self._input_queue_number, track, frame)

    def limit(self, fps: float) -> None:
        """See `ModelSession`."""
        self._replies.leave(self._runner.output_pacer.limit, fps)

    def handed(self, until: float, epoch: int, *, wake: bool) -> None:
        """See `ModelSession`."""
        tell = self._replies.send if wake else self._replies.leave
        tell(self._runner.output_pacer.handed, until, epoch)

    def shown(self, until: float) -> None:
        """See `ModelSession`."""
        self._replies.send(self._runner.output_pacer.shown, until)


def _cadence(model: Model, declaration: Declaration, binding: SessionBinding, max_fps: float) -> Cadence:
    if declaration.kind != "blocking":
        return Cadence(binding.declared_fps, max_fps)
    fixed = fixed_rate(type(model))
    return BlockCadence(fixed or binding.declared_fps, max_fps, fixed=fixed is not None)
