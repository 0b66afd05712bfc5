"""The model's process: it loads the model and runs its sessions' model sides as the server told it.

Its main thread runs the loop that hears and says words; the model has a loop and a thread of its own, as it has in the
server's process. So a step that blocks delays no word but those that are for it.
"""

from __future__ import annotations

import importlib
import logging
import pickle  # nosec B403 - from the process that started this one, over a socket pair that nobody else has
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency import ModelHost
from reactor_trio.configuration.settings import Settings
from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.process_link import Link
from reactor_trio.execution.isolation.remote_failure import ends_process, failure_of
from reactor_trio.execution.isolation.shared_frames import FrameExchange, SharedFrames
from reactor_trio.execution.loading import LoadedModel, load_model
from reactor_trio.execution.local_model_session import LocalModelSession
from reactor_trio.execution.model_loop import ModelLoop
from reactor_trio.execution.session_events import FILE_UPLOADED, Answer
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.interface.model import Model
from reactor_trio.interface.weights import weights_of_manifest
from reactor_trio.media import Bundle, to_host
from reactor_trio.telemetry import Telemetry

log = logging.getLogger("reactor_trio.model")

#: config, settings, folder of the weights
Given = tuple[dict[str, Any], Settings, Path | None]
#: see `load_model`
LoadModel = Callable[..., Awaitable[LoadedModel]]


def model_class(path: str) -> type[Model]:
    """The class that `module:Class` names."""
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    model: type[Model] = found
    return model


class _ToServer(Telemetry):
    """Frames dropped in the model's process are counted in the server's."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def dropped(self, place: str, reason: str, frames: int) -> None:
        self._link.send(ipc_messages.Dropped(None, place, reason, frames))


async def work(
    link: Link,
    host: ModelHost,
    frames: SharedFrames | None = None,
    *,
    find: Callable[[str], type[Model]] = model_class,
    unpack: Callable[[bytes], Given] = pickle.loads,  # nosec B301 - see the import
    loaded: Callable[[LoadedModel], object] = lambda _loaded: None,
    load: LoadModel = load_model,
) -> None:
    """Do what the server says until it says no more, on a loop beside that of `host`.

    Args:
        frames: where accepted frames lie, if that was arranged already.
        find: gives the class that `Load` names; called on the model thread.
        unpack: what `pack` packed.
        loaded: told of the model.
        load: makes and loads it; called on the model loop.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        worker = _Worker(link, host, nursery, FrameExchange(link.send, frames), find, unpack, loaded, load)
        try:
            await worker.run()
        finally:
            worker.close()
            nursery.cancel_scope.cancel()


class _Worker:
    def __init__(
        self,
        link: Link,
        host: ModelHost,
        nursery: trio.Nursery,
        frames: FrameExchange,
        find: Callable[[str], type[Model]],
        unpack: Callable[[bytes], Given],
        loaded: Callable[[LoadedModel], object],
        load: LoadModel,
    ) -> None:
        self.link = link
        self.frames = frames
        self._find = find
        self._unpack = unpack
        self._tell_loaded = loaded
        self._load_model = load
        self._host = host
        self._nursery = nursery
        self._loop = ModelLoop(host)
        self._loaded: LoadedModel | None = None
        self._settings = Settings()
        self._sessions: dict[str, _Stand] = {}
        self._running = trio.CancelScope()

    async def run(self) -> None:
        with self._running:
            await self.link.hear(self._hear)

    def _hear(self, word: Any, descriptor: int | None) -> None:
        match word:
            case ipc_messages.Stop():
                self._running.cancel()
            case ipc_messages.Load():
                self._nursery.start_soon(self._load, word)
            case ipc_messages.Segment() | ipc_messages.Gone() | ipc_messages.Returned():
                self.frames.hear(word, descriptor)
            case ipc_messages.Ping(number):
                self._host.post(self._host.post_io, self.link.send, ipc_messages.Pong(number))
            case ipc_messages.Begin(session, client, joined_at):
                self._begin(session, (client, joined_at))
            case ipc_messages.ShowStack(session):
                if (stand := self._sessions.get(session)) is not None:
                    log.error("session %s: it is here:\n%s", session, stand.model_session.stack())
            case _:
                if (stand := self._sessions.get(word.session)) is not None:
                    stand.hear(word)

    def close(self) -> None:
        self.frames.close()

    async def _load(self, load: ipc_messages.Load) -> None:
        if load.path:
            sys.path[:] = load.path
        config, settings, weights = self._unpack(load.given)
        self._settings = settings
        with weights_of_manifest(weights):
            try:
                self._loaded = await self._host.run(self._import_and_load, load.model, config, settings)
            except trio.Cancelled:
                raise
            except BaseException as error:
                self.link.send(ipc_messages.NotLoaded(failure_of(error)))
                return
            self._tell_loaded(self._loaded)
            self.link.send(ipc_messages.Loaded(self._loaded.max_sessions))
            what, cause = await self._loop.until_ended(self._loaded.session_copies)
            self.link.send(ipc_messages.RunEnded(what, None if cause is None else failure_of(cause)))

    async def _import_and_load(self, path: str, config: dict[str, Any], settings: Settings) -> LoadedModel:
        return await self._load_model(self._find(path), config, self._host, settings, _ToServer(self.link))

    def _begin(self, session: str, client: tuple[int, float]) -> None:
        assert self._loaded is not None
        model_session = self._loaded.open_model_session(session, client, host=self._host, settings=self._settings)
        stand = self._sessions[session] = _Stand(session, self, model_session, self._loaded)
        self._nursery.start_soon(self._run, stand)

    async def _run(self, stand: _Stand) -> None:
        try:
            error = await stand.run()
        finally:
            del self._sessions[stand.id]
        if error is not None and ends_process(error):
            self.link.send(ipc_messages.Broken(failure_of(error)))
            self._running.cancel()  # the end of this process is that of all its sessions
            return
        failure = None if error is None else failure_of(error)
        self.link.send(ipc_messages.Ended(stand.id, failure, stand.model_session.what_is_left()))


class _Stand:
    """Stands in for a session and its playout, which are in the other process."""

    def __init__(self, session: str, worker: _Worker, model_session: LocalModelSession, loaded: LoadedModel) -> None:
        self.id = session
        self.model_session = model_session
        self._worker = worker
        self._say = worker.link.send
        self._declaration = loaded.declaration
        self._over = trio.CancelScope()
        model_session.connect(self, self)

    async def run(self) -> BaseException | None:
        try:
            with self._over:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.model_session.watch, self._late)
                    await self.model_session.run()
                    nursery.cancel_scope.cancel()
        finally:
            self.model_session.mailbox.deliver()
            self.model_session.close()
        return self.model_session.raised

    def _late(self, what: str, since: float) -> None:
        self._say(ipc_messages.Late(self.id, what, since))

    def hear(self, word: Any) -> None:
        match word:
            case ipc_messages.Over():
                self._over.cancel()
            case ipc_messages.Said():
                self.model_session.command(self._command(word))
            case ipc_messages.Media(_, track, plane, pts):
                seen = self._worker.frames.see(plane)
                self.model_session.take_input(track, InputFrame(seen.copy(), pts))  # which is the author's to change
            case ipc_messages.Pause(_, paused):
                self.model_session.pause(paused)
            case ipc_messages.Limit(_, fps):
                self.model_session.limit(fps)
            case ipc_messages.Handed(_, until, epoch, wake):
                self.model_session.handed(until, epoch, wake=wake)
            case ipc_messages.Shown(_, until):
                self.model_session.shown(until)

    def _command(self, said: ipc_messages.Said) -> Command:
        files = ipc_messages.files_said(said.files)
        if said.name == FILE_UPLOADED:
            hook = self._declaration.file_uploaded
            assert hook is not None
            assert hook.file_parameter is not None
            arguments: dict[str, Any] = {hook.file_parameter: next(iter(files.values()))}
        else:
            arguments = self._declaration.decode(said.name, said.data, files.__getitem__)[1]
        return Command(said.number, said.client, said.name, arguments, said.id, said.at, said.data, files, said.place)

    # ---- as the session -----------------------------------------------------------------------------------------------

    def answered(self, answer: Answer) -> None:
        reply = msgspec.json.encode(answer.reply)
        self._say(ipc_messages.Answered(
            self.id, answer.numbers, answer.step, reply, answer.code, answer.message, answer.values
        ))  # fmt: skip

    def state_changed(self, values: dict[str, bytes]) -> None:
        self._say(ipc_messages.StateChanged(self.id, values))

    def tell(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's words
        self._say(ipc_messages.Told(self.id, type, msgspec.json.encode(data), client))

    # ---- as the playout -----------------------------------------------------------------------------------------------

    def put(self, bundle: Bundle) -> None:
        origin = bundle.origin
        tracks = {name: self._worker.frames.show(to_host(frame)) for name, frame in bundle.tracks.items()}
        self._say(ipc_messages.Put(
            self.id, tracks, dict(bundle.seqs), bundle.duration, bundle.paced,
            (origin.step, origin.command, origin.waited, origin.seconds, origin.input_pts_us), bundle.made,
            bundle.epoch, bundle.ready,
        ))  # fmt: skip

    def flush(self, epoch: int) -> None:
        self._say(ipc_messages.Flush(self.id, epoch))

    def retime(self, interval: float) -> None:
        self._say(ipc_messages.Retime(self.id, interval))

    def count_drop(self, place: str, reason: str, frames: int) -> None:
        self._say(ipc_messages.Dropped(self.id, place, reason, frames))
