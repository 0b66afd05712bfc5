"""`batch_inference()`: who is in which batch, whose mistakes end whom, and who comes and goes meanwhile."""

from __future__ import annotations

import traceback
from contextlib import AsyncExitStack, suppress

import numpy as np
import pytest
import trio

from reactor_trio.errors import DeclarationError, ModelFailed, OutputError, ReactorError
from reactor_trio.interface import Idle, InputState, ReactorPipeline, disconnected, event
from reactor_trio.offline import rendered
from reactor_trio.testing import PipelineExecutor, open_server, open_session
from tests.support.behaviour_models import picture, shown
from tests.support.models import Picture, Said

INLINE_AND_THREAD = pytest.mark.parametrize("placement", [{}, {"thread": True}], ids=["inline", "thread"])


class Level(InputState):
    level: int = 0


class Together(ReactorPipeline):
    """Each batch is logged as the levels in it, and when."""

    state: Level
    output: Picture
    fps = 60
    max_sessions = 4

    def load(self, config):
        self.batches = []
        self.own = 0

    @event
    async def slow(self):
        await trio.sleep(1)

    @event
    def write(self, value: int):
        self.own = value

    @event
    async def say(self, text: str):
        await self.send(Said(text))

    @disconnected
    def goodbye(self):
        self.batches.append(("left", self.state.level))

    def batch_inference(self, sessions):
        levels = [session.state.level for session in sessions]
        self.batches.append((trio.current_time(), levels))
        if 66 in levels:
            raise RuntimeError("the batch fails")
        return [self.of(session) for session in sessions]

    def of(self, session):
        level = session.state.level
        return {77: ValueError("this one fails"), 88: None, 89: Idle, 90: np.zeros(3)}.get(level, picture(level))


class Awaiting(Together):
    """Its batches take a second each, awaited."""

    async def batch_inference(self, sessions):
        levels = [session.state.level for session in sessions]
        self.batches.append((trio.current_time(), levels))
        for session in sessions:
            await session.send(Said(f"batch of {len(sessions)}"))
        await trio.sleep(1)
        assert all(session.state is not None for session in sessions)
        self.batches.append("over")
        return [picture(level) for level in levels]


async def leveled(server, stack, *levels):
    clients = [await stack.enter_async_context(server.connect()) for _ in levels]
    for client, level in zip(clients, levels, strict=True):
        await client.command("set_level", level=level)
    return clients


def batches(server, since=0.0):
    return [entry for entry in server.model.batches if isinstance(entry, tuple) and entry[0] != "left" and entry[0] >= since]


@INLINE_AND_THREAD
async def test_a_single_session_is_a_batch_of_one_and_does_not_wait(autojump_clock, placement):
    async with open_session(Together, step_cost=0.25, **placement) as client:
        assert [frame.pts for frame in await client.take(4)] == [0.25, 0.5, 0.75, 1.0]
    assert all(levels == [0] for _, levels in batches(client.server))


async def test_with_room_for_one_it_is_called_with_the_loaded_model(autojump_clock):
    async with open_session(Together, step_cost=0.25, max_sessions=1) as client:
        await client.take(2)
        await client.command("write", value=3)
        assert client.server.model.own == 3


@INLINE_AND_THREAD
async def test_sessions_that_are_due_are_stepped_together(autojump_clock, placement):
    async with open_server(Together, step_cost=0.1, **placement) as server, AsyncExitStack() as stack:
        clients = await leveled(server, stack, 1, 2, 3)
        await trio.sleep(10)
        late = batches(server, 2.0)
        assert all(levels == [1, 2, 3] for _, levels in late)
        assert np.allclose(np.diff([begins for begins, _ in late]), 0.1)
        for client, level in zip(clients, (1, 2, 3), strict=True):
            frames = await client.take(80)
            assert set(shown(frames)[10:]) == {level}
            assert np.allclose(np.diff([frame.pts for frame in frames])[20:], 0.1)


async def test_a_session_that_is_not_due_is_not_in_the_batch(autojump_clock):
    async with open_server(Together, step_cost=0.1) as server, AsyncExitStack() as stack:
        rests, _ = await leveled(server, stack, 1, 2)
        tasks = next(s for s in server.sessions if s.id == rests.session_id)._run._tasks
        tasks.session.binding.set_fps(1)
        await trio.sleep(30)
        late = batches(server, 10.0)
        assert sum(levels == [1, 2] for _, levels in late) == pytest.approx(20, abs=1)
        assert sum(levels == [2] for _, levels in late) == pytest.approx(180, abs=2)


@INLINE_AND_THREAD
async def test_commands_are_applied_right_before_and_isolated(autojump_clock, placement):
    async with open_server(Together, step_cost=0.1, **placement) as server, AsyncExitStack() as stack:
        first, second = await leveled(server, stack, 1, 2)
        await trio.sleep_until(5.03)
        await first.command("set_level", level=11)
        frame = (await first.take(len(batches(server)) + 5))[-1]
        assert shown([frame]) == [11]
        await first.command("write", value=5)
        await second.command("say", text="second")
        assert (await second.next_message()).data == {"text": "second"}
        assert server.model.own == 0
        acked = [b for b in batches(server) if b[1] == [11, 2]]
        assert acked[0][0] == pytest.approx(5.1)


@INLINE_AND_THREAD
async def test_a_session_whose_handler_awaits_joins_a_later_batch(autojump_clock, placement):
    async with open_server(Together, step_cost=0.1, **placement) as server, AsyncExitStack() as stack:
        first, _ = await leveled(server, stack, 1, 2)
        await trio.sleep_until(5)
        await first.command("slow")
        await trio.sleep_until(8)
        missed = [begins for begins, levels in batches(server, 4.0) if levels == [2]]
        assert len(missed) == pytest.approx(10, abs=1)
        assert batches(server, 6.5)[0][1] == [1, 2]


@INLINE_AND_THREAD
async def test_one_output_of_each_kind(autojump_clock, placement):
    async with open_server(Together, step_cost=0.1, **placement) as server, AsyncExitStack() as stack:
        resumables, none, idle, _ = await leveled(server, stack, 1, 88, 89, 3)
        await trio.sleep(1)
        counts = [client.statistics().tracks["main_video"].frames for client in (none, idle)]
        await trio.sleep(3)
        assert [client.statistics().tracks["main_video"].frames for client in (none, idle)] == counts
        await idle.command("set_level", level=77)
        with pytest.raises(ValueError, match="this one fails"):
            await idle.take(1000)
        await none.command("set_level", level=90)
        with pytest.raises(OutputError, match="main_video"):
            await none.take(1000)
        await trio.sleep(1)
        assert resumables.ended is None
        assert batches(server, trio.current_time() - 0.5)[0][1] == [1, 3]


@INLINE_AND_THREAD
async def test_an_exception_ends_the_sessions_of_that_batch(autojump_clock, placement):
    async with open_server(Together, step_cost=0.1, **placement) as server:
        async with AsyncExitStack() as stack:
            first, second = await leveled(server, stack, 1, 66)
            for client in (first, second):
                with pytest.raises(RuntimeError, match="the batch fails"):
                    await client.take(1000)
        async with server.connect() as third:
            await third.take(3)
    assert server.http("/health") is not None


class Told(Exception):
    """Its arguments are not those that it keeps."""

    def __init__(self, code, *, of):
        super().__init__(f"{of} failed with {code}")
        self.code = code


def undecodable():
    b"\xff".decode()


def told():
    raise Told(7, of="the batch")


def told_of_another():
    try:
        undecodable()
    except UnicodeDecodeError as error:
        raise ExceptionGroup("several", [ValueError("one")]) from error


@pytest.mark.parametrize("fails", [undecodable, told, told_of_another])
async def test_a_batch_that_fails_gives_each_session_an_exception_of_its_own(autojump_clock, caplog, fails):
    class Fails(Together):
        def batch_inference(self, sessions):
            if len(sessions) == 3:
                fails()
            return super().batch_inference(sessions)

    async with open_server(Fails, step_cost=0.1) as server, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(server.connect()) for _ in range(3)]
        for client in clients:
            with pytest.raises(Exception, match=r"utf-8|the batch failed with 7|several"):
                await client.take(1000)
        errors = [session.error for session in server.sessions]
        first = errors[0]
        assert len({id(error) for error in errors}) == 3
        assert {(type(error), str(error)) for error in errors} == {(type(first), str(first))}
        assert [vars(error) for error in errors] == [vars(first)] * 3
        assert all(error.__cause__ is first.__cause__ for error in errors)
        lines = [[frame.lineno for frame in traceback.extract_tb(error.__traceback__)] for error in errors]
        assert lines == [lines[0]] * 3  # none has the lines of another's session


async def test_one_exception_for_two_sessions_becomes_two(autojump_clock):
    class Shares(Together):
        def batch_inference(self, sessions):
            shared = ValueError("for both")
            return [shared if len(sessions) > 1 else picture(1) for _ in sessions]

    async with open_server(Shares, step_cost=0.1) as server, AsyncExitStack() as stack:
        for client in [await stack.enter_async_context(server.connect()) for _ in range(2)]:
            with pytest.raises(ValueError, match="for both"):
                await client.take(1000)
        one, other = (session.error for session in server.sessions)
        assert one is not other


@pytest.mark.parametrize(
    ("returns", "says"),
    [
        (lambda sessions: [], "expected 1 outputs, one for each session in their order, got 0"),
        (lambda sessions: picture(1), "expected a list with one output for each session, got ndarray"),
        (lambda sessions: (picture(1) for _ in sessions), "got generator"),
    ],
)
async def test_a_batch_that_returns_no_list_of_outputs_is_an_error_that_names_it(autojump_clock, returns, says):
    class Wrong(Together):
        def batch_inference(self, sessions):
            return returns(sessions)

    async with open_server(Wrong, step_cost=0.1) as server, server.connect() as client:
        with pytest.raises(OutputError, match=f"Wrong.batch_inference: .*{says}"):
            await client.take(1)


async def test_sessions_join_and_leave_between_awaited_batches(autojump_clock):
    async with open_server(Awaiting) as server:
        async with server.connect() as first:
            await first.command("set_level", level=1)
            await trio.sleep_until(10.5)
            async with server.connect() as second:
                await second.command("set_level", level=2)
                await trio.sleep_until(20.5)
                assert batches(server, 13.0)[0][1] == [1, 2]
                await second.close()                       # in the middle of a batch, which it waits for
                assert trio.current_time() == pytest.approx(21, abs=0.5)
            at = server.model.batches.index(("left", 2))
            assert server.model.batches[at + 1] == "over"
            await trio.sleep_until(25)
            assert batches(server, 22.5)[0][1] == [1]
            assert set(shown(await first.take(20))[2:]) == {1}
        assert "over" in server.model.batches


async def test_a_batch_whose_sessions_have_all_ended_is_cancelled(autojump_clock):
    class Endless(Awaiting):
        async def batch_inference(self, sessions):
            try:
                await trio.sleep_forever()
            finally:
                self.batches.append("cancelled")

    async with open_server(Endless) as server:
        async with AsyncExitStack() as stack:
            first, second = [await stack.enter_async_context(server.connect()) for _ in range(2)]
            await trio.sleep(1)
            await first.aclose()
            await trio.sleep(1)
            assert "cancelled" not in server.model.batches
            await second.close()
            assert server.model.batches[-1] == "cancelled"
        async with server.connect():
            await trio.sleep(1)


class FailsInItsCleanup(Together):
    """Its first batch, when all its sessions have left."""

    error: BaseException

    async def batch_inference(self, sessions):
        if self.batches:
            return [picture(1) for _ in sessions]
        self.batches.append(len(sessions))
        try:
            await trio.sleep_forever()
        finally:
            raise self.error


async def leave_in_a_batch(server):
    """Raises what no client was told."""
    async with server.connect(), server.connect():
        await trio.sleep(1)
    for session in server.sessions:
        await session.ended.wait()
    server.check_failures()


@INLINE_AND_THREAD
async def test_what_a_batch_raises_whose_sessions_have_all_left_is_logged_once(autojump_clock, caplog, placement):
    class Fails(FailsInItsCleanup):
        error = ValueError("in the cleanup")

    async with open_server(Fails, **placement) as server:
        with pytest.raises(ValueError, match="in the cleanup"):
            await leave_in_a_batch(server)
        async with server.connect() as client:
            await client.take(2)
        logged = [record.getMessage() for record in caplog.records if record.exc_info is not None]
        assert [line.partition(": ")[2] for line in logged] == ["the model raised after its end"]


@INLINE_AND_THREAD
async def test_a_program_that_ends_in_a_batch_whose_sessions_have_all_left_ends_the_model(autojump_clock, placement):
    class Ends(FailsInItsCleanup):
        error = SystemExit(3)

    phases = []
    with suppress(ModelFailed):
        async with open_server(Ends, **placement) as server:
            with suppress(SystemExit, BaseExceptionGroup):
                await leave_in_a_batch(server)
            await server.settle()
            phases.append(server.runtime.journal.phase)
    assert phases == ["failed"]


async def test_batch_code_that_leaves_by_check_cancelled_ends_no_other_session(autojump_clock):
    class Checks(Together):
        async def batch_inference(self, sessions):
            await trio.sleep(1)
            for session in sessions:
                session.check_cancelled()
            return [picture(1) for _ in sessions]

    async with open_server(Checks) as server, AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(server.connect()) for _ in range(2)]
        await trio.sleep(5.5)
        await first.close()
        await trio.sleep(5)
        assert second.ended is None
        assert len(await second.take(7)) == 7


def test_where_it_cannot_be_is_refused():
    with pytest.raises(DeclarationError, match="returns a list; it cannot be a generator"):

        class Generator(ReactorPipeline):
            def batch_inference(self, sessions):
                yield []

    from reactor_trio.interface import ReactorModel

    with pytest.raises(DeclarationError, match="only a ReactorPipeline"):

        class Loop(ReactorModel):
            def batch_inference(self, sessions):
                return []


def test_it_is_stepped_by_hand_as_a_batch_of_one():
    with PipelineExecutor(Together) as executor:
        executor.connect()
        executor.send_event("set_level", level=7)
        assert next(executor).output.main_video[0, 0, 0] == 7
        executor.send_event("set_level", level=77)
        with pytest.raises(ValueError, match="this one fails"):
            next(executor)


def test_a_film_of_it_is_made_of_batches_of_one():
    frames = [next(iter(bundle.tracks.values())) for bundle in rendered(Together, frames=3)]
    assert [int(frame[0, 0, 0]) for frame in frames] == [0, 0, 0]
    with pytest.raises(ReactorError, match=r"batch_inference\(\) of this model never ends"):
        rendered(Together)
