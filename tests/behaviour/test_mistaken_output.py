"""What an author gives that cannot be shown: an `OutputError` that names what is wrong and where it was given, by every way
that frames have from a model; and nobody else's encoder, session or connection suffers from it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import trio

from reactor_trio.errors import DeclarationError, OutputError, ReactorError
from reactor_trio.interface import (
    Audio,
    ClientInfo,
    DistributedPipeline,
    ModelMessage,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    VideoModel,
    connected,
    event,
    get_ctx,
)
from reactor_trio.media import chunk_from_output
from reactor_trio.testing import open_server, open_session
from tests.support.behaviour_models import in_all_placements, picture, shown
from tests.support.models import Picture

COST = 0.25


class Film(Output):
    main_video: Video
    voice: Audio | None = None


def samples(count: int) -> np.ndarray:
    return np.zeros((1, count), np.int16)


# ---- compute_time -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (math.nan, "compute_time: expected seconds, a finite number of 0 or more, got nan"),
        (math.inf, "got inf"),
        (-0.5, "got -0.5"),
        ("0.1", "compute_time: expected seconds, a finite number of 0 or more, got str"),
        (torch.zeros(2), "got Tensor"),
        (10**400, "got int"),
    ],
    ids=["nan", "inf", "negative", "text", "several", "huge"],
)
@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["inline", "process"])
async def test_a_compute_time_that_is_none_is_the_models_mistake(
    autojump_clock: object, seconds: Any, says: str, how: dict[str, Any]
) -> None:
    class Timed(ReactorModel):
        output: Picture

        async def run(self):
            await self.connected.wait()
            await self.emit(picture(1), compute_time=0.1)
            await self.emit(picture(1), compute_time=seconds)

    async with open_server(Timed, **how) as server, server.connect() as client:
        with pytest.raises(Exception, match=says) as raised:
            await client.take(9)
        assert type(raised.value).__name__ == "OutputError"
        assert client.ended == "model_error"


@pytest.mark.parametrize("seconds", [np.float32(0.1), np.float64(0.1), torch.tensor(0.1), 1, True])
@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["inline", "process"])
async def test_a_compute_time_of_another_kind_of_number_is_one(
    autojump_clock: object, seconds: Any, how: dict[str, Any]
) -> None:
    class Timed(ReactorModel):
        output: Picture

        async def run(self):
            while True:
                await self.connected.wait()
                await self.emit(picture(1), compute_time=seconds)

    async with open_session(Timed, **how) as client:
        frames = await client.take(9)
        assert frames[-1].pts - frames[-2].pts == pytest.approx(float(seconds), abs=1e-5)


# ---- sound ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_samples_than_frames_are_refused(count: int) -> None:
    with pytest.raises(OutputError) as raised:
        chunk_from_output(Film(main_video=np.zeros((4, 2, 2, 3), np.uint8), voice=samples(count)), (Film,))
    assert str(raised.value) == (
        f"track voice: {count} samples for 4 frames: each frame lasts as long as its samples, so it needs at least one"
    )


def test_as_many_samples_as_frames_are_taken() -> None:
    chunk = chunk_from_output(Film(main_video=np.zeros((4, 2, 2, 3), np.uint8), voice=samples(4)), (Film,))
    assert [duration for _, duration in chunk.split()] == [1 / 48_000] * 4


def test_no_samples_add_nothing() -> None:
    chunk = chunk_from_output(Film(main_video=picture(1), voice=samples(0)), (Film,))
    assert [(list(tracks), duration) for tracks, duration in chunk.split()] == [(["main_video"], None)]


def test_a_yield_of_no_samples_alone_is_none() -> None:
    class Sound(Output):
        voice: Audio

    assert chunk_from_output(samples(0), (Sound,)).length == 0


@in_all_placements
async def test_fewer_samples_than_frames_end_the_session_as_the_models_mistake(
    autojump_clock: object, placement: dict[str, Any]
) -> None:
    class Talking(ReactorPipeline):
        output: Film
        sessions = 0

        def inference(self):
            self.sessions += 1
            yield Film(main_video=picture(self.sessions))
            if self.sessions == 1:
                yield Film(main_video=np.zeros((4, 2, 2, 3), np.uint8), voice=samples(2))
            while True:
                yield Film(main_video=picture(self.sessions))

    async with open_server(Talking, step_cost=COST, **placement) as server:
        async with server.connect() as client:
            with pytest.raises(OutputError, match="track voice: 2 samples for 4 frames"):
                await client.take(9)
            assert client.ended == "model_error"
        async with server.connect() as client:
            assert shown(await client.take(3)) == [2, 2, 2]


@pytest.mark.parametrize("rate", [0, -48_000, 0.5, "48000", None])
def test_a_sample_rate_that_is_none(rate: Any) -> None:
    class Odd(Audio):
        sample_rate = rate

    with pytest.raises(DeclarationError, match=r"Sound.voice: sample_rate must be a whole number above 0, not"):

        class Sound(Output):
            voice: Odd


# ---- where it is ------------------------------------------------------------------------------------------------------

BAD = np.zeros((2, 2, 3), np.float32)


def line_of(function: Callable[..., Any], text: str) -> str:
    """`file:line` of the line of `function` that ends with the comment `text`."""
    lines, first = inspect.getsourcelines(inspect.unwrap(function))
    (found,) = [number for number, line in enumerate(lines) if line.rstrip().endswith(f"# {text}")]
    return f"{inspect.getsourcefile(inspect.unwrap(function))}:{first + found}"


class SyncSteps(ReactorPipeline):
    output: Picture

    def inference(self):
        yield picture(1)
        yield BAD  # here


class AsyncSteps(ReactorPipeline):
    output: Picture

    async def inference(self):
        yield picture(1)
        yield BAD  # here


class DelegatedSteps(ReactorPipeline):
    output: Picture

    def inference(self):
        yield picture(1)
        yield from self.rest()

    def rest(self):
        yield from self.very_rest()

    def very_rest(self):
        yield BAD  # here


class DecoratedSteps(ReactorPipeline):
    output: Picture

    @torch.no_grad()
    def inference(self):
        yield picture(1)
        yield BAD  # here


class Batch(ReactorPipeline):
    output: Picture

    def batch_inference(self, sessions):  # here
        return [BAD for _ in sessions]


class ShortBatch(ReactorPipeline):
    output: Picture

    async def batch_inference(self, sessions):  # here
        return []


class Emits(ReactorModel):
    output: Picture

    async def run(self):
        await self.connected.wait()
        await self.show(BAD)

    async def show(self, frame):
        await self.emit(frame)  # here


class Pushes(VideoModel):
    def start_session(self):
        get_ctx().emit_block(picture(1))
        get_ctx().emit_block(BAD)  # here


class PushesOnATrack(VideoModel):
    def start_session(self):
        get_ctx().get_track().emit(BAD)  # here


class WrongName(ReactorPipeline):
    output: Picture

    def inference(self):
        yield picture(1)
        yield Picture(main_vide=picture(1))  # here


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["inline", "process"])
@pytest.mark.parametrize(
    ("kind", "function"),
    [
        (SyncSteps, SyncSteps.inference), (AsyncSteps, AsyncSteps.inference),
        (DelegatedSteps, DelegatedSteps.very_rest), (DecoratedSteps, DecoratedSteps.inference),
        (Batch, Batch.batch_inference), (ShortBatch, ShortBatch.batch_inference), (Emits, Emits.show),
        (Pushes, Pushes.start_session), (PushesOnATrack, PushesOnATrack.start_session), (WrongName, WrongName.inference),
    ],
    ids=lambda kind: kind.__name__,
)  # fmt: skip
async def test_the_line_of_the_mistake_is_named(
    autojump_clock: object, kind: Any, function: Callable[..., Any], how: dict[str, Any]
) -> None:
    async with open_server(kind, step_cost=COST, **how) as server, server.connect() as client:
        with pytest.raises(Exception, match=r"(?m)at .*\)$") as raised:
            await client.take(9)
        assert type(raised.value).__name__ == "OutputError"
        assert str(raised.value).endswith(f" (at {line_of(function, 'here')})")
        assert str(raised.value).count("(at ") == 1
        assert raised.value.anchor in ("tracks", "frame-type", "output")


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["inline", "process"])
async def test_the_traceback_in_the_log_has_the_line_of_the_author_and_none_of_the_runtime(
    autojump_clock: object, how: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(SyncSteps, step_cost=COST, **how) as server, server.connect() as client:
        with pytest.raises(Exception, match=r"\(at "):
            await client.take(9)
    file, _, line = line_of(SyncSteps.inference, "here").rpartition(":")
    _, _, text = caplog.text.partition("Traceback (most recent call last):\n")
    assert text.splitlines()[:2] == [f'  File "{file}", line {line}, in yield', "    yield BAD  # here"]
    assert "/reactor_trio/" not in text.partition("OutputError")[0]


async def test_the_line_of_a_task_of_its_own_is_not_guessed(autojump_clock: object) -> None:
    """What a nursery starts is called by Trio, and no line of the author's is above it."""

    class Starts(ReactorModel):
        output: Picture

        async def run(self):
            await self.connected.wait()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.emit, BAD)

    async with open_server(Starts) as server, server.connect() as client:
        with pytest.raises(Exception) as raised:
            await client.take()
        (error,) = raised.value.exceptions
        assert isinstance(error, OutputError)
        assert "(at " not in str(error)


# ---- what to do -------------------------------------------------------------------------------------------------------


class Two(Output):
    picture: Video
    depth: Video


class Only(Output):
    picture: Video


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.zeros((3, 4, 6), np.uint8), "got uint8 (3, 4, 6); it looks channels-first: transpose(1, 2, 0)"),
        (np.zeros((2, 3, 4, 6), np.uint8), "got uint8 (2, 3, 4, 6); it looks channels-first: transpose(0, 2, 3, 1)"),
        (
            np.zeros((3, 4, 6), np.float32),
            "got float32 (3, 4, 6); it looks channels-first: transpose(1, 2, 0); scale to 0..255 and cast to uint8: "
            "(frame * 255).astype(np.uint8)",
        ),
        (torch.zeros(3, 4, 6, dtype=torch.uint8), "got uint8 (3, 4, 6); it looks channels-first: permute(1, 2, 0)"),
        (torch.zeros(2, 3, 4, 6), "got float32 (2, 3, 4, 6); it looks channels-first; to_frames converts it"),
        (np.zeros((3, 4, 3), np.uint8)[..., :2], "got uint8 (3, 4, 2); it looks channels-first: transpose(1, 2, 0)"),
        (np.zeros((5, 4, 6), np.uint8), "got uint8 (5, 4, 6)"),
        ([picture(1), picture(2)], "not list; stack the frames: np.stack(frames)"),
        ((picture(1), picture(2)), "not tuple; stack the frames: np.stack(frames)"),
        ([torch.zeros(4, 6, 3)], "not list; stack the frames: torch.stack(frames)"),
        ([], "a model yields an Output, a frame, Idle or None, not list"),
        (Only(picture=[picture(1)]), "(N, H, W, 3), got list; stack the frames: np.stack(frames)"),
        (Only(picture=[1, 2]), "(N, H, W, 3), got list"),
        ({"picture": picture(1)}, "not dict; yield Only(picture=...)"),
    ],
)  # fmt: skip
def test_the_error_of_a_mistaken_output_says_how_to_mend_it(value: object, says: str) -> None:
    with pytest.raises(OutputError) as raised:
        chunk_from_output(value, (Only,))
    assert str(raised.value).endswith(says)


def test_a_wrong_track_name_lists_the_tracks() -> None:
    with pytest.raises(TypeError, match=r"(?m)^Two has no track 'dept'; its tracks: picture, depth \(at .*\)$") as raised:
        Two(picture=picture(1), dept=picture(2))
    assert isinstance(raised.value, OutputError)
    with pytest.raises(TypeError, match="Two needs depth in each yield"):
        Two(picture(1))
    assert Two(picture(1), depth=picture(2)).depth[0, 0, 0] == 2


def test_an_output_may_have_an_init_of_its_own() -> None:
    class Shown(Output):
        main_video: Video

        def __init__(self, image: np.ndarray) -> None:
            self.main_video = image

    class Again(Shown):
        pass

    chunk_from_output(Shown(image=picture(1)), (Shown,))
    with pytest.raises(TypeError, match="unexpected keyword argument 'main_video'"):
        Shown(main_video=picture(1))  # type: ignore[call-arg]
    with pytest.raises(OutputError, match="Again has no track 'image'; its tracks: main_video"):
        Again(image=picture(1))


# ---- what is never awaited --------------------------------------------------------------------------------------------


class Said(ModelMessage):
    words: str


class PlainSteps(ReactorPipeline):
    output: Picture
    how = ""

    @connected
    def come(self, client: ClientInfo):
        self.client = client

    @event
    def do(self, how: str):
        self.how = how

    def speak(self):
        how, self.how = self.how, ""
        match how:
            case "send":
                self.send(Said("lost"))
            case "client.send":
                self.client.send(Said("lost"))
            case "emit":
                self.emit(picture(1))

    def inference(self):
        try:
            while True:
                self.speak()
                yield picture(1)
        finally:
            self.speak()


class PlainBatch(PlainSteps):
    def batch_inference(self, sessions):
        self.speak()
        return [picture(1) for _ in sessions]

    inference = None


class PlainRanks(DistributedPipeline):
    output: Picture
    ranks = 2

    def inference(self):
        yield picture(1)
        self.send(Said("lost"))


@pytest.mark.parametrize(
    ("how", "call"),
    [("send", "self.send(message)"), ("client.send", "client.send(message)"), ("emit", "self.emit(output)")],
)
@pytest.mark.parametrize(("kind", "method"), [(PlainSteps, "inference"), (PlainBatch, "batch_inference")])
async def test_a_plain_step_that_would_have_to_await_says_so(
    autojump_clock: object, kind: Any, method: str, how: str, call: str
) -> None:
    async with open_server(kind, step_cost=COST) as server, server.connect() as client:
        await client.take()
        await client.command("do", how=how)
        with pytest.raises(ReactorError) as raised:
            await client.take(9)
    says = f"{call} must be awaited, which `def {method}` cannot: make it `async def {method}` and write `await {call}`"
    assert str(raised.value).startswith(says)
    assert ("yield the output" in str(raised.value)) is ((how, method) == ("emit", "inference"))


async def test_ranks_say_it_together(autojump_clock: object) -> None:
    async with open_server(PlainRanks, step_cost=COST) as server, server.connect() as client:
        with pytest.raises(Exception, match="make it `async def inference`"):
            await client.take(9)
        assert client.ended == "model_error"


async def test_the_end_of_a_plain_generator_says_it_in_the_log(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Farewell(ReactorPipeline):
        output: Picture

        def inference(self):
            try:
                while True:
                    yield picture(1)
            finally:
                self.send(Said("farewell"))

    async with open_server(Farewell, step_cost=COST) as server:
        async with server.connect() as client:
            await client.take()
            with pytest.raises(ReactorError, match="make it `async def inference`"):
                await client.close()
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage().endswith("closing inference() raised")
    assert record.exc_info is not None
    assert "make it `async def inference`" in str(record.exc_info[1])


async def test_async_code_that_a_plain_step_starts_may_send(autojump_clock: object) -> None:
    """The step's own thread and time are what counts: a task begun in it is none of its code."""

    class Starting(ReactorPipeline):
        output: Picture

        async def tell(self):
            await self.send(Said("from a task"))

        @connected
        async def come(self):
            self.nursery = self.config["nursery"]

        def load(self, config):
            self.config = config

        def inference(self):
            self.nursery.start_soon(self.tell)
            while True:
                yield picture(1)

    async with trio.open_nursery() as nursery, open_session(Starting, config={"nursery": nursery}) as client:
        await client.take(2)
        assert (await client.next_message()).data == {"words": "from a task"}


class Forgetful(ReactorPipeline):
    """Its handlers forget to await."""

    output: Picture

    @event
    def send_plain(self):
        self.send(Said("lost"))

    @event
    def send_to(self, client: ClientInfo):
        client.send(Said("lost"))

    @event
    def emit_plain(self):
        self.emit(picture(1))

    @event
    async def send_async(self):
        calls = self.send(Said("lost"))
        await trio.lowlevel.checkpoint()
        del calls  # here Python warns, two lines below the call

    def inference(self):
        while True:
            yield picture(1)


@pytest.mark.filterwarnings("always::RuntimeWarning")
@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("send_plain", "self.send(message) is not awaited, so nothing is sent: make it `async def send_plain` and write "
         "`await self.send(message)`"),
        ("send_to", "client.send(message) is not awaited, so nothing is sent: make it `async def send_to` and write "
         "`await client.send(message)`"),
        ("emit_plain", "self.emit(output) is not awaited, so nothing is shown: make it `async def emit_plain` and write "
         "`await self.emit(output)`"),
        ("send_async", "self.send(message) is not awaited, so nothing is sent: write `await self.send(message)`"),
    ],
)  # fmt: skip
@in_all_placements
async def test_a_call_of_a_handler_that_is_not_awaited_is_one_line_with_its_place(
    autojump_clock: object, placement: dict[str, Any], command: str, says: str
) -> None:
    function = getattr(Forgetful, command)
    line = inspect.getsourcelines(inspect.unwrap(function))[1] + 2
    with pytest.warns(RuntimeWarning) as warned:
        async with open_server(Forgetful, step_cost=COST, **placement) as server, server.connect() as client:
            await client.command(command)
    (text,) = [str(one.message) for one in warned]
    assert text == (
        f"coroutine '{says} (at {__file__}:{line}) (docs/reference/errors.md#not-awaited)' was never awaited"
    )


@pytest.mark.parametrize("wrapped", [False, True], ids=["itself", "in a lambda"])
@pytest.mark.parametrize("how", ["send", "client.send", "emit"])
async def test_a_plain_step_may_give_what_must_be_awaited_to_the_loop(
    autojump_clock: object, how: str, wrapped: bool
) -> None:
    def spawn(call: Callable[..., Any], value: object) -> None:
        nursery.start_soon((lambda value: call(value)) if wrapped else call, value)

    class Spawning(ReactorPipeline):
        output: Picture

        @connected
        async def come(self, client: ClientInfo):
            self.client = client

        def inference(self):
            match how:
                case "send":
                    spawn(self.send, Said("from a task"))
                case "client.send":
                    spawn(self.client.send, Said("from a task"))
                case "emit":
                    spawn(self.emit, picture(9))
            while True:
                yield picture(1)

    async with trio.open_nursery() as nursery, open_session(Spawning) as client:
        if how == "emit":
            assert 9 in shown(await client.take(3))
        else:
            await client.take(1)
            assert (await client.next_message()).data == {"words": "from a task"}
