"""The channel between the two loops of the model's process, for one session: its I/O loop only passes messages on.

What the model's side sends goes to the server from the thread that sends it. So a frame does not wake the I/O loop of this
process, which would cost more than sending the frame. Only frames that a device still computes take the way over that loop,
since their sender would wait for them there, and the answer to a save, whose world is packed there; as long as one of these
is under way, all that follows takes it too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reactor_trio.crossing.local_channel import LocalEnd, Wake
from reactor_trio.crossing.messages import Answer
from reactor_trio.media import Bundle


class ForwardingEnd(LocalEnd):
    """The I/O loop's end."""

    #: sends the server a message about this session, from any thread
    relay: Callable[[object], object]
    #: sends the server an answer with a world; None if the model saves none
    relay_world: Callable[[Answer], object] | None

    def take(self) -> None:
        """Send what has come. A message stays in its place until it is sent: until then nothing may overtake it."""
        came = self._came
        while came:
            try:
                if type(message := came[0]) is Answer and message.world is not None:
                    assert self.relay_world is not None
                    self.relay_world(message)
                else:
                    self.relay(message)
            finally:
                came.popleft()

    def close(self) -> None:
        """Close the end; nothing is sent to the server any more."""
        super().close()
        self.relay = self.relay_world = _drop


class DirectEnd(LocalEnd):
    """The model loop's end."""

    def send(self, message: object) -> None:
        """Send the message to the server from this thread, or queue it behind frames that a device still computes."""
        peer = self.peer
        send = peer.relay if isinstance(peer, ForwardingEnd) and not peer._came else super().send
        if type(message) is Bundle:
            for frame in message.tracks.values():
                if type(frame) is not np.ndarray:
                    send = super().send
        elif type(message) is Answer and message.world is not None:
            send = super().send
        send(message)


def _drop(_message: object) -> None:
    """A channel that is closed sends nothing."""


def open_relay_channel(
    relay: Callable[[object], object], relay_world: Callable[[Answer], object] | None, wake_io: Wake, wake_model: Wake
) -> tuple[ForwardingEnd, DirectEnd]:
    """As `open_local_channel`, for a session whose I/O side is in another process.

    `relay` sends it a message, `relay_world` an answer with a world.
    """
    io_end, model_end = ForwardingEnd(wake_io, asleep=True), DirectEnd(wake_model, asleep=False)
    io_end.peer, model_end.peer, io_end.relay, io_end.relay_world = model_end, io_end, relay, relay_world
    return io_end, model_end
