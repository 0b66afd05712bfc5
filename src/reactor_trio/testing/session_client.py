"""The client of a test: the real client over a connection in memory, with helpers for tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio
import trio.testing

from reactor_trio.client import Client, Frame, Message
from reactor_trio.client.client_transport import Transport
from reactor_trio.client.streams import FrameStream, MessageStream
from reactor_trio.client.uploads import Source, Upload
from reactor_trio.errors import SessionEnded
from reactor_trio.testing.inspected_server import MODEL_FAILURES, InspectedServer
from reactor_trio.testing.memory_connection import Stall
from reactor_trio.testing.simulated_link import Link

T = TypeVar("T")


class SessionClient(Client):
    """`reactor_trio.client.Client` with scripted behaviour; `options` are those of `Client`.

    Attributes:
        server: the server that it is connected to.
    """

    frames_queued, queued_bytes = 1 << 20, 1 << 40  # a test takes frames when it likes, and wants all of them

    def __init__(
        self, transport: Transport, server: InspectedServer, stall: Stall, link: Link | None, **options: Any
    ) -> None:
        super().__init__(transport, **options)
        self.server = server
        self._stall = stall
        self._link = link
        self._taking: dict[str | None, FrameStream] = {}
        self._reading: MessageStream | None = None

    @property
    def ended(self) -> str | None:
        """As the real client's. A test that reads a failure of the model here has seen it, so no block raises it later."""
        if self._receiver.ended in MODEL_FAILURES:
            self._receiver.end_raised = True
        return self._receiver.ended

    @property
    def link(self) -> Link:
        """The link that this client was connected with."""
        if self._link is None:
            raise TypeError("this client has no link to shape: connect it with link=Link(...)")
        return self._link

    @property
    def resume_token(self) -> str | None:
        """The token for `server.connect(resume=...)`; None if this session cannot be resumed."""
        welcome = self._receiver.protocol.welcome
        return None if welcome is None else welcome.resume_token

    async def take(self, count: int = 1, track: str | None = None, *, within: float = 60.0) -> list[Frame]:
        """The next `count` frames of a track, none left out.

        Raises the model's own exception if that ends the session first, SessionEnded for any other end, and
        trio.TooSlowError, which says what the model did meanwhile, when no frame comes for `within` seconds of virtual time.
        """
        stream = self._stream(track)
        frames: list[Frame] = []
        while len(frames) < count:
            what = f"no frame of {self._find_track(track).name}", f", after {len(frames)} of {count}"
            frames.append(await self._within(within, stream.__anext__, *what))
        return frames

    async def take_after(self, command: int | None = None, track: str | None = None, *, within: float = 60.0) -> Frame:
        """The first frame of a track that was made with a command; those before it are passed over.

        `command` is the `last_command` of the controlling client, by default of this one: `await client.command(...)`, then
        `await client.take_after()`. Raises as `take` does, here if that frame does not come for `within` seconds, and
        ValueError if no command of this client has been applied yet.
        """
        number = self.last_command if command is None else command
        if number is None:
            raise ValueError("no command of this client has been applied yet")
        what = f"no frame of {self._find_track(track).name} with command {number}"
        return await self._within(within, partial(self._stream(track).after, number), what)

    async def next_message(self, *, within: float = 60.0) -> Message:
        """The model's next message. Raises as `take` does."""
        self._reading = self._reading or self.messages()
        return await self._within(within, self._reading.__anext__, "no message")

    async def upload(self, source: Source, *, name: str | None = None, mime_type: str | None = None) -> Upload:
        """As the real client's; takes no virtual time."""
        if not isinstance(source, bytes | bytearray | memoryview):
            path = Path(source)  # read here and not by a thread, which would run beside the virtual clock
            source, name = path.read_bytes(), path.name if name is None else name  # noqa: ASYNC240
        return await super().upload(source, name=name, mime_type=mime_type)

    async def push(
        self, track: str, *frames: Any, pts: float | None = None, codec: str = "raw", quality: int = 85,
        metadata: bytes | None = None, capture_time_us: int | None = None,
    ) -> None:
        """Send pictures or sound to an input track, and return when all that happens at this instant has happened.

        Raw, so that the model reads the same pixels. All carry the same `metadata` (pictures only) and `capture_time_us`,
        and the same `pts`, by default the virtual time since the first.
        """
        for frame in frames:
            if self._find_kind(track) == "audio":
                await self.push_audio(track, frame, pts, capture_time_us=capture_time_us)
            else:
                await self.push_video(
                    track, frame, pts, codec=codec, quality=quality, metadata=metadata, capture_time_us=capture_time_us
                )
        await self.server.settle()

    async def close(self) -> None:
        """Leave politely and wait until the server has released the session.

        Raises the exceptions of author code at the session's end, in a group if there are several.
        """
        await self.aclose()
        await self.server.wait_left(self)
        self.server.check_failures(self)

    async def vanish(self) -> None:
        """Disappear without a close message, as a machine that loses power, and wait until the server notices."""
        await self._connection.transport.aclose(1006)
        await trio.testing.wait_all_tasks_blocked()  # not `settle`: a step of the model may end only when the test allows it

    def stall(self) -> None:
        """Stop reading; sent messages stay in the server's socket."""
        self._stall.stall()

    def resume(self) -> None:
        """Read again."""
        self._stall.resume()

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        """Call `work` on this loop: virtual time does not wait for worker threads."""
        return work()

    def _find_kind(self, name: str) -> str | None:
        return next((track.kind for track in self.tracks if track.direction == "in" and track.name == name), None)

    def _stream(self, track: str | None) -> FrameStream:
        return self._taking.setdefault(track, self.frames(track))

    async def _within(self, seconds: float, get: Callable[[], Awaitable[T]], what: str, detail: str = "") -> T:
        before = self.server.mark(self)
        try:
            with trio.move_on_after(seconds):
                return await get()
        except StopAsyncIteration:
            raise SessionEnded(self.ended or "done") from None
        except SessionEnded as ended:
            raise (self.server.model_error(ended, self) or ended) from None
        done = await self.server.done_since(before, self)
        why = "; this client reads nothing since stall()" if self._stall.stalled else ""
        why += "; the session is paused" if self.playback.paused else ""
        raise trio.TooSlowError(f"{what} for {seconds:g} s{detail}. Meanwhile {done}{why}")
