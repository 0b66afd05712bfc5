"""`assert_restores`: whether a model goes on from its saved world as it would have gone on without."""

from __future__ import annotations

import copy
import io
import random
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Self, cast

import numpy as np
import trio
from trio.testing import MockClock

from reactor_trio.errors import CommandError
from reactor_trio.execution.step_loop import StepSource
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.events import Handler
from reactor_trio.interface.model import Idle, Model
from reactor_trio.interface.saving import Moment
from reactor_trio.interface.tensors import is_tensor
from reactor_trio.kinds.kind import Kind
from reactor_trio.kinds.model_checks import fps_before_load
from reactor_trio.offline.executor import PipelineExecutor
from reactor_trio.recording import frame_digest
from reactor_trio.testing.emitted_steps import AuthorThreads, EmittedSteps, EmittingBinding
from reactor_trio.testing.world_losses import Clocks, Locals, Look, losses
from reactor_trio.worlds import generators
from reactor_trio.worlds.buffers import Copies
from reactor_trio.worlds.capture import capture, declared_world
from reactor_trio.worlds.file_header import Origin
from reactor_trio.worlds.nodes import World
from reactor_trio.worlds.packing import pack
from reactor_trio.worlds.put import prepare
from reactor_trio.worlds.unpacking import read_header, read_world

#: before which step a command is applied, its name, its arguments
Commands = Sequence[tuple[int, str, Mapping[str, Any]]]
#: the digests of one frame, by track
Frame = dict[str, str]

#: frames that are compared after each restore
COMPARED: Final = 30
#: where the clock of a session begins: no other number of a model is near it
CLOCK: Final = 271_828.0
SHIFT: Final = 1e6
_KEY: Final = b"of a test".ljust(32)
_MOST_BYTES: Final = 4 << 30


def assert_restores(
    model: type[Model],
    *,
    commands: Commands = (),
    steps: int = 40,
    at: Collection[int] = (1, 8),
    config: Mapping[str, Any] | None = None,
) -> None:
    """Check that sessions of `model` go on from their saved worlds as if nothing had happened.

        def test_worlds():
            assert_restores(MyModel, commands=[(3, "set_speed", {"speed": 2.0})])

    A session makes its steps. For each of `at` its world is captured, packed, unpacked, and put into the same session, and
    into a fresh one with other random numbers and a clock that is a million seconds further. Each then gets the same
    commands, and its next 30 frames must be those of the session that went on.

    Args:
        model: of any kind. One of several ranks is stepped as one.
        commands: `(step, name, arguments)`: applied before the step with this number, from 0, in their order.
        steps: how many the session makes; each yield is one, and each emit.
        at: after how many steps the world is captured.
        config: what `load` gets.

    Raises AssertionError that names the first frame that differs, what is lost, and the remedy; ValueError for an `at` that
    is no step before the last; and what model code raises.
    """
    __tracebackhide__ = True  # pytest shows the author's own line, and not these
    if declaration_of(model).world is None:
        raise AssertionError(f"{model.__qualname__} cannot save its worlds: its class needs `saves = Saves()`")
    if wrong := [number for number in at if not 0 < number < steps]:
        raise ValueError(f"at={wrong[0]}: the session makes {steps} steps; give numbers from 1 to {steps - 1}")
    with _kept_random_numbers():
        with _Session(model, config, CLOCK, 0) as session:
            kept: dict[int, tuple[World, Look, Locals, list[tuple[str, str]]]] = {}
            frames: list[list[Frame]] = []
            for step in range(steps):
                if step in at:
                    world, look, times = session.save()
                frames.append(session.step(commands, step))
                if step in at:
                    kept[step] = world, look, session.locals(look), times
            for step, moment in kept.items():
                _compare(session, "the same session", step, moment, commands, frames)
        for seed, (step, moment) in enumerate(kept.items(), 1):
            with _Session(model, config, CLOCK + SHIFT, seed) as fresh:
                _compare(fresh, "a fresh session", step, moment, commands, frames)


def _compare(
    session: _Session, where: str, step: int, moment: tuple[World, Look, Locals, list[tuple[str, str]]], commands: Commands,
    frames: list[list[Frame]],
) -> None:
    """Put a world into a session and compare what it makes then. Raises AssertionError."""
    world, look, known, times = moment
    restored, found = session.restore(world, where), None
    number = 0
    for index in range(step, len(frames)):
        made = session.step(commands, index)
        found = session.locals(None) if found is None else found
        for place in range(max(len(made), len(frames[index]))):
            number += 1
            if number > COMPARED:
                return
            if made[place : place + 1] != frames[index][place : place + 1]:
                causes = losses(session.cls, (look, known), (restored, found), times)
                raise AssertionError(
                    f"{session.cls.__qualname__}, restored after {step} step{'' if step == 1 else 's'} in {where}: frame "
                    f"{number} after the restore differs; " + "\nalso: ".join(causes)
                )


class _Session(PipelineExecutor):
    """One session of the model, in a time of its own. A model that emits by itself has `EmittedSteps`.

    Args:
        clock: its time when it begins.
        seed: of the process's generators of random numbers, once the model is loaded.
    """

    def __init__(self, cls: Any, config: Mapping[str, Any] | None, clock: float, seed: int) -> None:
        self.cls = cls
        self._threads: AuthorThreads | None = None
        self._opened = ExitStack()
        self._alone = (cls.max_sessions or 1) == 1
        self._copies = Copies()
        self._steps = 0
        self._time = self._clock = MockClock(autojump_threshold=0)
        self._time.jump(clock - self._time.current_time())
        _seed(0)
        try:
            super().__init__(cls, copy.deepcopy(dict(config or {})))
        except BaseException:
            self._opened.close()
            raise
        self._declared = declared_world(self.model)
        _seed(seed)
        self._loop.call(self._begin_clocks)
        self.connect()

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        """End the session, and the threads of a blocking model."""
        try:
            super().close()
        finally:
            self._opened.close()

    def step(self, commands: Commands, number: int) -> list[Frame]:
        """Apply the commands of a step and make it."""
        for step, name, arguments in commands:
            if step == number:
                self.send_event(name, **arguments)
        result = next(self)
        self._steps += 1
        frames = [] if result.output is Idle else _frames(result.output)
        # Whole 2**-20 seconds, so that differences of times are exact, and the same after the shift.
        self._time.jump(round(max(1, len(frames)) / self._binding.fps * 2**20) / 2**20)
        return frames

    def save(self) -> tuple[World, Look, list[tuple[str, str]]]:
        """Capture the world, by way of a file. Raises AssertionError if it cannot be saved."""
        return self._loop.call(self._save)

    def restore(self, world: World, where: str) -> Look:
        """Put a world as a restore does; returns what the model has then. Raises AssertionError if it does not fit."""
        try:
            return self._loop.call(self._restore, world)
        except CommandError as error:
            raise AssertionError(f"{self.cls.__qualname__}: its world cannot be restored in {where}: {error}") from error

    def locals(self, look: Look | None) -> Locals:
        """The local variables of its generator, which stands at a yield, or of the code that stands in an emit."""
        if isinstance(self._source, EmittedSteps):
            return Locals(self._source.frame, look, "emit")
        generator = getattr(self._source, "generator", None)
        return Locals(getattr(generator, "gi_frame", None) or getattr(generator, "ag_frame", None), look)

    def _steps_of(self, kind: Kind) -> Callable[[None], StepSource]:
        self._kind = kind
        return self._open_emitted if kind.driving.source is None else kind.driving.source

    # ---- on the model's thread ----------------------------------------------------------------------------------------

    async def _load(self, cls: Any, config: dict[str, Any]) -> Any:
        if self._kind.driving.source is not None:
            return await super()._load(cls, config)
        if self._kind.threads:
            self._threads = AuthorThreads()
            self._opened.callback(self._threads.close)
        model: Any = await self._kind.loading.make(cls, config, cast(Any, self._threads))
        self._binding = model._reactor_binding = EmittingBinding(self._declaration, fps_before_load(model))
        await self._load_model(model, config)
        self._binding.loaded(model.fps)
        return model

    def _open_emitted(self, _session: None) -> EmittedSteps:
        binding = cast(EmittingBinding, self._binding)
        threads = self._threads

        async def code(steps: EmittedSteps) -> None:
            if threads is not None:
                await threads.run(self.model)
                return
            running = self.model.run()
            steps.frame = running.cr_frame
            await running

        binding.steps = steps = EmittedSteps(code, binding.cancelled)
        if threads is not None:
            threads.open(self.model, binding, self._performer, steps)
        return steps

    async def _begin_clocks(self) -> None:
        self._clocks = Clocks()

    async def _save(self) -> tuple[World, Look, list[tuple[str, str]]]:
        try:
            name = self._declared.saving
            saved = None if name is None else await self._performer.call(Handler(name), {})
            world = capture(
                self.model, self._copies, step=self._steps - 1, steps=self._steps, age=trio.current_time() - CLOCK,
                saved=saved, alone=self._alone,
            )  # fmt: skip
            origin = Origin(model="", name=self.cls.__qualname__, version=self._declared.saves.version, schema_hash="")
            file = io.BytesIO(b"".join(pack(world, origin, _KEY, most_bytes=_MOST_BYTES)))
            found = read_world(file, read_header(file, (_KEY,), _MOST_BYTES), self._declared.classes)
        except CommandError as error:
            raise AssertionError(
                f"{self.cls.__qualname__}: its world cannot be saved: {error}"
            ) from error
        return found, Look(self.model), list(self._clocks.times(world))

    async def _restore(self, world: World) -> Look:
        steps = self._source
        if isinstance(steps, EmittedSteps) and not steps.begun:
            await steps.resume(self.model)  # the put is inside the first emit, whose frame is not shown
        ready = prepare(self.model, world, alone=self._alone)
        if not isinstance(steps, EmittedSteps):
            await steps.close()
            self._performer.driver = self._source = self._open_source(None)
        ready.assign()
        if (name := self._declared.restored) is not None:
            moment = Moment(world.step, world.age, "restore", self._declared.saves.version, same_process=False)
            await self._performer.call(Handler(name), {"saved": ready.saved, "moment": moment})
        return Look(self.model)


def _frames(output: Any) -> list[Frame]:
    """The digests of a step's frames; sound counts with the first."""
    frames: list[Frame] = [{}]
    for track in type(output).__reactor_tracks__:
        value = getattr(output, track.name)
        if value is None:
            continue
        array = np.asarray(value.detach().cpu() if is_tensor(value) else value)
        pictures = list(array) if track.kind == "video" and array.ndim == 4 else [array]
        frames += [{} for _ in range(len(pictures) - len(frames))]
        for frame, picture in zip(frames, pictures, strict=False):
            frame[track.name] = f"{picture.shape} {frame_digest(picture)}"
    return frames


def _seed(seed: int) -> None:
    """Seed the process's generators of random numbers, of the modules that are imported."""
    random.seed(seed)
    if "numpy.random" in sys.modules:
        np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@contextmanager
def _kept_random_numbers() -> Iterator[None]:
    """Give the process's generators their states of before at the end."""
    before = {name: (kind, each, generators.state_of(kind, each)) for name, (kind, each) in generators.of_process().items()}
    try:
        yield
    finally:
        for kind, each, state in before.values():
            generators.set_state(kind, each, state)
