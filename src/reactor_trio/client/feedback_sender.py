"""What the client tells the server by itself: that frames have come, and that a keyframe is missing.

Of each the newest alone is kept until it is sent: a link that takes nothing does not hold up what comes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from reactor_trio.client.session_protocol import Conversation

#: seconds between two requests for a keyframe of a track
KEYFRAME_FLOOR = 0.5


class Teller:
    """What is to be told and has not been sent yet."""

    def __init__(self) -> None:
        self._to_tell: dict[tuple[str, int], str] = {}
        self._asked: dict[int, float] = {}
        self._something = anyio.Event()

    def arrived(self, track: int, seq: int) -> None:
        """Frame `seq` of an output track has come."""
        self._tell("feedback", track, Conversation.feedback(track, seq))

    def ask_keyframe(self, track: int) -> None:
        """Ask for a keyframe of an output track, unless that was done just now."""
        now = anyio.current_time()
        if now - self._asked.get(track, -KEYFRAME_FLOOR) >= KEYFRAME_FLOOR:
            self._asked[track] = now
            self._tell("keyframe", track, Conversation.request_keyframe(track))

    def clear(self) -> None:
        """Another connection begins, to which none of it means anything."""
        self._to_tell.clear()

    async def tell_all(self, send: Callable[[str], Awaitable[None]]) -> None:
        """Send all of it, now and later, until cancelled. Raises what `send` raises."""
        while True:
            await self._something.wait()
            self._something = anyio.Event()
            while self._to_tell:
                await send(self._to_tell.pop(next(iter(self._to_tell))))

    def _tell(self, what: str, track: int, text: str) -> None:
        """Have `text` sent, in place of what was not yet said of the same."""
        self._to_tell[what, track] = text
        self._something.set()
