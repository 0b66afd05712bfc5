"""Feedback and keyframe requests from the client to the server.

For each track and kind only the newest unsent text is kept, so a slow link never holds up the receiving side.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from reactor_trio.client.session_protocol import SessionProtocol
from reactor_trio.protocol import encode_client_text

#: least seconds between two requests for a keyframe of a track
KEYFRAME_FLOOR = 0.5


class FeedbackSender:
    """The texts that wait to be sent."""

    def __init__(self) -> None:
        self._unsent: dict[tuple[str, int], str] = {}
        self._asked: dict[int, float] = {}
        self._changed = anyio.Event()

    def acknowledge(self, track: int, seq: int) -> None:
        """Acknowledge frame `seq` of an output track."""
        self._put("feedback", track, SessionProtocol.feedback(track, seq))

    def request_keyframe(self, track: int) -> None:
        """Ask for a keyframe of an output track, at most every `KEYFRAME_FLOOR` seconds."""
        now = anyio.current_time()
        if now - self._asked.get(track, -KEYFRAME_FLOOR) >= KEYFRAME_FLOOR:
            self._asked[track] = now
            self._put("keyframe", track, encode_client_text("reactor.keyframe", {"track": track}))

    def clear(self) -> None:
        """Drop the unsent texts, which mean nothing on another connection."""
        self._unsent.clear()

    async def send_all(self, send: Callable[[str], Awaitable[None]]) -> None:
        """Send the texts, now and later, until cancelled. Raises what `send` raises."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            while self._unsent:
                await send(self._unsent.pop(next(iter(self._unsent))))

    def _put(self, kind: str, track: int, text: str) -> None:
        """Queue `text` in place of an unsent one of the same kind and track."""
        self._unsent[kind, track] = text
        self._changed.set()
