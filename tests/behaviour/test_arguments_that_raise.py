"""A class of the author among a command's arguments whose `__post_init__` raises: it costs the command, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from reactor_trio.errors import CommandError
from reactor_trio.interface import DistributedPipeline, InputState, Output, ReactorPipeline, Video, event
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture


class Picture(Output):
    main_video: Video


@dataclass
class Preset:
    name: str
    #: what each call raises, in their order; then none
    plan: ClassVar[list[BaseException | None]] = []

    def __post_init__(self) -> None:
        if self.plan and (error := self.plan.pop(0)) is not None:
            raise error


class Looks(InputState):
    preset: Preset | None = None


class Uses:
    output: Picture
    state: Looks
    loads = 0

    def load(self, config: dict[str, Any]) -> None:
        type(self).loads += 1

    @event
    def use(self, preset: Preset) -> str:
        return preset.name

    @event
    def none(self) -> str:
        return "none"

    def inference(self) -> Any:
        while True:
            yield picture(1)


class World(Uses, ReactorPipeline):
    """In one process."""


class Ranked(Uses, DistributedPipeline):
    """On two ranks."""

    ranks = 2


#: model, where it is, and how many processes have the arguments decoded before a rank has them
PLACES: dict[str, tuple[type[Uses], dict[str, Any]]] = {
    "inline": (World, {}),
    "thread": (World, {"thread": True}),
    "websocket": (World, {"websocket": True}),
    "process": (World, {"isolation": "process"}),
    "ranks": (Ranked, {}),
}


#: what no check of a value should raise; the last two are no `Exception`, and a handler's SystemExit ends the model
UNMEANT = [KeyError("secret"), asyncio.CancelledError("secret"), SystemExit("secret")]


def refusals(place: str, error: BaseException) -> list[BaseException | None]:
    """A plan that raises where the model is: in another process, after the server has decoded them. It may try twice."""
    return {"process": [None, error, error], "ranks": [None, *[error] * 4]}.get(place, [error, error])


@pytest.mark.parametrize("place", PLACES)
async def test_one_that_refuses_where_the_model_is_refuses_the_command_alone(autojump_clock: object, place: str) -> None:
    cls, how = PLACES[place]
    cls.loads = 0
    async with open_server(cls, step_cost=0.1, **how) as server, server.connect() as client:
        await client.take(1)
        for command in ("use", "set_preset"):
            Preset.plan[:] = refusals(place, ValueError("not among the presets"))
            with pytest.raises(CommandError, match=r"not among the presets - at \$\.preset") as refused:
                await client.command(command, preset={"name": "a"})
            assert refused.value.code == "invalid_command"
            Preset.plan.clear()
            await client.command(command, preset={"name": "a"})
        assert await client.command("use", preset={"name": "b"}) == "b"
        assert await client.command("none") == "none"
        await client.take(2)
        assert cls.loads == (2 if place == "ranks" else 1), "the model was loaded again"


@pytest.mark.parametrize("debug", [False, True], ids=["", "debug"])
@pytest.mark.parametrize("error", UNMEANT, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("place", PLACES)
async def test_one_that_raises_another_exception_refuses_the_command_and_is_logged(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, place: str, error: BaseException, debug: bool
) -> None:
    cls, how = PLACES[place]
    async with open_server(cls, step_cost=0.1, debug=debug, **how) as server, server.connect() as client:
        await client.take(1)
        Preset.plan[:] = [error, error]
        with pytest.raises(CommandError) as refused:
            await client.command("use", preset={"name": "a"})
        assert refused.value.code == "invalid_command"
        assert (f"{type(error).__name__}: " in refused.value.message) is debug
        assert ("secret" in refused.value.message) is debug
        assert "arguments" in refused.value.message
        Preset.plan.clear()
        assert await client.command("use", preset={"name": "b"}) == "b"
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage().endswith("the arguments of use cannot be decoded: a class of the model raised")
    logged = record.exc_info[1]  # type: ignore[index]
    assert error in (logged, logged.__cause__)  # type: ignore[union-attr]


#: whether the server, rank 0 and rank 1 accept the value; each that does not looks at it twice
@pytest.mark.parametrize("accept", [(True, True, False), (True, False, True)], ids=["rank 1", "rank 0"])
async def test_one_that_refuses_on_one_rank_alone_refuses_the_command(
    autojump_clock: object, accept: tuple[bool, ...]
) -> None:
    Ranked.loads = 0
    async with open_server(Ranked, step_cost=0.1) as server, server.connect() as client:
        await client.take(1)
        for command in ("use", "set_preset"):
            refuses = ValueError("no such file here")
            Preset.plan[:] = [each for accepts in accept for each in ([None] if accepts else [refuses, refuses])]
            with pytest.raises(CommandError, match=r"no such file here - at \$\.preset") as refused:
                await client.command(command, preset={"name": "a"})
            assert refused.value.code == "invalid_command"
            Preset.plan.clear()
            assert await client.command("use", preset={"name": "b"}) == "b"
        Preset.plan[:] = [None, None, KeyError("rank 1")]
        with pytest.raises(CommandError) as failed:
            await client.command("use", preset={"name": "a"})
        assert failed.value.code == "internal_error"
        assert await client.command("none") == "none"
        await client.take(2)
        assert Ranked.loads == 2, "the model was loaded again"


@pytest.mark.parametrize("error", UNMEANT, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("place", ["process", "ranks"])
async def test_one_that_raises_another_exception_in_the_model_s_process_fails_as_a_handler(
    autojump_clock: object, place: str, error: BaseException
) -> None:
    cls, how = PLACES[place]
    cls.loads = 0
    async with open_server(cls, step_cost=0.1, **how) as server, server.connect() as client:
        await client.take(1)
        Preset.plan[:] = refusals(place, error)
        with pytest.raises(CommandError) as refused:
            await client.command("use", preset={"name": "a"})
        assert (refused.value.code, "secret" in refused.value.message) == ("internal_error", False)
        Preset.plan.clear()
        assert await client.command("use", preset={"name": "b"}) == "b"
        assert cls.loads == (2 if place == "ranks" else 1)
