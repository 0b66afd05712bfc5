"""A blocking model's session: `start_session()` on its own thread, handlers on another, this loop between them.

    session thread   start_session() -> ctx.emit_block() -.
                                                          +-> model loop: step, rate, room -> mailbox
    handler thread   @command methods, one at a time  <---'

The model loop stays free, so commands, the disconnect and words from the playout are heard while the author's code blocks.
`should_stop()` reads a flag and crosses nothing. What is emitted or sent after the session has ended goes nowhere.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import outcome
import trio

from reactor_trio.concurrency import AuthorThread
from reactor_trio.errors import BufferClosed, OutputError
from reactor_trio.execution.drivers.step_drivers import Driver
from reactor_trio.interface.author_code import NamesPlace
from reactor_trio.interface.blocking_tracks import MAIN_TRACK, default_track
from reactor_trio.interface.context import running
from reactor_trio.interface.declaration import BLOCKING_INPUT
from reactor_trio.interface.input_buffer import InputBuffer, InputFrame, ReadMode
from reactor_trio.interface.messages import plain
from reactor_trio.interface.profiling import Profiler, get_profiler
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.interface.video_model import VideoModel
from reactor_trio.media import Chunk, chunk_from_output

if TYPE_CHECKING:
    from reactor_trio.execution.session_runner import SessionRunner

log = logging.getLogger("reactor_trio.model")

#: Buckets that may wait for the data of their other tracks; more are dropped, the oldest first.
OPEN_BUCKETS = 64

#: The type of a message that is sent without one.
PLAIN_MESSAGE = "message"


class BlockingDriver(Driver):
    """`start_session()` of a `VideoModel`; its end is the session's."""

    def __init__(self, runner: SessionRunner, threads: tuple[AuthorThread, AuthorThread]) -> None:
        super().__init__(runner)
        self._session_thread, self._handler_thread = threads
        self._runs = False

    async def drive(self) -> None:
        """Until `start_session` has returned, whatever is cancelled; what it raises is raised."""
        model = cast(VideoModel, self._runner.model)
        self._runner.step = 1  # a command that comes while the first block is computed is seen by the second
        self._runs = True
        context = SessionContext(self._runner, self._session_thread, self._handler_thread)
        result: outcome.Maybe[None] = outcome.Value(None)
        with running(context) as variables:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._apply_commands, variables.copy)
                    for spec in context.inputs:
                        nursery.start_soon(self._take_frames, spec, context, variables.copy)
                    self._runner.blocks.computes(True)
                    result = await outcome.acapture(self._session_thread.run, model.start_session, context=variables)
                    self._runner.blocks.computes(False)
                    self._runs = False
                    nursery.cancel_scope.cancel()
            finally:
                result.unwrap()  # also if the session is over, and the nursery cancelled by that

    async def close(self) -> None:
        """`start_session` has returned; there is nothing to close."""

    def what_is_left(self) -> str:
        """The session function."""
        return "its start_session() has not returned" if self._runs else ""

    async def _apply_commands(self, variables: Callable[[], Any]) -> None:
        runner = self._runner

        async def call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
            return await self._handler_thread.run(lambda: function(**arguments), context=variables())

        runner.author.call_handler, runner.author.thread = call, self._handler_thread.thread
        while True:
            await trio.lowlevel.checkpoint()
            if runner.over:
                await trio.sleep_forever()  # what is left over is discarded
            if not await runner.apply_next():
                await runner.wakeup.wait()

    async def _take_frames(self, spec: TrackSpec, context: SessionContext, variables: Callable[[], Any]) -> None:
        model = cast(VideoModel, self._runner.model)
        buffer: InputBuffer = getattr(getattr(model, BLOCKING_INPUT), spec.name)
        with suppress(BufferClosed):
            while True:
                (frame,) = await buffer.read(mode=ReadMode.FIFO)
                context.newest[spec.name] = frame.data
                if spec.kind == "video" and type(model).on_frame is not VideoModel.on_frame:
                    await self._on_frame(model, frame, variables)

    async def _on_frame(self, model: VideoModel, frame: InputFrame, variables: Callable[[], Any]) -> None:
        try:
            await self._handler_thread.run(model.on_frame, frame.data, context=variables())
        except Exception as error:
            self._runner.unheard(error, "%s.on_frame() raised", type(model).__name__)


class SessionContext:
    """What `get_ctx()` gives; see `interface.context.Context`."""

    def __init__(self, runner: SessionRunner, session_thread: AuthorThread, handler_thread: AuthorThread) -> None:
        self._runner = runner
        self._session_thread, self._handler_thread = session_thread, handler_thread
        #: as models of 0.x ask whether they must stop
        self._stop_evt = StopEvent(self)
        self._tracks = {spec.name: spec for spec in runner.outputs[0].__reactor_tracks__}
        videos = [spec.name for spec in self._tracks.values() if spec.kind == "video"]
        first = MAIN_TRACK if MAIN_TRACK in self._tracks else next(iter([*videos, *self._tracks]))
        self._default_track = default_track(type(runner.model)) or first
        input_class = runner.inputs.get(BLOCKING_INPUT)
        self.inputs = () if input_class is None else input_class.__reactor_tracks__
        #: the newest frame of each track from the client
        self.newest: dict[str, Any] = {}
        self._buckets: dict[int, dict[str, object]] = {}
        self._counts = dict.fromkeys(self._tracks, 0)
        self._lock = threading.Lock()

    def should_stop(self) -> bool:
        """Whether the session is over."""
        return self._runner.over

    def emit_block(self, frames: object) -> None:
        """Queue frames on the one video track, or black on each."""
        chunk: Chunk | None = None
        with NamesPlace():
            if frames is not None:
                chunk = self._checked(frames)
        self._push(chunk)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send JSON."""
        if not isinstance(message, Mapping):
            raise TypeError(f"send() takes a dict, not {type(message).__name__}")
        data = plain(dict(message), "send()")
        if set(data) == {"type", "data"} and isinstance(data["type"], str):
            type_, data = data["type"], data["data"]
        else:
            type_ = PLAIN_MESSAGE
        if type_.startswith("reactor."):
            raise ValueError(f"send(): a type that starts with 'reactor.' is the runtime's own: {type_!r}")
        self._cross(self._runner.blocks.tell, type_, data)

    def disable_monitoring(self) -> None:
        """The model pauses on purpose."""
        self._cross(self._runner.blocks.monitor, False)

    def enable_monitoring(self) -> None:
        """The model works again."""
        self._cross(self._runner.blocks.monitor, True)

    def get_track(self, name: str | None = None) -> OutTrack | InTrack:
        """A track of the model."""
        wanted = name or self._default_track
        if wanted in self._tracks:
            return OutTrack(self, self._tracks[wanted])
        names = [spec.name for spec in self.inputs]
        if wanted in names:
            return InTrack(self, wanted)
        raise RuntimeError(f"get_track: this model has no track {wanted!r}; it has: {', '.join([*self._tracks, *names])}")

    def profiler(self) -> Profiler:
        """See `get_profiler`."""
        return get_profiler()

    def wait_until_over(self, seconds: float) -> None:
        """Wait until the session is over, on a thread of the author; `seconds` at most."""

        async def wait() -> None:
            with trio.move_on_after(max(0.0, seconds)):
                await self._runner.stopped.wait()

        self._cross(wait)

    def emit_on(self, spec: TrackSpec, data: object, bucket: int | None) -> None:
        """Emit on one track; data of several tracks that share a bucket is shown together."""
        if len(self._tracks) == 1:
            self.emit_block(data)
            return
        with self._lock:
            number = self._counts[spec.name] if bucket is None else bucket
            self._counts[spec.name] = number + 1
            parts = self._buckets.setdefault(number, {})
            parts[spec.name] = data
            if len(parts) == len(self._tracks):
                del self._buckets[number]
            else:
                if len(self._buckets) > OPEN_BUCKETS:
                    self._runner.output_pacer.count_drop("incomplete", len(self._buckets.pop(next(iter(self._buckets)))))
                return
        with NamesPlace():
            chunk = chunk_from_output(self._runner.outputs[0](**parts), self._runner.outputs)
        self._push(chunk)

    def _checked(self, frames: object) -> Chunk:
        """What `emit_block` got. Raises OutputError."""
        shape = getattr(frames, "shape", None)
        if shape is not None and len(shape) not in (3, 4):
            raise OutputError(f"emit_block: expected uint8 (H, W, 3) or (N, H, W, 3), got {frames.dtype} {tuple(shape)}")  # type: ignore[attr-defined]
        if len(self._tracks) > 1:
            raise OutputError(f"emit_block: this model has the tracks {', '.join(self._tracks)}; use get_track(name).emit")
        return chunk_from_output(frames, self._runner.outputs)

    def _push(self, chunk: Chunk | None) -> None:
        own = threading.current_thread() is self._session_thread.thread
        if own:
            self._runner.blocks.ends()
        self._cross(self._runner.blocks.push, chunk)
        if own:
            self._runner.blocks.begins()

    def _cross(self, function: Callable[..., Any], *args: Any) -> None:
        handles = threading.current_thread() is self._handler_thread.thread
        thread = self._handler_thread if handles else self._session_thread  # whose waiting its clock must know of
        with suppress(trio.RunFinishedError):  # a thread that outlived the server
            thread.call_loop(function, *args)


class StopEvent:
    """What `get_ctx()._stop_evt` is in Reactor, a `threading.Event`, as far as models use it."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context

    def is_set(self) -> bool:
        """Whether the session is over."""
        return self._context.should_stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is over, `timeout` seconds at most; whether it is."""
        if not self.is_set():
            self._context.wait_until_over(math.inf if timeout is None else timeout)
        return self.is_set()


class OutTrack:
    """A track to the client; see `interface.context.Track`."""

    def __init__(self, context: SessionContext, spec: TrackSpec) -> None:
        self._context = context
        self._spec = spec

    def emit(self, data: object, bucket: int | None = None) -> None:
        """Queue data on this track."""
        self._context.emit_on(self._spec, data, bucket)

    def latest(self) -> None:
        """Nothing comes on it."""
        raise TypeError(f"{self._spec.name} is a track to the client: emit on it")


class InTrack:
    """A track from the client; see `interface.context.Track`."""

    def __init__(self, context: SessionContext, name: str) -> None:
        self._context = context
        self._name = name

    def emit(self, data: object, bucket: int | None = None) -> None:
        """Nothing can be emitted on it."""
        raise TypeError(f"{self._name} is a track from the client: read its latest()")

    def latest(self) -> Any | None:
        """The newest frame."""
        return self._context.newest.get(self._name)
