"""What a rendering makes: every bundle once and in order, commands at their steps, and how it ends."""

from __future__ import annotations

import threading

import pytest
import trio
from tests.support.offline_models import (
    AsyncCounting,
    Batching,
    Blocking,
    Counting,
    Failing,
    Looping,
    Picture,
    Said,
    Sounding,
    Taking,
    Waiting,
    picture,
    seen,
)

from reactor_trio.errors import ModelFailed, ReactorError
from reactor_trio.interface import ReactorApp, command, event, get_ctx
from reactor_trio.offline import ScriptError, render, rendered

RED = [
    {"step": 0, "name": "set_red", "arguments": {"red": 5}},
    {"step": 3, "name": "set_red", "arguments": {"red": 6}},
    {"step": 3, "name": "set_red", "arguments": {"red": 7}},
    {"t": 0.6, "name": "set_red", "arguments": {"red": 8}},
]


async def all_of(model, **options):
    async with render(model, **options) as rendering:
        return [bundle async for bundle in rendering]


@pytest.mark.parametrize("thread", [True, False])
@pytest.mark.parametrize("model", [Counting, AsyncCounting, Looping, Blocking])
async def test_each_kind_of_model_sees_each_command_at_its_step(model, thread):
    bundles = await all_of(model, script=RED, frames=9, fps=10, thread=thread)
    assert seen(bundles) == [(n, 5 if n < 3 else 7 if n < 6 else 8, n) for n in range(9)]
    assert [b.seqs["main_video"] for b in bundles] == list(range(9))
    assert [round(b.t, 6) for b in bundles] == [n / 10 for n in range(9)]


@pytest.mark.parametrize("model", [Counting, Looping, Blocking])
async def test_a_slow_program_makes_the_model_wait_and_loses_nothing(model):
    async with render(model, frames=60) as rendering:
        taken, made = [], []
        async for bundle in rendering:
            taken.append(bundle)
            await trio.sleep(0.001)
            made.append(rendering._room.made - len(taken))
    assert seen(taken) == [(n, 0, n) for n in range(60)]
    assert max(made) <= 8


async def test_seconds_are_the_films_whatever_a_step_takes():
    assert len(await all_of(Counting, seconds=2)) == 20
    assert len(await all_of(Counting, seconds=2, fps=25)) == 50
    assert len(await all_of(Counting, seconds=2.05)) == 21


async def test_without_a_limit_it_ends_with_the_generator_and_sound_says_how_long_a_frame_is():
    bundles = await all_of(Sounding)
    assert [(b.step, round(b.t, 6), b.duration, b.tracks["sound"].shape) for b in bundles] == [
        (0, 0, 0.1, (1, 4800)), (1, 0.1, 0.1, (1, 4800)), (2, 0.2, 0.1, (1, 4800)),
    ]  # fmt: skip


async def test_with_a_limit_a_new_generator_follows_as_in_a_live_session():
    assert [int(b.tracks["main_video"][0, 0, 0]) for b in await all_of(Sounding, frames=5)] == [0, 80, 160, 0, 80]


async def test_an_error_of_the_model_comes_after_its_last_frame():
    taken = []
    with pytest.raises(ModelFailed, match="Failing: step 5 raised RuntimeError: out of ideas") as failed:
        async with render(Failing, frames=9) as rendering:
            async for bundle in rendering:
                taken.append(bundle)
    assert (len(taken), type(failed.value.__cause__)) == (5, RuntimeError)


async def test_a_run_that_ends_is_a_failure_behind_its_last_frame():
    class Ending(Looping):
        async def run(self):
            await self.connected.wait()
            await self.emit(picture(1, 1))

    taken = []
    with pytest.raises(ModelFailed, match="Ending: run\\(\\) returned"):
        async with render(Ending, frames=3) as rendering:
            async for bundle in rendering:
                taken.append(bundle)
    assert seen(taken) == [(0, 1, 1)]


async def test_a_refused_command_ends_it_and_names_its_line():
    jump = [{"step": 2, "name": "jump", "arguments": {"by": -1}}]
    with pytest.raises(ScriptError, match=r"script\[0\]: jump was refused \(backwards\): only forwards"):
        await all_of(Counting, script=jump, frames=30)
    jump = [{"step": 2, "name": "jump", "arguments": {"by": 13}}]
    with pytest.raises(ModelFailed, match=r"script\[0\]: the handler of jump raised RuntimeError: unlucky"):
        await all_of(Counting, script=jump, frames=30)


async def test_a_handler_may_emit():
    class Echoing(Looping):
        @event
        async def echo(self):
            await self.emit(picture(77, 0))

    class BlockingEcho(Blocking):
        @command
        def echo(self):
            get_ctx().emit_block(picture(77, 0))

    for model in (Echoing, BlockingEcho):
        bundles = await all_of(model, script=[{"step": 2, "name": "echo"}], frames=6)
        assert [red for _, red, _ in seen(bundles)] == [0, 0, 77, 0, 0, 0]


async def test_a_handler_that_waits_for_the_next_frame_holds_it_up_for_a_while(monkeypatch):
    monkeypatch.setattr("reactor_trio.offline.unpaced_time.HANDLERS_TIMEOUT", 0.05)

    class Asking(Looping):
        def __init__(self):
            self.emitted = trio.Event()

        @event
        async def after_next(self):
            await self.emitted.wait()

        async def emit(self, output, **options):
            await super().emit(output, **options)
            self.emitted.set()
            self.emitted = trio.Event()

    bundles = await all_of(Asking, script=[{"step": 2, "name": "after_next"}], frames=5)
    assert [n for *_, n in seen(bundles)] == [0, 1, 2, 3, 4]


async def test_commands_of_one_step_are_all_applied_and_none_supersedes_another():
    jumps = [{"step": 1, "name": "jump", "arguments": {"by": by}} for by in (1, 2, 3)]
    bundles = await all_of(Counting, script=jumps, frames=3)
    assert [int(b.tracks["main_video"][0, 0, 2]) for b in bundles] == [0, 6, 6]


async def test_a_batch_is_cut_where_enough_is_made_and_a_command_waits_for_the_next_step():
    script = [{"t": 0.5, "name": "set_red", "arguments": {"red": 9}}]
    assert seen(await all_of(Batching, script=script, frames=10, thread=False)) == [
        *((0, 0, n) for n in range(4)), *((1, 0, n) for n in range(4)), (2, 9, 0), (2, 9, 1),
    ]  # fmt: skip
    assert len(await all_of(Batching, seconds=0.6)) == 6


async def test_a_waiting_model_gets_inputs_by_the_time_of_the_film():
    script = [{"t": 30, "name": "set_red", "arguments": {"red": 9}}]
    (bundle,) = await all_of(Waiting, script=script, frames=1)
    assert (seen([bundle]), round(bundle.t, 6)) == ([(0, 9, 0)], 30.0)


async def test_a_model_that_waits_for_nothing_is_not_waited_for(autojump_clock):
    with pytest.raises(ReactorError, match=r"waits at step 0, 10.02 s into the film, and the script has no more commands"):
        await all_of(Waiting, frames=1, thread=False)
    late = [{"step": 4, "name": "set_red", "arguments": {"red": 9}}]
    with pytest.raises(ReactorError, match=r"script\[0\] comes at step 4, which the model does not reach"):
        await all_of(Waiting, script=late, frames=1, thread=False)
    assert await all_of(Waiting, seconds=3, thread=False) == []


class App(ReactorApp):
    output: Picture

    async def process_input(self):
        return None

    def generate(self, given):
        return picture(0, 0)

    async def process_output(self, outcome):
        return Picture(main_video=outcome.result)


@pytest.mark.parametrize(("model", "method"), [(Looping, "run"), (App, "generate")])
async def test_a_model_that_never_ends_needs_a_limit(model, method):
    with pytest.raises(ReactorError, match=rf"{method}\(\) of this model never ends: say how many frames"):
        await all_of(model)
    assert len(await all_of(model, frames=3)) == 3


async def test_leaving_early_ends_the_session_in_its_order():
    async with render(Counting) as rendering:
        async for bundle in rendering:
            if bundle.step == 3:
                break
        assert rendering.model.state is not None
    assert rendering.model.state is None
    assert [thread.name for thread in threading.enumerate() if "reactor" in thread.name] == []


async def test_an_exception_of_the_block_comes_out_as_it_is():
    with pytest.raises(LookupError, match="mine"):
        async with render(Looping, frames=3):
            raise LookupError("mine")


async def test_a_cancelled_take_has_taken_nothing():
    async with render(Counting, frames=4) as rendering:
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(rendering)
        assert seen([bundle async for bundle in rendering]) == [(n, 0, n) for n in range(4)]


async def test_files_come_from_a_folder_and_messages_to_a_function(tmp_path):
    (tmp_path / "cat.bin").write_bytes(b"\x07rest")
    said = []
    show = [{"step": 1, "name": "show", "arguments": {"file": {"upload_id": "cat.bin"}}}]
    bundles = await all_of(
        Taking, script=show, frames=2, uploads=tmp_path, on_message=lambda *what: said.append(what)
    )
    assert (seen(bundles), said) == ([(0, 0, 0), (1, 7, 0)], [(Said.__reactor_type__, {"number": 7})])
    with pytest.raises(ScriptError, match="say where such files are, with --uploads FOLDER"):
        await all_of(Taking, script=show, frames=2)


def test_without_a_loop():
    assert seen(rendered(Counting, frames=3)) == [(0, 0, 0), (1, 0, 1), (2, 0, 2)]
