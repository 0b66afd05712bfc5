"""Feedback and keyframe requests from the client to the server.

For each track and kind only the newest unsent text is kept, so a slow link never holds up the receiving side.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from reactor_trio.client.session_protocol import Conversation

#: least seconds between two requests for a keyframe of a track
KEYFRAME_FLOOR = 0.5


class Teller:
    """The texts that wait to be sent."""

    def __init__(self) -> None:
        self._to_tell: dict[tuple[str, int], str] = {}
        self._asked: dict[int, float] = {}
        self._something = anyio.Event()

    def arrived(self, track: int, seq: int) -> None:
        """Acknowledge frame `seq` of an output track."""
        self._tell("feedback", track, Conversation.feedback(track, seq))

    def ask_keyframe(self, track: int) -> None:
        """Ask for a keyframe of an output track, at most every `KEYFRAME_FLOOR` seconds."""
        now = anyio.current_time()
        if now - self._asked.get(track, -KEYFRAME_FLOOR) >= KEYFRAME_FLOOR:
            self._asked[track] = now
            self._tell("keyframe", track, Conversation.request_keyframe(track))

    def clear(self) -> None:
        """Drop the unsent texts, which mean nothing on another connection."""
        self._to_tell.clear()

    async def tell_all(self, send: Callable[[str], Awaitable[None]]) -> None:
        """Send the texts, now and later, until cancelled. Raises what `send` raises."""
        while True:
            await self._something.wait()
            self._something = anyio.Event()
            while self._to_tell:
                await send(self._to_tell.pop(next(iter(self._to_tell))))

    def _tell(self, what: str, track: int, text: str) -> None:
        """Queue `text` in place of an unsent one of the same kind and track."""
        self._to_tell[what, track] = text
        self._something.set()
