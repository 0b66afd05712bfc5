"""The model's side of a session in another process: a `session.ModelSession` whose every word goes over the link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import trio

from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.remote_failure import error_of
from reactor_trio.execution.isolation.shared_frames import FrameExchange
from reactor_trio.execution.mailbox import Mailbox
from reactor_trio.execution.output_pacer import PlayoutSide
from reactor_trio.execution.session_events import Answer, SessionEvents
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.media import Bundle, Origin
from reactor_trio.protocol import EndReason


class RemoteModelSession:
    """See `session.ModelSession`. It hears what the other process says of its session, and is told when that process is
    gone.

    Args:
        client: number and joining time of the controlling client.
        say: sends a word; nothing happens if the process is gone.
        frames: where those of clients lie for the other process, and its own.
        over: told when the model has let go of the session.
    """

    def __init__(
        self,
        session_id: str,
        client: tuple[int, float],
        say: Callable[[object], None],
        frames: FrameExchange,
        over: Callable[[str], object],
    ) -> None:
        self.mailbox = Mailbox(_at_once, asleep=True)
        self._id = session_id
        self._client = client
        #: what is said before `run`: the other process hears of the session first
        self._early: list[object] = []
        self._say: Callable[[object], object] = self._early.append
        self._say_now = say
        self._frames = frames
        self._over = over
        self._began = False
        self._ended = trio.Event()
        self._error: BaseException | None = None
        self._left = ""
        self._late: Callable[[str, float], object] = lambda _what, _since: None
        #: why it ended, if nobody ended it
        self.reason: EndReason = "done"

    def connect(self, session: SessionEvents, playout: PlayoutSide) -> None:
        """See `ModelSession`."""
        self._session, self._playout = session, playout

    async def run(self) -> BaseException | None:
        """See `ModelSession`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._began = True
        self._say = self._say_now
        self._say(ipc_messages.Begin(self._id, *self._client))
        for word in self._early:
            self._say(word)
        try:
            await self._ended.wait()
        except trio.Cancelled:
            self._say(ipc_messages.Over(self._id))
            with trio.CancelScope(shield=True):
                await self._ended.wait()
            if self._error is None:
                raise
        return self._error

    def close(self) -> None:
        """See `ModelSession`."""
        if not self._began:
            self._over(self._id)

    async def watch(self, tell: Callable[[str, float], object]) -> None:
        """See `ModelSession`: the other process logs, and says so."""
        self._late = tell
        try:
            await trio.sleep_forever()
        finally:
            self._late = lambda _what, _since: None
            tell("", 0.0)

    @property
    def raised(self) -> BaseException | None:
        """See `ModelSession`; what ends the model there ends its process, and a new one is started."""
        return self._error

    def stack(self) -> str:
        """See `ModelSession`."""
        self._say(ipc_messages.ShowStack(self._id))
        return "(its own process writes that to the log, if it still can)"

    def what_is_left(self) -> str:
        """See `ModelSession`."""
        return "its model side has not unwound" if self._began and not self._ended.is_set() else self._left

    # ---- to the model -------------------------------------------------------------------------------------------------

    def command(self, command: Command) -> None:
        """See `ModelSession`."""
        files = ipc_messages.files_to_say(command.files)
        self._say(ipc_messages.Said(
            self._id, command.number, command.client, command.name, command.data, files, command.id, command.at,
            command.place,
        ))  # fmt: skip

    def pause(self, paused: bool) -> None:
        """See `ModelSession`."""
        self._say(ipc_messages.Pause(self._id, paused))

    def take_input(self, track: str, frame: InputFrame) -> None:
        """See `ModelSession`."""
        self._say(ipc_messages.Media(self._id, track, self._frames.show(frame.data), frame.pts))

    def limit(self, fps: float) -> None:
        """See `ModelSession`."""
        self._say(ipc_messages.Limit(self._id, fps))

    def handed(self, until: float, epoch: int, *, wake: bool) -> None:
        """See `ModelSession`."""
        self._say(ipc_messages.Handed(self._id, until, epoch, wake))

    def shown(self, until: float) -> None:
        """See `ModelSession`."""
        self._say(ipc_messages.Shown(self._id, until))

    # ---- from the model -----------------------------------------------------------------------------------------------

    def hear(self, word: Any) -> None:
        """The other process says something of this session."""
        match word:
            case ipc_messages.Put():
                bundle = Bundle(
                    tracks={name: self._frames.see(plane) for name, plane in word.tracks.items()},
                    seqs=word.seqs, duration=word.duration, paced=word.paced, origin=Origin(*word.origin), made=word.made,
                    epoch=word.epoch, ready=word.ready,
                )  # fmt: skip
                self.mailbox.post_lazily(self._playout.put, bundle)
            case ipc_messages.Flush(_, epoch):
                self.mailbox.post(self._playout.flush, epoch)
            case ipc_messages.Retime(_, interval):
                self.mailbox.post(self._playout.retime, interval)
            case ipc_messages.Dropped(_, place, reason, frames):
                self.mailbox.post(self._playout.count_drop, place, reason, frames)
            case ipc_messages.Answered(_, numbers, step, reply, code, message, values):
                answer = Answer(numbers, step, msgspec.Raw(reply), code, message, values)
                self.mailbox.post(self._session.answered, answer)
            case ipc_messages.StateChanged(_, values):
                self.mailbox.post_lazily(self._session.state_changed, values)
            case ipc_messages.Told(_, type_, data, client):
                self.mailbox.post(self._session.tell, type_, msgspec.Raw(data), client)
            case ipc_messages.Late(_, what, since):
                self._late(what, since)
            case ipc_messages.Ended(_, failure, left):
                self._left = left
                self._end(None if failure is None else error_of(failure))
            case _:
                raise AssertionError(f"{word!r} is of no session")

    def lost(self) -> None:
        """The process is gone, and the model with it."""
        self.reason = "model_restarting"
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        self._error = error
        self._over(self._id)
        self._ended.set()


def _at_once(deliver: Callable[[], object]) -> None:
    """What comes from the link is on this loop already."""
    deliver()
