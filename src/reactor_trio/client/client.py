"""The client of one session over any Transport, on asyncio and on trio.

The Client is the public face of two objects:

* The Receiver (`receiver.py`) is the session's state and outlives connections. It takes answers, frames and messages from
  the server. It owns what waits to be sent: the commands, kept until the server answers them, the feedback (both in
  `outbox.py`), and the input tracks with their encoders (`push.py`).
* The PersistentConnection (`persistent_connection.py`) receives and sends. When the link is lost and the server keeps
  the session, it reconnects, so callers that wait simply wait longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

import anyio.to_thread
from numpy.typing import ArrayLike

from reactor_trio.client.client_transport import Transport
from reactor_trio.client.decoders import wanted
from reactor_trio.client.http_request import Get, Post
from reactor_trio.client.persistent_connection import Follow, PersistentConnection
from reactor_trio.client.playback import TransportControl
from reactor_trio.client.push import Payload, PushTrack, check_codec, checked_picture, encode_sound
from reactor_trio.client.receiver import Callbacks, Receiver, ReplyFuture, ignore
from reactor_trio.client.reconnecting import Reopen
from reactor_trio.client.session_view import SessionView
from reactor_trio.client.statistics import Statistics
from reactor_trio.client.streams import FrameStream, MessageStream
from reactor_trio.client.uploads import Source, Upload, upload
from reactor_trio.client.world_control import WorldControl
from reactor_trio.errors import UploadRefused
from reactor_trio.protocol import TrackInfo
from reactor_trio.protocol.close_codes import ABNORMAL

T = TypeVar("T")


class Client(SessionView):
    """One session. `connect()` yields one that is ready; `running()` makes one over any Transport ready.

    Args:
        transport: the connection. The client closes it.
        on_queued: called with `(position, total)` when the server has no room yet, and again at each change.
        on_ending: called with `(reason, seconds)` of the session's announced end; `seconds` is None when it is cancelled.
        on_waiting: called with the reason why the server has no room, before `on_queued`, and again when the reason changes.
        post: sends uploads. Without it `upload` raises UploadRefused.
        get: gets the pictures of moments.
        feedback: whether the client acknowledges each video frame that it receives.
        follow: connects to the replica to which a gate sends this client. Without it the server must not be a gate.
        reopen: makes another connection to this session when the link is lost. Without it a lost link ends the session, as
            it does where the server does not keep sessions for lost clients.
        on_lost: called with the reason when the link is lost and the client starts to reconnect.
        on_resumed: called with the seconds without a link when the session continues.

    The functions that are called must not wait. What one of them raises ends the session, and leaves the block as it is.
    """

    #: length of each frame iterator's queue
    frames_queued: ClassVar[int] = 64
    #: most bytes in the queue of each iterator over frames or messages, and of what is kept before the first one
    queued_bytes: ClassVar[int] = 64 * 1024 * 1024

    def __init__(
        self,
        transport: Transport,
        *,
        on_queued: Callable[[int, int], object] | None = None,
        on_ending: Callable[[str, float | None], object] | None = None,
        on_waiting: Callable[[str], object] | None = None,
        post: Post | None = None,
        get: Get | None = None,
        feedback: bool = False,
        follow: Follow | None = None,
        reopen: Reopen | None = None,
        on_lost: Callable[[str], object] | None = None,
        on_resumed: Callable[[float], object] | None = None,
    ) -> None:
        self._post = post
        callbacks = Callbacks(
            on_queued or ignore, on_waiting or ignore, on_ending or ignore, on_lost or ignore, on_resumed or ignore
        )
        receiver = Receiver(callbacks, self.frames_queued, self.queued_bytes, feedback)
        super().__init__(receiver, PersistentConnection(transport, receiver, follow, reopen))
        self._protocol = receiver.protocol
        self._playback = TransportControl(self._protocol, self.command)
        self._worlds = WorldControl(receiver, self.command, get)

    @property
    def playback(self) -> TransportControl:
        """Pause, step and restart the model, where it allows that."""
        return self._playback

    @property
    def worlds(self) -> WorldControl:
        """Go back to an earlier moment of the session, save its world and restore it, if its model saves worlds."""
        return self._worlds

    @property
    def transport(self) -> TransportControl:
        """`playback` by its older name, which is also the wire's. It is not the `transport` of this class's arguments."""
        return self._playback

    async def command(self, name: str, /, **arguments: Any) -> Any:
        """Send a command, wait until the model has applied it, and return its handler's reply.

        The model's next step sees the command. If the link is lost meanwhile, the call waits longer: the model applies each
        command once and in order, also the commands that are given while there is no link. With 1024 commands unanswered, or
        16 MiB of them, the call first waits for an answer to one of them.

        Raises:
            CommandError: the server refused the command, which changed nothing; the message names the offending value. With
                code `answer_lost` it is not known whether the model applied it: the link was away so long that the server
                forgot the answer.
            SessionEnded: the session ended first. It is not known whether the model applied the command.
            TypeError: an argument has no JSON form.

        Cancellation stops the waiting, not the command, and leaves the connection usable.
        """
        await self._receiver.outbox.wait_room()
        self._receiver.check_alive()
        number = self._receiver.give(name, arguments)
        answer = self._receiver.answers[number] = ReplyFuture()
        try:
            await answer.done.wait()
        except BaseException:
            self._protocol.commands.forget(number)
            raise
        finally:
            del self._receiver.answers[number]
        if answer.error is not None:
            raise answer.error
        return answer.reply

    async def upload(self, source: Source, *, name: str | None = None, mime_type: str | None = None) -> Upload:
        """Send a file to the server. Pass the returned Upload to a command, as the argument that takes a file.

        Args:
            source: a path, or the bytes.
            name: the file's name for the model; by default the last part of the path, or `file`.
            mime_type: by default guessed from the name.

        Raises:
            UploadRefused: the server, or a proxy in front of it, refused it; why, in one line, and the HTTP `status`.
            SessionEnded: the session is over.
            OSError: the file cannot be read, or the connection broke.

        The server keeps a file until the session ends. A cancelled upload leaves nothing on the server.
        """
        self._receiver.check_alive()
        token = self.welcome.upload_token
        if token is None or self._post is None:
            why = "a viewer cannot upload" if self.role == "viewer" else f"{self.name} takes no files"
            raise UploadRefused(404, why)
        return await upload(self._post, token, source, name, mime_type)

    def frames(self, track: str | None = None, *, latest: bool = False) -> FrameStream:
        """Return an async iterator over a track's frames, in order.

        A frame is decoded when you take it, on a worker thread if that is expensive. The iterator's queue holds 64 frames.
        If you take them too slowly, the oldest frames are dropped, and with them the frames that depend on them;
        `statistics()` counts both. The client then asks the server for a keyframe. It also asks after a damaged frame, and
        for an iterator that starts in the middle of the stream. Each of several iterators gets every frame. The first
        iterator of a track also gets up to 64 frames, or 64 MiB, that came before it.

        Args:
            track: a name in `tracks`; by default the first output video track.
            latest: give only the newest frame. With an inter-frame codec the others are decoded, but not converted to RGB.

        Raises ValueError if there is no such track. The iteration ends when the session ends politely (closed here, `done`,
        `client_left`). It raises SessionEnded if the session ends otherwise, and ProtocolError if frames cannot be decoded.
        Cancellation loses no frame.
        """
        reader = self._receiver.frames[self._find_track(track).index].subscribe(latest=latest)
        return FrameStream(reader, self._run_in_thread, self._protocol.latency)

    async def request_video(self, codecs: Iterable[str], tracks: Mapping[str, Iterable[str]] | None = None) -> None:
        """Ask for other video codecs from now on, best first; `[]` for no video until the next call.

        The server changes the codec at its next frame. Each call replaces the whole choice. A reconnected client keeps it.

        Args:
            codecs: for all output video tracks.
            tracks: other codecs for single tracks, by their names: `{"depth": []}` stops one track, and
                `request_video([], {"main_video": ["jpeg"]})` leaves only one.

        Raises ValueError if there is no such track, or none of the codecs of a list can be decoded here, and SessionEnded.
        """
        for name in tracks or {}:
            self._find_track(name, kind="video")
        named = {name: wanted(given) for name, given in (tracks or {}).items()}
        # If the connection breaks, the next one asks for these codecs.
        await self._connection.send(self._protocol.request_video(wanted(codecs), named))

    def messages(self) -> MessageStream:
        """Return an async iterator over the model's messages. It ends as the iterator of `frames()` does.

        The queue holds 1024 messages; the oldest are then dropped and counted. The first iterator also gets the messages
        that came before it, up to 64 MiB of them.
        """
        return MessageStream(self._receiver.messages.subscribe())

    def statistics(self) -> Statistics:
        """Return rates, jitter, latency and losses of the session until now."""
        lost = {index: (frames.dropped_by_readers, frames.skipped) for index, frames in self._receiver.frames.items()}
        dropped, connection = self._receiver.messages.dropped, self._connection
        return self._protocol.statistics(anyio.current_time(), lost, dropped, connection.comebacks, connection.seconds_lost)

    async def push_video(
        self, track: str | None, frame: ArrayLike, pts: float | None = None, *, codec: str = "jpeg", quality: int = 85,
        metadata: bytes | None = None, capture_time_us: int | None = None,
    ) -> bool:
        """Send a picture to the model. Returns True when it is sent; False if a newer one replaced it, or the link broke.

        Pictures that you push one after the other are all sent. While one picture is under way, the client keeps only the
        newest of those that other tasks push. While the link is lost the call waits.

        Args:
            track: a name in `tracks`; None: the first input video track.
            frame: `(H, W, 3)` uint8 RGB. Do not change it until this returns.
            pts: capture time in seconds since the first picture; by default now.
            codec: `"jpeg"`, encoded on a worker thread; `"raw"` for the exact pixels; or `"h264"`, `"vp8"`, `"vp9"`, which
                need the extra `reactor-trio[video]` here and at the server. A packet larger than the server's limit (4 MiB)
                closes the connection.
            quality: JPEG quality, 1 to 100.
            metadata, capture_time_us: bytes, and microseconds of a clock of your choice, that the model reads with it.

        Raises ValueError if there is no such track, the array is not a picture or the codec is missing; SessionEnded when
        the session is over. If the server cannot use the picture, it sends a message of type `reactor.error`. If the call is
        cancelled while it waits, nothing is sent; later, the picture is sent whole. The connection goes on in both cases.
        """
        self._receiver.check_alive()
        push_track, picture = self._find_input(track, "video"), checked_picture(frame)
        check_codec(codec)
        captured = self._receiver.push_tracks.capture_time(pts)

        async def encode() -> Payload:
            await self._connection.wait_available()
            work = partial(push_track.encode, picture, captured, codec, quality)
            return (work() if codec == "raw" else await self._run_in_thread(work)).stating(metadata, capture_time_us)

        return await push_track.push_newest(captured, encode, self._connection.send_bytes)

    async def push_audio(
        self, track: str | None, samples: ArrayLike, pts: float | None = None, *, capture_time_us: int | None = None
    ) -> None:
        """Send sound to the model; returns when it is sent.

        While the link is lost the call waits. Sound that was under way when the link broke may be lost.

        Args:
            track: a name in `tracks`; None: the first input audio track.
            samples: int16 `(1, M)` or `(M,)`, at the track's `sample_rate`.
            pts, capture_time_us: as in `push_video`, of the first sample and on the same clocks.

        Raises as `push_video` does, and is cancelled as that is.
        """
        self._receiver.check_alive()
        push_track, captured = self._find_input(track, "audio"), self._receiver.push_tracks.capture_time(pts)
        payload = encode_sound(samples).stating(None, capture_time_us)
        await push_track.push(captured, payload, self._connection.send_bytes)

    async def feedback(self, track: str | None, seq: int) -> None:
        """Acknowledge frame `seq`, the newest shown, of `track` (a name; None as in `frames()`). Raises SessionEnded."""
        await self._connection.send(self._protocol.feedback(self._find_track(track).index, seq))

    async def aclose(self) -> None:
        """Leave the session politely, within 1 s and also under cancellation. A second call does nothing.

        The session ends at once. While the link is lost the client cannot tell the server, which then keeps the session
        until its time is over.
        """
        await self._connection.aclose()

    async def vanish(self) -> None:
        """Break the connection without a close frame, as a killed program does; the server may keep the session.

        This is for tests of a server.
        """
        await self._connection.aclose(ABNORMAL)

    def _find_track(self, name: str | None, direction: str = "out", kind: str | None = None) -> TrackInfo:
        """Return the track of that name; for None the first of `kind`, by default video. Raises ValueError."""
        kind = "video" if name is None and kind is None else kind
        tracks = [track for track in self.tracks if track.direction == direction]
        for track in tracks:
            if name in (None, track.name) and kind in (None, track.kind):
                return track
        wanted = " ".join(filter(None, (kind, f"{direction}put track", name and repr(name))))
        raise ValueError(f"no {wanted}; this session has {', '.join(track.name for track in tracks) or 'none'}")

    def _find_input(self, name: str | None, kind: str) -> PushTrack:
        return self._receiver.push_tracks.of(self._find_track(name, "in", kind))

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` on a worker thread and return its result."""
        return await anyio.to_thread.run_sync(work)
