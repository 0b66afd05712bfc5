"""The client of one session, over any Transport, on asyncio and on trio.

One task receives and never waits for a consumer: answers wake their callers, frames and messages go to bounded queues
(`broadcast.py`), still encoded; they are decoded where they are taken (`streams.py`).

A session ends once, for one reason: our own close, the server's `reactor.bye`, or what the transport says. After a
polite end the iterators simply stop; after any other they raise SessionEnded, once what had arrived is taken.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

import anyio
import anyio.to_thread
from numpy.typing import ArrayLike

from reactor_trio.client.broadcast import Broadcast
from reactor_trio.client.conversation import (
    Answered,
    Bye,
    Conversation,
    Message,
    Queued,
    Received,
    TrackChanged,
    Welcomed,
)
from reactor_trio.client.push import Payload, PushTrack, checked_picture, encode_picture, encode_sound
from reactor_trio.client.statistics import Statistics
from reactor_trio.client.streams import FrameStream, MessageStream
from reactor_trio.client.transport import Transport, TransportClosed
from reactor_trio.client.uploads import Post, Source, Upload, upload
from reactor_trio.errors import ProtocolError, SessionEnded, UploadRefused
from reactor_trio.protocol import TrackInfo, Welcome, encode_client_text

FRAMES_QUEUED = 64
MESSAGES_QUEUED = 1024

_POLITE = ("client_left", "done")
#: What a close without a `reactor.bye` means; any other code is a lost link.
_REASONS = {1000: "done", 1002: "protocol_error", 1007: "protocol_error", 1009: "too_big"}


class _Answer:
    """A command's caller waits here."""

    def __init__(self) -> None:
        self.given = anyio.Event()
        self.reply: Any = None
        self.error: Exception | None = None

    def give(self, reply: Any = None, error: Exception | None = None) -> None:
        # The session may end before the caller of an answered command runs again.
        if not self.given.is_set():
            self.reply, self.error = reply, error
            self.given.set()


class Client:
    """One session. `connect()` makes one that is ready; `running()` makes one of any Transport ready.

    Args:
        transport: how messages travel; the client closes it.
        on_queued: called with `(position, total)` when the server has no room yet, and again at each change.
        post: how uploads travel; without it there are none.
    """

    #: frames that a consumer's queue holds
    frames_queued: ClassVar[int] = FRAMES_QUEUED

    def __init__(
        self,
        transport: Transport,
        *,
        on_queued: Callable[[int, int], object] | None = None,
        post: Post | None = None,
    ) -> None:
        self._transport = transport
        self._post = post
        self._on_queued = on_queued
        self._conversation = Conversation()
        self._answers: dict[int, _Answer] = {}
        self._frames: dict[int, Broadcast[Received]] = {}
        self._messages: Broadcast[Message] = Broadcast(MESSAGES_QUEUED)
        self._pushes: dict[int, PushTrack] = {}
        self._first_push: float | None = None
        self._end_message = ""
        self._over = anyio.Event()
        #: Why the session ended (`"lost"` if the link broke), None while it goes on.
        self.ended: str | None = None
        #: Place in the server's queue, from 1; None if there is none or no more.
        self.position: int | None = None

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._welcome.session_id

    @property
    def name(self) -> str:
        """The served model's name."""
        return self._welcome.name

    @property
    def role(self) -> str:
        """`"control"` or `"viewer"`."""
        return self._welcome.role

    @property
    def schema(self) -> dict[str, Any]:
        """The model's tracks, commands and messages, as `GET /schema` gives them."""
        return self._welcome.schema

    @property
    def tracks(self) -> list[TrackInfo]:
        """The tracks as they are described now; sizes are None until the first frame is known."""
        return list(self._conversation.tracks.values())

    async def command(self, name: str, /, **arguments: Any) -> Any:
        """Send a command and wait until it is applied: the model's next step sees it. Returns its handler's reply.

        Raises:
            CommandError: it was refused and changed nothing; the message names the offending value.
            SessionEnded: the session ended first; whether the command was applied is not known.
            TypeError: an argument has no JSON form.

        Cancelling it stops the waiting, not the command, and leaves the connection usable.
        """
        self._check_alive()
        number, text = self._conversation.command(name, arguments, anyio.current_time())
        answer = self._answers[number] = _Answer()
        try:
            await self._send(text)
            await answer.given.wait()
        except BaseException:
            self._conversation.forget(number)
            raise
        finally:
            del self._answers[number]
        if answer.error is not None:
            raise answer.error
        return answer.reply

    async def upload(self, source: Source, *, name: str | None = None, mime_type: str | None = None) -> Upload:
        """Send a file; what is returned may be passed to a command, as the argument that wants a file.

        Args:
            source: a path, or the bytes.
            name: what the model is told that it is called; by default the path's last part, or `file`.
            mime_type: by default guessed from the name.

        Raises:
            UploadRefused: the server did not take it; its words, and the HTTP `status`.
            SessionEnded: the session is over.
            OSError: the file cannot be read, or the connection broke.

        A file lives on the server until the session ends. Cancelling an upload leaves nothing of it there.
        """
        self._check_alive()
        token = self._welcome.upload_token
        if token is None or self._post is None:
            why = "a viewer cannot upload" if self.role == "viewer" else f"{self.name} takes no files"
            raise UploadRefused(404, why)
        return await upload(self._post, token, source, name, mime_type)

    def frames(self, track: str | None = None, *, latest: bool = False) -> FrameStream:
        """An async iterator over a track's frames, in order, decoded as they are taken.

        Its queue holds 64 frames; of a slower consumer's the oldest are dropped and counted in `statistics()`. Several
        iterators each get every frame. The first one of a track also gets up to 64 frames that came before it.

        Args:
            track: a name in `tracks`; by default the first output video track.
            latest: keep the newest frame only.

        Raises ValueError if there is no such track. Iterating ends when the session ends politely (closed here, `done`,
        `client_left`) and raises SessionEnded if it ends otherwise, ProtocolError if a frame cannot be decoded.
        Cancelling it loses no frame.
        """
        return FrameStream(self._frames[self._find_track(track).index].subscribe(latest=latest))

    def messages(self) -> MessageStream:
        """An async iterator over the model's messages; ends as `frames()` does.

        The queue holds 1024 messages, then the oldest are dropped and counted. The first iterator also gets those that
        came before it.
        """
        return MessageStream(self._messages.subscribe())

    def statistics(self) -> Statistics:
        """Rates, jitter, latency and losses until now."""
        lost = {index: (frames.dropped, frames.skipped) for index, frames in self._frames.items()}
        return self._conversation.statistics(anyio.current_time(), lost, self._messages.dropped)

    async def push_video(
        self, track: str | None, frame: ArrayLike, pts: float | None = None, *, codec: str = "jpeg", quality: int = 85
    ) -> bool:
        """Send a picture to the model; returns when it is on its way, True, or a newer one has taken its place, False.

        Pushed one after the other, all are sent. While one is under way, of those that other tasks push meanwhile only the
        newest is kept.

        Args:
            track: a name in `tracks`; None: the first input video track.
            frame: `(H, W, 3)` uint8 RGB; not to be changed until this returns.
            pts: when it was captured, in seconds from the first one; by default now.
            codec: `"jpeg"`, encoded on a worker thread, or `"raw"` for the exact pixels. A packet larger than the server's
                limit (4 MiB) closes the connection.
            quality: of the JPEG, 1 to 100.

        Raises ValueError if there is no such track or this is no picture, SessionEnded when the session is over. What the
        server cannot use it says in a message of type `reactor.error`. Cancelled before it was sent, nothing is.
        """
        self._check_alive()
        way, picture = self._find_input(track, "video"), checked_picture(frame)
        captured = self._captured(pts)

        async def encode() -> Payload:
            if codec == "raw":
                return encode_picture(picture, codec, quality)
            return await self._encode(encode_picture, picture, codec, quality)

        return await way.push_newest(captured, encode, self._send_bytes)

    async def push_audio(self, track: str | None, samples: ArrayLike, pts: float | None = None) -> None:
        """Send sound to the model; returns when it is on its way.

        Args:
            track: a name in `tracks`; None: the first input audio track.
            samples: int16 `(1, M)` or `(M,)`, at the track's `sample_rate`.
            pts: when the first sample was captured, in seconds, on the clock of `push_video`; by default now.

        Raises as `push_video` does.
        """
        self._check_alive()
        way = self._find_input(track, "audio")
        await way.push(self._captured(pts), encode_sound(samples), self._send_bytes)

    async def feedback(self, track: str | None, seq: int) -> None:
        """Tell the server the newest frame shown of `track` (a name; None as in `frames()`). Raises SessionEnded."""
        self._check_alive()
        await self._send(
            encode_client_text("reactor.feedback", {"track": self._find_track(track).index, "seq": seq})
        )
        self._check_alive()

    async def aclose(self) -> None:
        """Leave the session politely, within 1 s and also under cancellation. A second call does nothing more."""
        self._finish("client_left")
        await self._transport.aclose()

    @property
    def _welcome(self) -> Welcome:
        welcome = self._conversation.welcome
        assert welcome is not None, "running() has not been entered"
        return welcome

    def _find_track(self, name: str | None) -> TrackInfo:
        outputs = [track for track in self.tracks if track.direction == "out"]
        for track in outputs:
            if track.name == name or (name is None and track.kind == "video"):
                return track
        wanted = "video output track" if name is None else f"output track {name!r}"
        raise ValueError(f"no {wanted}; this session has {', '.join(track.name for track in outputs) or 'none'}")

    def _find_input(self, name: str | None, kind: str) -> PushTrack:
        inputs = [track for track in self.tracks if track.direction == "in"]
        for track in inputs:
            if track.kind == kind and name in (None, track.name):
                return self._pushes.setdefault(track.index, PushTrack(track))
        wanted = f"{kind} input track" + ("" if name is None else f" {name!r}")
        raise ValueError(f"no {wanted}; this session has {', '.join(track.name for track in inputs) or 'none'}")

    def _captured(self, pts: float | None) -> float:
        if pts is None:
            now = anyio.current_time()
            self._first_push = now if self._first_push is None else self._first_push
            return now - self._first_push
        if not 0 <= pts < math.inf:
            raise ValueError(f"pts: expected seconds, 0 or more, got {pts!r}")
        return pts

    async def _encode(self, encode: Callable[..., Payload], /, *args: Any) -> Payload:
        return await anyio.to_thread.run_sync(encode, *args)

    async def _send_bytes(self, data: bytes) -> None:
        try:
            await self._transport.send_bytes(data)
        except TransportClosed:
            await self._over.wait()  # as in `_send`
        self._check_alive()

    async def _send(self, text: str) -> None:
        """Send `text`, or return once the session is over."""
        try:
            await self._transport.send(text)
        except TransportClosed:
            # The receiving task knows the reason: it still gets the server's last words.
            await self._over.wait()

    # The receiving task

    async def _wait_welcome(self) -> None:
        while self._conversation.welcome is None:
            await self._receive()
            if self.ended is not None:
                raise self._session_ended()

    async def _receive_all(self) -> None:
        while await self._receive():
            pass

    async def _receive(self) -> bool:
        """Take one message; False if there are no more."""
        try:
            data = await self._transport.receive()
            if isinstance(data, str):
                self._take_text(data)
            else:
                self._take_packet(data)
        except TransportClosed as closed:
            words = f"{closed.reason or 'the connection closed'} (code {closed.code})"
            self._finish(_REASONS.get(closed.code, "lost"), words)
            return False
        except ProtocolError as error:
            self._finish("protocol_error", f"the server broke the protocol: {error}")
            await self._transport.aclose(1002, str(error))
            return False
        return True

    def _take_text(self, text: str) -> None:
        match self._conversation.receive_text(text, anyio.current_time()):
            case Queued(position, total):
                self.position = position
                if self._on_queued is not None:
                    self._on_queued(position, total)
            case Welcomed():
                self.position = None
                for track in self.tracks:
                    self._open_track(track)
            case TrackChanged(track):
                self._open_track(track)
            case Answered(number, reply, error):
                # None: its caller was cancelled.
                if (answer := self._answers.get(number)) is not None:
                    answer.give(reply, error)
            case Message() as message:
                self._messages.put(message)
            case Bye(reason, message):
                self._finish(reason, message)

    def _take_packet(self, data: bytes | bytearray | memoryview) -> None:
        received = self._conversation.receive_packet(data, anyio.current_time())
        if received.track.direction != "out":
            raise ProtocolError(f"a packet of the input track {received.track.name}")
        self._frames[received.track.index].put(received)

    def _open_track(self, track: TrackInfo) -> None:
        if track.index not in self._frames:
            self._frames[track.index] = Broadcast(self.frames_queued)

    # The end

    def _finish(self, reason: str, message: str = "") -> None:
        """The session is over; only the first reason counts."""
        if self.ended is not None:
            return
        self.ended, self._end_message = reason, message
        self._over.set()
        for answer in self._answers.values():
            answer.give(error=self._session_ended())
        for frames in self._frames.values():
            frames.end(self._stop)
        self._messages.end(self._stop)

    def _session_ended(self) -> SessionEnded:
        assert self.ended is not None
        return SessionEnded(self.ended, f"{self.ended}: {self._end_message}" if self._end_message else "")

    def _stop(self) -> Exception:
        """What an iterator raises at the end."""
        return StopAsyncIteration() if self.ended in _POLITE else self._session_ended()

    def _check_alive(self) -> None:
        if self.ended is not None:
            raise self._session_ended()


C = TypeVar("C", bound=Client)


@asynccontextmanager
async def running(client: C) -> AsyncIterator[C]:
    """Wait for the session to begin, run the receiving task during the block, and leave politely.

    Waiting in the server's queue has no limit of its own; cancelling it leaves the queue. An exception of the block
    comes out as it is, never inside a group. Raises SessionEnded if the server ends the session before it begins.
    """
    try:
        await client._wait_welcome()
    except BaseException:
        await client.aclose()
        raise
    failure: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client._receive_all)
            try:
                yield client
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:
                # Carried around the task group, which would wrap it.
                failure = error
            finally:
                await client.aclose()
            tasks.cancel_scope.cancel()
    finally:
        if failure is not None:
            raise failure
