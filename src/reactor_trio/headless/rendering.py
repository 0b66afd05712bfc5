"""A model whose bundles are taken by a program: every one, once and in order, as fast as the program takes them.

    render -+- model host
            '- nursery -+- run()    of a run-loop model
                        '- Rendering._run -> host.run(half.run)

What the model has made and nobody has taken is at most `ROOM` bundles, or one step more; then the model waits.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import outcome
import trio

from reactor_trio.errors import BufferClosed, CommandError, ManifestError, ModelFailed, ReactorError
from reactor_trio.headless.clock import EPSILON, FilmBlockCadence, FilmCadence, FilmClock
from reactor_trio.headless.half import DueCommand, Feed, StillIdle, UnpacedHalf, UnpacedTime
from reactor_trio.headless.script import Script, ScriptCommand, ScriptError, read_script
from reactor_trio.headless.uploads import Uploads
from reactor_trio.interface.blocking_tracks import fixed_rate
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model
from reactor_trio.interface.weights import weights_of_manifest
from reactor_trio.media import Bundle, to_host
from reactor_trio.model_host import ModelHost, open_model_host, with_twin
from reactor_trio.server.loading import LoadedModel, load_model
from reactor_trio.server.manifest import Manifest
from reactor_trio.server.model_loop import ModelLoop
from reactor_trio.server.settings import Settings
from reactor_trio.session.bell import Bell
from reactor_trio.session.mailbox import Mailbox
from reactor_trio.session.model_half import Answer

log = logging.getLogger("reactor_trio.headless")

#: Bundles that may wait for whoever takes them.
ROOM = 8


class RenderedBundle(msgspec.Struct, frozen=True):
    """One instant of the model's output.

    Attributes:
        step: number of the step that made it, from 0.
        t, duration: when it begins in the film, and how long it lasts, in seconds.
        tracks: of each track a picture `(H, W, 3)` uint8 or a block of sound `(1, M)` int16, read-only, on the host.
        seqs: number of each track's frame, from 0.
        command: id of the newest command that it was made with, None without one that has an id.
        seconds: how long its step took, if that is known, else 0.
    """

    step: int
    t: float
    duration: float
    tracks: Mapping[str, npt.NDArray[Any]]
    seqs: Mapping[str, int]
    command: int | None
    seconds: float


class Rendering:
    """The bundles of a model that runs now, for `async for`; `render` makes one.

    The iteration ends when all that was asked for was taken, the model has ended by itself, or `stop` was called. It raises,
    behind the last bundle made before: ModelFailed if model code raised (the cause is what it raised), ScriptError if the
    model refused a command of the script, ReactorError if it waits for what will not come. Cancelled, it has taken nothing.
    """

    def __init__(
        self,
        host: ModelHost,
        time: UnpacedTime,
        loaded: LoadedModel,
        name: str,
        commands: list[DueCommand],
        frames: int | None,
        seconds: float | None,
        on_message: Callable[[str, Any], object] | None,
    ) -> None:
        #: the model instance; its code runs on another thread
        self.model = loaded.model
        self._seats = loaded.seats
        self.declaration = loaded.declaration
        self.name = name
        #: frames that the model gave up itself, by reason
        self.dropped: Counter[str] = Counter()
        #: commands of the script that were applied
        self.applied = 0
        self._host = host
        self._commands = commands
        self._frames, self._most = math.inf if frames is None else frames, math.inf if seconds is None else seconds
        self._on_message = on_message
        self._queue: deque[tuple[Bundle, float] | ReactorError] = deque()
        self._bell = Bell()
        self._scope = trio.CancelScope()
        self._taken = 0
        self._enough = self._over = self._stopped = False
        self._error: BaseException | None = None
        reached = partial(host.post_io, self._reached)
        clock = self._clock = FilmClock(ROOM, self._frames, self._most, reached)
        seat = loaded.seats.take()
        fixed = fixed_rate(type(loaded.model)) or seat.port.declared_fps
        cadence = FilmBlockCadence if loaded.declaration.kind == "blocking" else FilmCadence
        self._half = UnpacedHalf(
            Feed(commands, clock), clock, time, host, once=frames is None and seconds is None, session_id="rendering",
            model=seat.model, port=seat.port, declaration=loaded.declaration, session=self, playout=self,
            mailbox=Mailbox(host.post_io, asleep=True), client=(1, trio.current_time()),
            cadence=cadence(fixed, loaded.max_fps),
        )  # fmt: skip

    def __aiter__(self) -> Rendering:
        return self

    async def __anext__(self) -> RenderedBundle:
        """The next bundle, once it is made. Always a checkpoint."""
        (bundle,) = await self._take(1)
        return bundle

    async def batch(self) -> list[RenderedBundle]:
        """All that is made and not taken, at least one; none at the end. Always a checkpoint.

        Raises what the iteration raises.
        """
        try:
            return await self._take(ROOM)
        except StopAsyncIteration:
            return []

    @property
    def commands_left(self) -> int:
        """Those that were not."""
        return len(self._commands) - self.applied

    def stop(self) -> None:
        """End the model's session; the iteration ends with the bundle that was taken last. May be called again."""
        self._stopped = True
        self._end()
        self._bell.ring()

    # ---- heard from the model's half ----------------------------------------------------------------------------------

    def put(self, bundle: Bundle, epoch: int, ready: float) -> None:
        """A bundle was made."""
        self._queue.append((bundle, self._clock.begins.popleft()))
        self._bell.ring()

    def flush(self, epoch: int) -> None:
        """What was made stays in the film."""

    def retime(self, interval: float) -> None:
        """The rate changed, for what comes."""

    def count_drop(self, place: str, reason: str, frames: int) -> None:
        """The model gave frames up."""
        self.dropped[reason] += frames

    def answered(self, answer: Answer) -> None:
        """A command was applied, or refused, which ends the rendering."""
        for number in answer.numbers:
            self.applied += answer.code is None
            if answer.code is not None:
                entry = self._commands[number - 1].entry
                self._queue.append(_refusal(entry, answer.code, answer.message))
                self._bell.ring()

    def tell(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's words
        """A message of the model."""
        if self._on_message is not None:
            self._on_message(type, data)

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _take(self, most: int) -> list[RenderedBundle]:
        """The next bundles, at least one. Raises StopAsyncIteration, and what ended the rendering."""
        await trio.lowlevel.checkpoint()
        while not self._queue and not self._over and not self._enough and not self._stopped:
            await self._bell.wait()
        taken: list[tuple[Bundle, float]] = []
        for item in list(self._queue)[:most]:
            if isinstance(item, ReactorError) or not self._wanted(len(taken), item[1]):
                break
            taken.append(item)
        if not taken:
            if self._queue and isinstance(error := self._queue[0], ReactorError):
                self.stop()
                raise error
            await self._finish()
        rendered = await self._on_host(taken)
        for bundle, t in taken:
            self._queue.popleft()
            self._taken += 1
            self._enough |= self._taken >= self._frames or t + bundle.duration >= self._most - EPSILON
            self._host.post(self._half.taken)
        return rendered

    def _wanted(self, before: int, t: float) -> bool:
        return not self._stopped and self._taken + before < self._frames and t < self._most - EPSILON

    async def _on_host(self, taken: list[tuple[Bundle, float]]) -> list[RenderedBundle]:
        if all(isinstance(frame, np.ndarray) for bundle, _ in taken for frame in bundle.tracks.values()):
            return _rendered(taken)
        return await trio.to_thread.run_sync(_rendered, taken)

    def _reached(self) -> None:
        self._enough = True
        self._bell.ring()

    async def _finish(self) -> None:
        """End the session in its order; raises what ended it, else StopAsyncIteration."""
        self.stop()
        while not self._over:
            await self._bell.wait()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopAsyncIteration

    def _end(self) -> None:
        self._host.post(self._half.release)
        self._scope.cancel()

    async def _run(self) -> None:
        error: BaseException | None = None
        try:
            with self._scope:
                error = await self._host.run(self._half.run)
        finally:
            error = error or self._half.fatal
            if error is not None:
                self._error = self._error or self._failure(error)
            self._over = True
            self._bell.ring()

    def _failure(self, error: BaseException) -> ReactorError:
        if isinstance(error, StillIdle):
            return error
        what = f"step {self._half.step} raised {type(error).__name__}: {error}"
        inputs = [track.name for track in self.declaration.tracks if track.direction == "in"]
        if isinstance(error, BufferClosed) and inputs:
            what = f"the model reads its input track {', '.join(inputs)}, and here is no client that sends it anything"
        failure = ModelFailed(f"{self.name}: {what}")
        failure.__cause__ = error
        return failure

    async def _watch(self, loop: ModelLoop) -> None:
        """The model's own loop, whose end is the rendering's."""
        what, cause = await loop.until_ended(self._seats)
        failure = ModelFailed(f"{self.name}: {what}")
        failure.__cause__ = cause
        self._error = self._error or failure
        self._end()


@asynccontextmanager
async def render(
    model: type[Model] | Manifest,
    *,
    config: Mapping[str, Any] | None = None,
    script: Script | None = None,
    frames: int | None = None,
    seconds: float | None = None,
    fps: float | None = None,
    settings: Settings | None = None,
    uploads: str | Path | Uploads | None = None,
    on_message: Callable[[str, Any], object] | None = None,
    thread: bool = True,
) -> AsyncGenerator[Rendering, None]:
    """Load a model and run one session of it, without a client and without pacing.

        async with render(MyModel, script="commands.yaml", frames=300) as rendering:
            async for bundle in rendering:
                ...

    Args:
        model: a model class, or a manifest, whose config and settings hold unless given here.
        config: what `load` gets.
        script: commands and when they are applied (`docs/guide/rendering.md`).
        frames, seconds: how many bundles, or how many seconds of film, to make; the first that is reached ends it. Without
            either a pipeline ends when `inference()` returns, and a blocking model when `start_session()` does; with one of
            them a pipeline's generator that returns is followed by a new one, as in a live session.
        fps: instead of the rate that the model declares.
        uploads: the folder of the files that commands name.
        on_message: called with type and data of each message of the model, on the caller's loop; must not raise.
        thread: run the model on a thread of its own; False, for tests: as a task of the caller's loop.

    Leaving the block ends the session in its order, once the step that runs has ended. Raises ScriptError for a mistake in
    the script, ManifestError if the model cannot be imported, DeclarationError, ModelFailed if `load()` raises. An exception
    of the block comes out as it is.
    """
    name, find_model, weights = _source(model)
    if isinstance(model, Manifest):
        config, settings = model.config if config is None else config, settings or model.settings
    settings = msgspec.structs.replace(settings or Settings(), max_sessions=1)
    if fps is not None:
        settings = msgspec.structs.replace(settings, fps=fps, max_fps=max(fps, settings.max_fps or Model.max_fps))
    _check_limits(frames, seconds)
    entries = read_script(script)
    files = uploads if isinstance(uploads, Uploads) else Uploads(None if uploads is None else Path(uploads))
    time = UnpacedTime(threaded=thread)
    failure: BaseException | None = None
    with weights_of_manifest(weights):
        async with open_model_host(time) as host:
            try:
                loaded = await _load(host, find_model, name, dict(config or {}), settings)
                if (endless := _endless(loaded.declaration)) and frames is None and seconds is None:
                    raise ReactorError(f"{name}: {endless} of this model never ends: say how many frames or seconds to make")
                commands = await trio.to_thread.run_sync(_decoded, entries, loaded.declaration, files)
                rendering = Rendering(host, time, loaded, name, commands, frames, seconds, on_message)
                loop = ModelLoop(host)
                async with trio.open_nursery() as nursery:
                    if _endless(loaded.declaration):
                        nursery.start_soon(rendering._watch, loop)
                    nursery.start_soon(rendering._run)
                    try:
                        yield rendering
                    except trio.Cancelled:
                        raise
                    except BaseException as error:
                        failure = error
                    rendering.stop()
                    nursery.cancel_scope.cancel()
            except trio.Cancelled:
                raise
            except BaseException as error:
                failure = failure or error
    if failure is not None:
        raise failure


def _endless(declaration: Declaration) -> str:
    """What of a model goes on by itself."""
    return "run()" if declaration.kind == "run_loop" else "batch_inference()" if declaration.batched else ""


def rendered(model: type[Model] | Manifest, **options: Any) -> list[RenderedBundle]:
    """All bundles of a rendering, for scripts and notebooks without a loop of their own; `options` are those of `render`.

    They are all in memory at the end: give `frames` or `seconds`, or write a film with `render_to`. Raises as `render` does.
    """

    async def collect() -> list[RenderedBundle]:
        async with render(model, **options) as rendering:
            return [bundle async for bundle in rendering]

    bundles: list[RenderedBundle] = run_blocking(collect)
    return bundles


def run_blocking(function: Callable[[], Any]) -> Any:
    """`trio.run`, also where another event loop runs in this thread, as in a notebook: then in a thread beside it."""
    asyncio = sys.modules.get("asyncio")  # model code needs none; a notebook has it
    if asyncio is None or asyncio._get_running_loop() is None:
        return trio.run(function)
    results: list[outcome.Maybe[Any]] = []
    thread = threading.Thread(target=lambda: results.append(outcome.capture(trio.run, function)), name="reactor-render")
    thread.start()
    thread.join()
    return results[0].unwrap()


def _source(model: type[Model] | Manifest) -> tuple[str, Callable[[], type[Model]], Path | None]:
    if isinstance(model, Manifest):
        manifest = model
        return manifest.name, lambda: manifest.model, manifest.weights
    cls = model
    return cls.__name__, lambda: cls, None


def _check_limits(frames: int | None, seconds: float | None) -> None:
    if frames is not None and frames < 1:
        raise ValueError(f"frames must be 1 or more, not {frames!r}")
    if seconds is not None and not 0 < seconds < math.inf:
        raise ValueError(f"seconds must be a finite number above 0, not {seconds!r}")


async def _load(
    host: ModelHost, find_model: Callable[[], type[Model]], name: str, config: dict[str, Any], settings: Settings
) -> LoadedModel:
    async def load() -> LoadedModel:
        return await load_model(find_model(), config, host, settings, lambda _place, _reason, _frames: None)

    try:
        return await host.run(load)
    except (trio.Cancelled, ManifestError):
        raise
    except BaseException as raised:
        if isinstance(raised, KeyboardInterrupt) and host.thread is None:
            raise
        error = with_twin(raised) if isinstance(raised, Exception) else raised
        raise ModelFailed(f"{name}: load() raised {type(error).__name__}: {error}") from error


def _decoded(entries: list[ScriptCommand], declaration: Declaration, files: Uploads) -> list[DueCommand]:
    """The commands with their arguments as the model takes them. Raises ScriptError."""
    decoded = []
    for entry in entries:
        try:
            _, arguments = declaration.decode(entry.name, _json(entry), files.find)
        except CommandError as error:
            raise ScriptError(f"{entry.where}: {entry.name}: {error.message}") from None
        except ScriptError as error:
            raise ScriptError(f"{entry.where}: {entry.name}: {error}") from None
        decoded.append(DueCommand(entry, arguments))
    return decoded


def _json(entry: ScriptCommand) -> bytes:
    try:
        return msgspec.json.encode(entry.arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise ScriptError(f"the arguments cannot be sent as JSON: {error}") from None


def _refusal(entry: ScriptCommand, code: str, message: str) -> ReactorError:
    if code == "internal_error":
        return ModelFailed(f"{entry.where}: the handler of {entry.name} raised {message}")
    return ScriptError(f"{entry.where}: {entry.name} was refused ({code}): {message}")


def _rendered(taken: list[tuple[Bundle, float]]) -> list[RenderedBundle]:
    """With frames of devices on the host, which waits for them."""
    return [
        RenderedBundle(
            bundle.origin.step, t, bundle.duration, {name: to_host(frame) for name, frame in bundle.tracks.items()},
            bundle.seqs, bundle.origin.command, bundle.origin.seconds,
        )
        for bundle, t in taken
    ]  # fmt: skip
