"""The client of one session, over any Transport, on asyncio and on trio.

Commands are numbered and kept until they are answered (`outbox.py`). What comes, answers, frames and messages, goes to one
place (`receiver.py`), which outlives connections. One task (`line.py`) runs the connection that stands, knows how it ended,
and makes the next one when the link was lost and the server keeps the session: so whoever waits goes on waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import anyio
import anyio.to_thread
import msgspec
from numpy.typing import ArrayLike

from reactor_trio.client.client_transport import NO_CLOSE, Transport
from reactor_trio.client.decoders import wanted
from reactor_trio.client.feedback_sender import Teller
from reactor_trio.client.outbox import Outbox
from reactor_trio.client.persistent_connection import Follow, Line
from reactor_trio.client.push import Payload, Pushes, PushTrack, check_codec, checked_picture, encode_sound
from reactor_trio.client.receiver import Answer, Receiver
from reactor_trio.client.reconnecting import Reopen
from reactor_trio.client.session_protocol import Commanded, Conversation, Ending
from reactor_trio.client.statistics import Statistics
from reactor_trio.client.streams import FrameStream, MessageStream
from reactor_trio.client.uploads import Post, Source, Upload, upload
from reactor_trio.errors import UploadRefused
from reactor_trio.protocol import TrackInfo, Welcome

FRAMES_QUEUED = 64

T = TypeVar("T")


class Client:
    """One session. `connect()` makes one that is ready; `running()` makes one of any Transport ready.

    Args:
        transport: how messages travel; the client closes it.
        on_queued: called with `(position, total)` when the server has no room yet, and again at each change.
        on_ending: called with `(reason, seconds)` when the server says that the session will end, with None for seconds when
            it takes that back.
        on_waiting: called with the reason for which the server has no room, before `on_queued`, and when that changes.
        post: how uploads travel; without it there are none.
        feedback: whether the server is told of each video frame that comes.
        follow: makes the connection to where a gate sends this client; without it the server must not be a gate.
        reopen: makes another connection to this session when its link is lost; without it, or where the server keeps no
            session without its client, a lost link ends it.
        on_lost: called with the reason when the link is lost and the client begins to try again.
        on_resumed: called with the seconds that it was away when the session goes on.
    """

    #: frames that a consumer's queue holds
    frames_queued: ClassVar[int] = FRAMES_QUEUED

    def __init__(
        self,
        transport: Transport,
        *,
        on_queued: Callable[[int, int], object] | None = None,
        on_ending: Callable[[str, float | None], object] | None = None,
        on_waiting: Callable[[str], object] | None = None,
        post: Post | None = None,
        feedback: bool = False,
        follow: Follow | None = None,
        reopen: Reopen | None = None,
        on_lost: Callable[[str], object] | None = None,
        on_resumed: Callable[[float], object] | None = None,
    ) -> None:
        self._post = post
        self._conversation = Conversation()
        self._outbox = Outbox()
        self._pushes = Pushes()
        teller = Teller()
        self._receiver = Receiver(
            self._conversation, self._outbox, teller, on_queued, self.frames_queued, feedback,
            self._pushes.request_keyframe, on_ending, on_waiting,
        )  # fmt: skip
        self._line = Line(
            transport, self._receiver, self._outbox, teller,
            follow=follow, reopen=reopen, on_lost=on_lost, on_resumed=on_resumed, returned=self._pushes.restart,
        )  # fmt: skip

    @property
    def ended(self) -> str | None:
        """Why the session ended (`"lost"` if the link broke), None while it goes on."""
        return self._receiver.ended

    @property
    def connected(self) -> bool:
        """Whether the link stands: False while it is lost and tried again, and when the session has ended."""
        return self._line.stands

    @property
    def position(self) -> int | None:
        """Place in the server's queue, from 1; None if there is none or no more."""
        return self._receiver.position

    @property
    def ending(self) -> Ending | None:
        """Why the server will end the session (`"idle"`, `"expired"`, `"draining"`) and in how many `seconds`; else None."""
        if self._receiver.ending is None:
            return None
        reason, at = self._receiver.ending
        return Ending(reason, max(0.0, at - anyio.current_time()))

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
    def heartbeat(self) -> float:
        """Seconds between the server's pings."""
        return self._welcome.heartbeat

    @property
    def share_token(self) -> str | None:
        """With it as `token=` another client may watch this session, with `role="viewer"`; None for a viewer."""
        return self._welcome.share_token

    @property
    def schema(self) -> dict[str, Any]:
        """The model's tracks, commands and messages, as `GET /schema` gives them."""
        return self._welcome.schema

    @property
    def state(self) -> Mapping[str, Any]:
        """The value of each setting by its field's name, for a viewer too; it changes as the server tells.

        It has what `command` sets when that returns, and what the model or a handler changes at most 0.1 s and the way of a
        message later. Values that JSON cannot say (files, arrays) and those of more than 64 KiB of JSON are left out. While
        the link is lost nothing changes.
        """
        return MappingProxyType(self._conversation.state)

    @property
    def tracks(self) -> list[TrackInfo]:
        """The tracks as they are described now; sizes are None until the first frame is known."""
        return list(self._conversation.tracks.values())

    @property
    def last_command(self) -> int | None:
        """Id of the command that was applied last, None before the first.

        Frames that were made with it, or with a later one, have a `command_id` that is at least as high.
        """
        return self._receiver.last_command

    async def command(self, name: str, /, **arguments: Any) -> Any:
        """Send a command and wait until it is applied: the model's next step sees it. Returns its handler's reply.

        A link that is lost meanwhile makes it wait longer: commands are applied once and in order, also those given while
        there is no link. With 1024 commands unanswered, or 16 MiB of them, it first waits for an answer to one of them.

        Raises:
            CommandError: it was refused and changed nothing; the message names the offending value. Of code `answer_lost`:
                the link was away so long that the server has forgotten its answer.
            SessionEnded: the session ended first; whether the command was applied is not known.
            TypeError: an argument has no JSON form.

        Cancelling it stops the waiting, not the command, and leaves the connection usable.
        """
        await self._outbox.wait_room()
        self._receiver.check_alive()
        number, text = self._conversation.command(name, arguments, anyio.current_time())
        if self._receiver.tap is not None:
            self._receiver.tap(Commanded(number, name, arguments))
        answer = self._receiver.answers[number] = Answer()
        self._outbox.put(number, text)
        try:
            await answer.given.wait()
        except BaseException:
            self._conversation.forget(number)
            raise
        finally:
            del self._receiver.answers[number]
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
        self._receiver.check_alive()
        token = self._welcome.upload_token
        if token is None or self._post is None:
            why = "a viewer cannot upload" if self.role == "viewer" else f"{self.name} takes no files"
            raise UploadRefused(404, why)
        return await upload(self._post, token, source, name, mime_type)

    def frames(self, track: str | None = None, *, latest: bool = False) -> FrameStream:
        """An async iterator over a track's frames, in order, decoded as they are taken, on a worker thread if that costs.

        Its queue holds 64 frames; of a slower consumer's the oldest are dropped and counted in `statistics()`, with those
        that cannot be decoded without them; then the server is asked for a keyframe, as after a frame that is damaged and
        for an iterator that begins in mid-stream. Several iterators each get every frame. The first one of a track also
        gets up to 64 frames that came before it.

        Args:
            track: a name in `tracks`; by default the first output video track.
            latest: give the newest frame only. Of a codec between frames the others are decoded, but not converted.

        Raises ValueError if there is no such track. Iterating ends when the session ends politely (closed here, `done`,
        `client_left`) and raises SessionEnded if it ends otherwise, ProtocolError if a frame cannot be decoded.
        Cancelling it loses no frame.
        """
        reader = self._receiver.frames[self._find_track(track).index].subscribe(latest=latest)
        return FrameStream(
            reader, self._away, lambda received: self._conversation.given(received, anyio.current_time())
        )

    async def request_video(self, codecs: Iterable[str]) -> None:
        """Ask for other codecs from now on, best first; `[]` for no video until the next call.

        The server changes at its next frame. Raises ValueError if none of them can be decoded here, SessionEnded.
        """
        text = self._conversation.request_video(wanted(codecs))
        self._receiver.check_alive()
        await self._line.send(text)  # where it is not sent, the next connection asks for them
        self._receiver.check_alive()

    def messages(self) -> MessageStream:
        """An async iterator over the model's messages; ends as `frames()` does.

        The queue holds 1024 messages, then the oldest are dropped and counted. The first iterator also gets those that
        came before it.
        """
        return MessageStream(self._receiver.messages.subscribe())

    def statistics(self) -> Statistics:
        """Rates, jitter, latency and losses until now."""
        lost = {index: (frames.dropped, frames.skipped) for index, frames in self._receiver.frames.items()}
        figures = self._conversation.statistics(anyio.current_time(), lost, self._receiver.messages.dropped)
        return msgspec.structs.replace(figures, comebacks=self._line.comebacks, seconds_lost=self._line.seconds_lost)

    async def push_video(
        self, track: str | None, frame: ArrayLike, pts: float | None = None, *, codec: str = "jpeg", quality: int = 85
    ) -> bool:
        """Send a picture to the model; returns True when it is on its way, False if a newer one has taken its place or the
        link was lost under it.

        Pushed one after the other, all are sent. While one is under way, of those that other tasks push meanwhile only the
        newest is kept. While the link is lost it waits.

        Args:
            track: a name in `tracks`; None: the first input video track.
            frame: `(H, W, 3)` uint8 RGB; not to be changed until this returns.
            pts: when it was captured, in seconds from the first one; by default now.
            codec: `"jpeg"`, encoded on a worker thread, `"raw"` for the exact pixels, or `"h264"`, `"vp8"`, `"vp9"` by the
                extra `reactor-trio[video]`, if the server has it too. A packet larger than the server's limit (4 MiB) closes
                the connection.
            quality: of the JPEG, 1 to 100.

        Raises ValueError if there is no such track, this is no picture or the codec is not there, SessionEnded when the
        session is over. What the server cannot use it says in a message of type `reactor.error`. Cancelled before it was
        sent, nothing is.
        """
        self._receiver.check_alive()
        way, picture = self._find_input(track, "video"), checked_picture(frame)
        check_codec(codec)
        captured = self._pushes.captured(pts)

        async def encode() -> Payload:
            await self._line.wait_usable()
            work = partial(way.encode, picture, captured, codec, quality)
            return work() if codec == "raw" else await self._away(work)

        return await way.push_newest(captured, encode, self._send_bytes)

    async def push_audio(self, track: str | None, samples: ArrayLike, pts: float | None = None) -> None:
        """Send sound to the model; returns when it is on its way.

        While the link is lost it waits; what was under way then may not arrive.

        Args:
            track: a name in `tracks`; None: the first input audio track.
            samples: int16 `(1, M)` or `(M,)`, at the track's `sample_rate`.
            pts: when the first sample was captured, in seconds, on the clock of `push_video`; by default now.

        Raises as `push_video` does.
        """
        self._receiver.check_alive()
        way = self._find_input(track, "audio")
        await way.push(self._pushes.captured(pts), encode_sound(samples), self._send_bytes)

    async def feedback(self, track: str | None, seq: int) -> None:
        """Tell the server the newest frame shown of `track` (a name; None as in `frames()`). Raises SessionEnded."""
        self._receiver.check_alive()
        await self._line.send(self._conversation.feedback(self._find_track(track).index, seq))
        self._receiver.check_alive()

    async def aclose(self) -> None:
        """Leave the session politely, within 1 s and also under cancellation. A second call does nothing more.

        The session ends at once; while the link is lost the server cannot be told, and keeps it until its time is over.
        """
        await self._line.aclose()

    async def vanish(self) -> None:
        """Be gone without a word, as a program that is killed; for tests of a server, which may keep the session."""
        await self._line.aclose(NO_CLOSE)

    @property
    def _transport(self) -> Transport:
        return self._line.transport

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
        return self._pushes.find((track for track in self.tracks if track.direction == "in"), name, kind)

    async def _away(self, work: Callable[[], T]) -> T:
        """What `work` returns, off the loop."""
        return await anyio.to_thread.run_sync(work)

    async def _send_bytes(self, data: bytes) -> bool:
        sent = await self._line.send_bytes(data)
        self._receiver.check_alive()
        return sent
