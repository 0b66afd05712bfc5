"""The run of one session where its model is, as the session owns it on the I/O loop.

`LocalSessionRun` implements it in this process, `RemoteSessionRun` (`isolation`) for a model in another process. Both sides
talk by the messages of the run's channel; only input frames, which have queues of their own, take another way.
"""

from __future__ import annotations

from typing import Final, Protocol

from reactor_trio.crossing.channel import ChannelEnd
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.protocol import EndReason

#: Name of the command that the runtime itself makes when an upload is complete. No event can have this name.
FILE_UPLOADED: Final = "file_uploaded"


class SessionRun(Protocol):
    """The run of one session. All methods are for the I/O loop; only `run` waits.

    Attributes:
        raised: the author's exception that ended the session; None without one, and until `run` is over.
        failed_hook: the hook that raised it, as `@connected`; empty if no hook did.
        reason: why `run` returned without an exception, if nothing else ended the session.
    """

    raised: BaseException | None
    failed_hook: str
    reason: EndReason

    @property
    def channel(self) -> ChannelEnd:
        """The I/O loop's end of the session's channel."""

    async def run(self) -> None:
        """Run the session from its first to its last line of author code, and log each call of it that takes too long.

        Cancelled, it ends when the model has let go of the session.
        """

    def close(self) -> None:
        """Note that the session is over, whether `run` was ever called or not."""

    def take_input(self, track: str, frame: InputFrame) -> None:
        """Hand over a frame of an input track."""

    def stack(self) -> str:
        """The stack of the model's code, as text."""
