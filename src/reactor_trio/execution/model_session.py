"""The model's side of a session as the I/O loop sees it, wherever the model runs.

`LocalModelSession` implements it in this process, `RemoteModelSession` (`isolation`) for a model in another process. The
session and its playout call a `ModelSession`; it answers by calls of `SessionEvents` and `PlayoutSide`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.mailbox import Mailbox
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.media import Bundle
from reactor_trio.protocol import EndReason

#: Name of the command that the runtime itself makes when an upload is complete. No event can have this name.
FILE_UPLOADED: Final = "file_uploaded"


class Answer(msgspec.Struct, frozen=True):
    """The answer to commands that share a place.

    Attributes:
        numbers: the numbers of the commands.
        step: the first step that sees them, if they were applied.
        reply: of the handler, as plain JSON data.
        code, message: why they were refused; `code` is None if they were applied.
        values: the settings that have changed since, as JSON; see `StateWatch`.
    """

    numbers: tuple[int, ...]
    step: int
    reply: Any = None
    code: str | None = None
    message: str = ""
    values: dict[str, bytes] = msgspec.field(default_factory=dict)


class SessionEvents(Protocol):
    """The session as its model's side sees it. The mailbox calls these methods on the I/O loop; they must not raise."""

    def answered(self, answer: Answer) -> None:
        """Answer commands that were applied or refused."""

    def tell(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's words
        """Send a message of the model to every client, or to one."""

    def state_changed(self, values: dict[str, bytes]) -> None:
        """Take over changed settings, as JSON; see `StateWatch`."""


class PlayoutSide(Protocol):
    """The playout as the pacer sees it. The mailbox calls these methods on the I/O loop; they must not raise."""

    def put(self, bundle: Bundle) -> None:
        """Queue a bundle to be shown."""

    def flush(self, epoch: int) -> None:
        """Drop the bundles of epochs before `epoch`."""

    def retime(self, interval: float) -> None:
        """Show each frame whose duration is not fixed for `interval` seconds."""

    def count_drop(self, place: str, reason: str, frames: int) -> None:
        """Count frames that the model side dropped."""


class ModelSession(Protocol):
    """The model's side of one session. All methods are for the I/O loop; only `run` and `watch` wait.

    Attributes:
        mailbox: carries bundles, answers and messages from the model; the playout delivers them.
        reason: why `run` returned without an exception, if nothing else ended the session.
    """

    mailbox: Mailbox
    reason: EndReason

    def connect(self, session: SessionEvents, playout: PlayoutSide) -> None:
        """Name the receivers of answers, messages and frames. Called once, before `run`."""

    async def run(self) -> BaseException | None:
        """Run the session from its first to its last line of author code; returns the author's exception if it ended it.

        Cancelled, it returns or raises when the model has let go of the session.
        """

    def close(self) -> None:
        """Note that the session is over, whether `run` was ever called or not."""

    @property
    def raised(self) -> BaseException | None:
        """The author's exception that ended the session, None without one.

        It is there also when `run` was cancelled after that and so returned nothing: a client may leave while the session
        unwinds.
        """

    async def watch(self, tell: Callable[[str, float], object]) -> None:
        """Task: log each call of author code that runs for `stuck_after` seconds, once, with its stack; until cancelled.

        `tell` receives the name of the call that has run for the longest time, and when it began; an empty name when it
        has ended.
        """

    def stack(self) -> str:
        """The stack of the model's code, as text."""

    def what_is_left(self) -> str:
        """What author code of this session still holds, in words; empty if it holds nothing."""

    def pause(self, paused: bool) -> None:
        """Begin no step and take no frame from now on, since the session has no viewer; or go on."""

    # ---- from clients -------------------------------------------------------------------------------------------------

    def command(self, command: Command) -> None:
        """Hand over a command."""

    def take_input(self, track: str, frame: InputFrame) -> None:
        """Hand over a frame of an input track."""

    # ---- from the playout ---------------------------------------------------------------------------------------------

    def limit(self, fps: float) -> None:
        """Cap the rate at `fps`, which is what the viewers' encoders can take; from the next step on."""

    def handed(self, until: float, epoch: int, *, wake: bool) -> None:
        """Report that the oldest bundle, of this epoch, is shown until `until`.

        `wake`: whether the model must be woken for it, because it cannot know the time by itself.
        """

    def shown(self, until: float) -> None:
        """Report that the bundle on screen ends at `until`."""
