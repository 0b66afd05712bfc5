"""What becomes of a model whose group of ranks has failed: it ends, unless the app has replaced the group or ended it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import trio

from reactor_trio.distributed import DistributedRunner, WorkerCrashed
from reactor_trio.errors import ModelFailed, SessionEnded
from reactor_trio.interface import InputState, Output, ReactorApp, StepOutcome, Video, session_ended, session_started
from reactor_trio.lost_part import LostPart, ModelPartLost
from reactor_trio.testing import open_server
from tests.distributed.workers import Worker
from tests.support.fault_peers import PATIENCE, RawClient, reactor_run

STEP = 0.05
LOST = "a group of ranks has failed, and was neither replaced nor shut down: WorkerCrashed: rank 0 ended with exit code -9"


class Picture(Output):
    main: Video


class Controls(InputState):
    asks: str = ""
    level: int = 0


class Sharded(ReactorApp):
    """Does what the state asks: its rank dies, `generate` raises an error of its own, or it makes a picture."""

    output: Picture
    state: Controls
    fps = 20
    groups: ClassVar[list[DistributedRunner]] = []

    def load(self, config_path: Path | None) -> None:
        self.start_group()

    def start_group(self, **load_kwargs: Any) -> None:
        self.runner = DistributedRunner(Worker, init_process_group=False, call_timeout=PATIENCE, load_kwargs=load_kwargs)
        self.groups.append(self.runner)
        self.runner.start()

    def generate(self, given: Controls) -> Any:
        if given.asks == "raise":
            raise ValueError("its own")
        self.runner.generate(("die", 0) if given.asks == "die" else 1)
        return Picture(main=np.full((2, 2, 3), given.level, np.uint8))


class ReplacesIt(Sharded):
    @session_ended
    def mend(self) -> None:
        if not self.runner.healthy:
            self.start_group()


class MendsIt(Sharded):
    @session_ended
    def mend(self) -> None:
        if not self.runner.healthy:
            self.runner.shutdown()
            self.runner.start()


class DoesWithoutIt(Sharded):
    @session_ended
    def mend(self) -> None:
        self.runner.shutdown()

    def generate(self, given: Controls) -> Any:
        return super().generate(given) if self.runner.healthy else Picture(main=np.zeros((2, 2, 3), np.uint8))


class MendsItLater(Sharded):
    """Its step recovers; the group is replaced as the next session begins."""

    @session_started
    def mend(self) -> None:
        if not self.runner.healthy:
            self.start_group()

    async def process_output(self, outcome: StepOutcome) -> Any:
        return Picture(main=np.full((2, 2, 3), 99, np.uint8)) if outcome.error is not None else outcome.to_output()


class CannotMendIt(Sharded):
    @session_ended
    def mend(self) -> None:
        self.runner.shutdown()
        self.start_group(broken=0)


@pytest.fixture(autouse=True)
def groups_end() -> Iterator[None]:
    yield
    while Sharded.groups:
        Sharded.groups.pop().shutdown()


async def dies(client: Any) -> None:
    """The client has the rank killed, and sees its session end."""
    await client.take()
    await client.command("set_asks", asks="die")
    with pytest.raises((ModelFailed, SessionEnded)):
        await client.take(100)


async def serves(server: Any) -> None:
    async with server.connect() as client:
        await client.command("set_level", level=7)
        assert (await client.take_after()).data[0, 0, 0] == 7


async def test_a_failed_group_ends_the_model(autojump_clock: object, caplog: pytest.LogCaptureFixture) -> None:
    async with open_server(Sharded, step_cost=STEP) as server:
        async with server.connect() as client:
            await dies(client)
            assert client.ended == "model_error"
        await server.wait_left(client)
        assert server.http("/health").status == 503
        assert LOST in str(server.failure)
    assert "WorkerCrashed: rank 0 ended with exit code -9 in generate" in caplog.text  # with the author's traceback


async def test_in_a_process_of_its_own_the_model_is_loaded_again(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(Sharded, step_cost=STEP, isolation="process") as server:
        async with server.connect() as client:
            await dies(client)
            assert client.ended == "model_restarting"
        await trio.sleep(1)
        assert len(Sharded.groups) == 2
        assert server.http("/health").status == 200
        await serves(server)
    assert f"the model is gone: its code raised ModelPartLost: {LOST}" in caplog.text


@pytest.mark.parametrize(("app", "groups"), [(ReplacesIt, 2), (MendsIt, 1)])
async def test_an_app_that_replaces_its_group_goes_on(app: Any, groups: int, autojump_clock: object) -> None:
    async with open_server(app, step_cost=STEP) as server:
        for _ in range(2):
            async with server.connect() as client:
                await client.take()
                await client.command("set_asks", asks="die")
                with pytest.raises(WorkerCrashed):
                    await client.take(100)
            await serves(server)
    assert len(Sharded.groups) == (groups - 1) * 2 + 1


async def test_an_app_that_shuts_its_group_down_goes_on_without_it(autojump_clock: object) -> None:
    async with open_server(DoesWithoutIt, step_cost=STEP) as server:
        for asks, error in (("die", WorkerCrashed), ("", None)):
            async with server.connect() as client:
                await client.take()
                await client.command("set_asks", asks=asks)
                if error is not None:
                    with pytest.raises(error):
                        await client.take(100)
                else:
                    await client.take(100)
        assert server.http("/health").status == 200


async def test_an_app_whose_step_recovers_may_replace_its_group_later(autojump_clock: object) -> None:
    async with open_server(MendsItLater, step_cost=STEP) as server:
        async with server.connect() as client:
            await client.command("set_asks", asks="die")
            assert (await client.take_after()).data[0, 0, 0] == 99
        await serves(server)
    assert len(Sharded.groups) == 2


async def test_an_error_of_another_kind_ends_only_its_session(autojump_clock: object) -> None:
    async with open_server(Sharded, step_cost=STEP) as server:
        async with server.connect() as client:
            await client.command("set_asks", asks="raise")
            with pytest.raises(ValueError, match="its own"):
                await client.take(100)
        await serves(server)


async def test_the_client_may_have_left_when_the_group_fails(autojump_clock: object) -> None:
    """A call that hangs takes until its timeout, and nobody waits that long."""

    class Leaving(Sharded):
        async def process_output(self, outcome: StepOutcome) -> Any:
            if outcome.error is not None:
                left.set()
                await trio.sleep(1)
            return outcome.to_output()

    left = trio.Event()
    with pytest.RaisesGroup(WorkerCrashed, ModelPartLost):  # which no client gets
        async with open_server(Leaving, step_cost=STEP) as server:
            async with server.connect() as client:
                await client.command("set_asks", asks="die")
                await left.wait()
            await server.wait_left(client)
            assert server.http("/health").status == 503
            assert LOST in str(server.failure)


async def test_a_group_that_cannot_be_replaced_ends_the_model(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    failed = "a group of ranks has failed, and was neither replaced nor shut down: OSError: no weights"
    with pytest.raises(OSError, match="no weights"):  # of the hook, which no client gets
        async with open_server(CannotMendIt, step_cost=STEP) as server:
            async with server.connect() as client:
                await dies(client)
            await server.wait_left(client)
            assert server.http("/health").status == 503
    assert failed in caplog.text


async def test_a_group_that_is_used_after_its_shutdown_ends_the_model(autojump_clock: object) -> None:
    class StillUsesIt(Sharded):
        @session_ended
        def end(self) -> None:
            if not ended:
                self.runner.shutdown()
            ended.append(1)

    ended: list[int] = []
    async with open_server(StillUsesIt, step_cost=STEP) as server:
        async with server.connect() as client:
            await client.command("set_asks", asks="die")
            with pytest.raises(WorkerCrashed):
                await client.take(100)
        async with server.connect() as client:
            with pytest.raises((ModelFailed, SessionEnded)):
                await client.take(100)
        await server.wait_left(client)
        assert server.http("/health").status == 503


def test_a_part_that_nothing_refers_to_counts_no_more() -> None:
    class Part:
        pass

    lost, part, other = LostPart(), Part(), Part()
    lost.note(part, "it is gone")
    lost.forget(other)
    assert lost.what() == "it is gone"
    del part
    gc.collect()
    assert lost.what() is None


MODEL = """
import os, signal
import numpy as np
from reactor_trio import InputState, Output, ReactorApp, Video
from reactor_trio.distributed import DistributedRunner

class Picture(Output):
    main: Video

class Controls(InputState):
    dies: bool = False

class Worker:
    def load(self): ...
    def generate(self, dies):
        if dies and self.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    def reset(self): ...

class Model(ReactorApp):
    output: Picture
    state: Controls
    def load(self, config_path):
        self.runner = DistributedRunner(Worker, world_size=2, init_process_group=False)
        self.runner.start()
    def generate(self, given):
        self.runner.generate(given.dies)
        return Picture(main=np.zeros((8, 8, 3), np.uint8))
"""


def test_the_server_exits_with_1_and_says_which_rank_died(tmp_path: Path) -> None:
    with reactor_run(tmp_path, MODEL, drain_grace=0.3) as server, RawClient(server.port) as client:
        client.picture()
        client.say("set_dies", 1, dies=True)
        assert client.gone().code == 1011
        assert server.process.wait(PATIENCE) == 1, server.log
    (told,) = [line for line in server.log.splitlines() if line.startswith("reactor: ")]
    assert "faulty: model code raised ModelPartLost: a group of ranks has failed, and was neither replaced nor" in told
    assert "WorkerCrashed: rank 1 ended with exit code -9 in generate" in told
