"""Records a session to files: an additional viewer, whose connection is a recorder.

The recorder shares encoders by the same rules as every viewer and has no congestion window: frames wait for the disk in a
bounded queue (`reactor_trio.recording`). As the session's journal it gets everything besides frames.

    run_session -+- session.run   at its end every viewer gets a goodbye
                 '- _record       shielded, so that the files are completed; for a limited time, since a disk may hang
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import trio

from reactor_trio.concurrency.lost_time import patient
from reactor_trio.connection import ClientSender, ConnectRequest
from reactor_trio.errors import ManifestError, ReactorError
from reactor_trio.media import Bundle, choose_codecs, to_host
from reactor_trio.protocol import TrackInfo, Welcome, decode_packet, decode_server_text, presentable
from reactor_trio.recording import (
    LONGEST_REFUSED,
    Recorder,
    command_line,
    container_of,
    cut_arguments,
    frames_line,
    message_line,
    saved_line,
    session_line,
    track_line,
    upload_line,
)
from reactor_trio.session import Session
from reactor_trio.session.playback_commands import without_ids
from reactor_trio.session.upload_store import StoredUpload
from reactor_trio.transport import MessageChannel

log = logging.getLogger("reactor_trio.server")

#: seconds that opening the files may take, and ending them after the session's end
OPENING, CLOSING = 5.0, 10.0


def recording_folder(text: str) -> Path:
    """Make the folder for recordings if needed. Raises ManifestError if that fails or PyAV is missing."""
    folder = Path(text).expanduser()
    try:
        container_of(folder / "TIME-SESSION.mp4")  # as its files will be called
        folder.mkdir(parents=True, exist_ok=True)
    except ReactorError as error:
        raise ManifestError(f"runtime.record: {error}") from None
    except OSError as error:
        raise ManifestError(f"runtime.record: {folder}: {error.strerror or error}") from None
    return folder


def recorder_request() -> ConnectRequest:
    """Return the connect request of the recorder."""
    return ConnectRequest("viewer", choose_codecs(container_of(Path("any.mp4")).video))


class SessionRecording(MessageChannel):
    """Records one session: its journal, and the stream of a connection without a peer.

    Args:
        session: not running yet.
        sender: the recorder's sender, which has joined the session's renditions.
        welcome: its first message.
        run: see `run_facts`.
    """

    peer = "recorder"

    def __init__(
        self, folder: Path, session: Session, sender: ClientSender, welcome: Welcome, run: Mapping[str, Any]
    ) -> None:
        self._closed = False
        self._path = folder / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}-{session.id}.mp4"
        self._session = session
        self._sender = sender
        self._disk = session.services.disk
        self._news = trio.Event()  # for the task that writes
        self._tracks = {track.index: track for track in welcome.tracks}
        self._recorder: Recorder | None = None
        begun_from = None
        if session.worlds is not None:
            session.worlds.journal = self
            begun_from = session.worlds.begun_from
        self._early = [session_line(welcome, run, begun_from)]
        session.journal = self
        session.attach(sender)

    async def run_session(self, run: Callable[[], Awaitable[None]]) -> None:
        """Run the session by `run`; returns when it is over and its files are complete, also if cancelled."""
        self._recorder = await self._open()
        async with trio.open_nursery() as nursery:
            if self._recorder is None:
                self._leave()
            else:
                for line in self._early:
                    self._recorder.note(line)
                self._session.playout.made = self._made
                nursery.start_soon(self._record, self._recorder)
            await run()

    async def _open(self) -> Recorder | None:
        with patient(trio.move_on_after(OPENING, shield=True)):
            try:
                tracks = list(self._tracks.values())
                most = self._session.services.settings.limits.timeline_bytes
                recorder: Recorder = await self._disk(partial(Recorder, self._path, tracks, most), abandon_on_cancel=True)
            except ReactorError as error:
                log.error("session %s is not recorded: %s", self._session.id, error)
                return None
            except Exception as error:  # the session goes on, whatever happens to its recording
                log.error("session %s is not recorded: please report this", self._session.id, exc_info=error)
                return None
            return recorder
        log.error("session %s is not recorded: the disk did not make %s in %g s", self._session.id, self._path, OPENING)
        return None

    async def _record(self, recorder: Recorder) -> None:
        """Write until the session has said goodbye, then end the files."""
        try:
            with patient(trio.CancelScope(shield=True)) as scope:
                await self._write(recorder, scope)
        finally:
            self._leave()  # also if the disk hangs
        if scope.cancelled_caught:
            log.error("session %s: the disk did not take the end of %s in %g s", self._session.id, self._path, CLOSING)

    async def _write(self, recorder: Recorder, scope: trio.CancelScope) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._bound, scope)
            nursery.start_soon(self._sender.send, self)
            while not self._closed:
                if recorder.waiting:
                    await self._disk(recorder.write, abandon_on_cancel=True)
                    self._count(recorder)
                else:
                    self._news = trio.Event()
                    await self._news.wait()
            self._leave()
            reason = self._session.reason or self._sender.end_reason or "client_left"
            await self._disk(partial(recorder.close, self._now(), reason), abandon_on_cancel=True)
            self._count(recorder)
            log.info("session %s: recorded %s: %s", self._session.id, self._path, recorder.summary())
            nursery.cancel_scope.cancel()

    async def _bound(self, scope: trio.CancelScope) -> None:
        await self._session.ended.wait()
        scope.deadline = trio.current_time() + CLOSING

    def _leave(self) -> None:
        self._session.journal = self._session.playout.made = None
        if self._session.worlds is not None:
            self._session.worlds.journal = None
        self._session.detach(self._sender)
        self._sender.close()

    def _count(self, recorder: Recorder) -> None:
        for reason, number in recorder.left_out().items():
            self._session.services.telemetry.dropped("recording", reason, number)
        for index in recorder.keyframes_wanted():
            self._sender.request_keyframe(index)

    # ---- MessageChannel: messages to this viewer -----------------------------------------------------------------------

    async def receive(self) -> NoReturn:
        """Never return: a recorder sends nothing."""
        await trio.sleep_forever()

    async def send_text(self, text: str) -> None:
        """Take a text message. The model's messages arrive through the journal instead."""
        await trio.lowlevel.checkpoint()
        message = decode_server_text(text)
        if message.type == "reactor.track":
            track = msgspec.convert(message.data, TrackInfo)
            self._tracks[track.index] = track
            self._note(track_line(self._now(), track))

    async def send_packet(self, head: bytes, payload: memoryview) -> None:
        """Take a copy of a frame: the caller may change the payload afterwards. Never waits for the disk."""
        await trio.lowlevel.checkpoint()
        packet = decode_packet(b"".join((head, payload)))
        assert self._recorder is not None
        self._recorder.put(self._tracks[packet.track], packet)
        self._news.set()

    async def aclose(self, code: int, reason: str) -> None:
        """No message follows."""
        await self.abort()

    async def abort(self) -> None:
        """No message follows."""
        self._closed = True
        self._news.set()
        await trio.lowlevel.checkpoint()

    # ---- Journal, and the bundles as the model makes them -------------------------------------------------------------

    def _made(self, bundle: Bundle) -> None:
        """The model made a bundle, which may never be shown. A worker thread computes its fingerprint."""
        assert self._recorder is not None
        tracks = {name: (bundle.seqs[name], partial(to_host, frame)) for name, frame in bundle.tracks.items()}
        line = partial(frames_line, self._now(), bundle.origin.step, tracks)
        self._recorder.note_later(line, bundle.nbytes, partial(line, digests=False))
        self._news.set()

    def commanded(self, name: str, data: bytes, id: int | None, step: int, superseded: bool) -> None:  # noqa: A002
        """A command was applied."""
        line = command_line(self._now(), id, name, _plain(data), step)
        self._note(line | ({"superseded": True} if superseded else {}))

    def refused(self, name: str, data: bytes, id: int | None, code: str, message: str) -> None:  # noqa: A002
        """A command was refused. A long one costs the disk little: it changed nothing, so a replay does not need it."""
        data = without_ids(name, data)
        short = len(data) <= LONGEST_REFUSED
        refused = code, presentable(message)
        line = command_line(self._now(), id, presentable(name), _plain(data) if short else None, None, refused)
        self._note(line if short else line | cut_arguments(data))

    def told(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's word
        """The model sent a message."""
        self._note(message_line(self._now(), type, data) | ({} if client is None else {"client": client}))

    def uploaded(self, upload: StoredUpload) -> None:
        """A file was uploaded."""
        self._note(upload_line(self._now(), upload.id, upload.name, upload.size, upload.mime_type, upload.digest))

    def saved(self, digest: str | None, code: str | None) -> None:
        """A world was saved, or could not be."""
        self._note(saved_line(self._now(), digest, code))

    def _note(self, line: dict[str, Any]) -> None:
        if self._recorder is None:
            self._early.append(line)
        else:
            self._recorder.note(line)
        self._news.set()

    def _now(self) -> float:
        return trio.current_time() - self._session.began


def _plain(data: bytes) -> Any:
    """Decode a command's arguments, so that they fit on one line; None if they are not JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
