"""`record()`: write a client's media to files, without decoding it (`docs/reference/runtime/recording.md`)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from reactor_trio.client.client import Client
from reactor_trio.client.observing import observing
from reactor_trio.client.running import TaskBlock
from reactor_trio.client.session_events import CommandAnswered, Commanded, Message, Received, TextEvent, TrackChanged
from reactor_trio.client.session_view import internals
from reactor_trio.recording import Recorder, command_line, message_line, session_line, track_line

#: most seconds that completing the files may take
CLOSING = 10.0


@asynccontextmanager
async def record(client: Client, path: str | os.PathLike[str]) -> AsyncIterator[Recorder]:
    """During the block, record the media that `client` receives to `path`, and the events to a timeline beside it
    (`.jsonl`).

    Video goes into the file as it came, so ask the server for codecs that the file can carry (`connect(video=["h264",
    "jpeg"])`); raw pictures are encoded. Worker threads write the files. If the disk is full, media is dropped and counted
    in the timeline's last line. A disk that fails ends the recording with a log line, not the block. Leaving the block, also
    by cancellation, completes the files within 10 s.

    Raises ReactorError if `path` does not end in .mp4, .mkv or .webm, if a file of that name exists or cannot be made, or if
    PyAV is missing, and RuntimeError if another task leaves the block than entered it; the files are completed all the same.
    An exception of the block leaves it unchanged.
    """
    recording = _Recording(client, Path(path))
    async with TaskBlock("record()", recording.run, recording.end):
        with observing(client, recording.take):
            yield recording.recorder


class _Recording:
    def __init__(self, client: Client, path: Path) -> None:
        self.recorder = Recorder(path, client.tracks)
        self._client = client
        self._began = anyio.current_time()
        self._commands: dict[int, Commanded] = {}
        self._changed = anyio.Event()
        self._reason: str | None = None
        # Shielded, so that a cancelled block leaves complete files.
        self._scope = anyio.CancelScope(shield=True)
        self.recorder.note(session_line(client.welcome))
        self._changed.set()

    def take(self, event: TextEvent | Received | Commanded) -> None:
        """Record an event of the client. Never waits."""
        t = anyio.current_time() - self._began
        match event:
            case Received(packet, track, _):
                self.recorder.put(track, packet)
            case Commanded(number):
                self._commands[number] = event
                return
            case CommandAnswered(number, _, error, step):
                if (command := self._commands.pop(number, None)) is None:
                    return
                refused, arguments = None if error is None else (error.code, error.message), command.arguments
                if command.name.startswith("reactor."):  # whoever has the id of a world may have the world
                    arguments = {name: value for name, value in arguments.items() if name != "world"}
                self.recorder.note(command_line(t, number, command.name, arguments, step, refused))
            case TrackChanged(track):
                self.recorder.note(track_line(t, track))
            case Message(name, data):
                self.recorder.note(message_line(t, name, data))
            case _:
                return
        self._changed.set()

    async def run(self) -> None:
        """Write until the end, each time on a worker thread."""
        with self._scope:
            while self._reason is None:
                await self._changed.wait()
                self._changed = anyio.Event()
                await anyio.to_thread.run_sync(self.recorder.write, abandon_on_cancel=True)
                for index in self.recorder.keyframes_wanted():
                    internals(self._client).receiver.feedback_sender.request_keyframe(index)
            t = anyio.current_time() - self._began
            await anyio.to_thread.run_sync(partial(self.recorder.close, t, self._reason), abandon_on_cancel=True)

    async def end(self) -> None:
        """Let `run` write the rest and complete the files. It gives up if that takes longer than `CLOSING` seconds."""
        self._reason = self._client.ended or "client_left"
        self._changed.set()
        self._scope.deadline = anyio.current_time() + CLOSING
