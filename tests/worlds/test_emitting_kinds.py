"""`reactor.rewind` of models that emit by themselves: `run()` and `start_session()`. Exact, in virtual time."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import pytest
import trio
import trio.lowlevel

from reactor_trio.errors import CommandError
from reactor_trio.interface import (
    Moment,
    ReactorModel,
    Saves,
    VideoIn,
    VideoModel,
    command,
    event,
    get_ctx,
    restored,
    saving,
)
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture, raw_session, shown
from tests.support.models import Note, Picture

#: in the test's loop, on a thread, behind the real framing
PLACED = pytest.mark.parametrize(
    ("model", "placement"),
    [
        ("Loop", {}), ("Loop", {"thread": True}), ("Loop", {"websocket": True}), ("Blocks", {}),
        ("Blocks", {"websocket": True}),
    ],
)


class Loop(ReactorModel):
    """Shows a number that each of its rounds changes by what is planned for it: the number and the plan are its world."""

    output: Picture
    saves = Saves("number", "plan")
    fps = 10

    def load(self, config: dict[str, Any]) -> None:
        self.number, self.plan = 0, [0]
        self.silent_for = 0.0

    @event
    def follow(self, plan: list[int]) -> None:
        self.plan = plan

    @event
    def be_silent(self, seconds: float) -> None:
        self.silent_for = seconds

    @event
    async def half(self) -> None:
        """Leave the world in two halves for a second."""
        self.number += 100
        await trio.sleep(1)
        self.number -= 100

    def advance(self) -> int:
        self.number = (self.number * 7 + self.plan[0] + 1) % 251
        self.plan = [*self.plan[1:], self.plan[0]]  # around and around
        return self.number

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                silent_for, self.silent_for = self.silent_for, 0.0
                await trio.sleep(silent_for)
                await self.emit(Picture(main_video=picture(self.advance())))


class Late(Loop):
    """Changes its world after the emit, which a loop may."""

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                await self.emit(Picture(main_video=picture(self.number)))
                self.advance()


class Several(Loop):
    max_sessions = 2


class Blocks(VideoModel):
    saves = Saves("number", "plan")

    def __init__(self, config: dict[str, Any]) -> None:
        self.number, self.plan = 0, [0]

    @command("follow")
    def follow(self, plan: list[int]) -> None:
        self.plan = plan

    def start_session(self) -> None:
        ctx = get_ctx()
        while not ctx.should_stop():
            Loop.advance(self)  # type: ignore[arg-type]
            ctx.emit_block(picture(self.number))


async def settled(client) -> Any:
    return await client.take_after()


@pytest.mark.parametrize("model", [Loop, Late, Several, Blocks])
async def test_it_goes_on_as_a_session_that_was_never_rewound(autojump_clock, model):
    chance = random.Random(7)
    async with open_server(model, step_cost=0.1) as server, server.connect() as client:
        await client.command("follow", plan=[chance.randrange(100) for _ in range(9)])
        frames = [await settled(client), *await client.take(90)]
        untouched = shown(frames)
        place = {frame.step: at for at, frame in enumerate(frames)}  # of each step of the world's own past in `untouched`
        for _ in range(8):
            to = chance.choice([step for step, at in place.items() if at < 60])
            moment = await client.worlds.rewind(step=to)
            assert moment.step == to
            place = {step: at for step, at in place.items() if step <= to}
            frames, at = [await settled(client), *await client.take(25)], place[to] + 1
            assert shown(frames) == untouched[at : at + 26]
            place |= {frame.step: at + further for further, frame in enumerate(frames)}


@PLACED
async def test_the_first_picture_after_the_answer_is_the_moments_next_one(autojump_clock, model, placement):
    async with open_server(globals()[model], step_cost=0.1, **placement) as server, server.connect() as client:
        frames = await client.take(20)
        moment = await client.worlds.rewind(steps=8)
        at = [frame.step for frame in frames].index(moment.step)
        after = [await settled(client), *await client.take(5)]
        assert shown(after) == shown(frames[at + 1 : at + 7])
        assert all(a.step < b.step and a.seq < b.seq and a.pts < b.pts for a, b in itertools.pairwise(frames + after))


@pytest.mark.parametrize("model", [Loop, Several, Blocks])
async def test_a_frame_that_is_seen_has_its_moment(autojump_clock, model):
    async with open_server(model, step_cost=0.1) as server, server.connect() as client:
        for _ in range(20):
            (frame,) = await client.take(1)
            assert (await client.worlds.rewind(step=frame.step)).step == frame.step
            await settled(client)


@pytest.mark.parametrize("model", [Loop, Blocks])
async def test_a_moment_ahead_is_gone_when_the_emit_that_the_rewind_waited_for_has_made_a_step(autojump_clock, model):
    async with open_server(model, step_cost=0.1) as server, server.connect() as client:
        frames = await client.take(20)
        await client.worlds.rewind(step=frames[3].step)
        await trio.sleep(0.01)
        assert (await client.worlds.rewind(step=frames[15].step)).step == frames[3].step
        assert shown([await settled(client), *await client.take(3)]) == shown(frames[4:8])


@pytest.mark.parametrize("model", [Loop, Blocks])
async def test_commands_before_it_are_undone_and_those_after_it_see_the_moment(autojump_clock, model):
    async with open_server(model, step_cost=0.1) as server, raw_session(server) as peer:
        await trio.sleep(2)
        await peer.command("follow", 1, plan=[50])
        await peer.command("reactor.rewind", 2, step=4)
        await peer.command("follow", 3, plan=[9, 9])
        await peer.command("reactor.rewind", 4, step=2)
        await peer.command("reactor.rewind", 5, step=3)
        answers = [await peer.answer() for _ in range(5)]
        assert [(answer["type"], answer["id"]) for answer in answers] == [("reactor.ack", n) for n in range(1, 6)]
        landings = [answer["data"]["reply"] and answer["data"]["reply"]["moment"]["step"] for answer in answers]
        assert landings == [None, 4, None, 3, 3]  # the last two share a place, and only the last is carried out
        await peer.command("reactor.rewind", 6, step=1)
        await peer.command("follow", 7, plan=[20, 21, 22])
        await peer.answer()
        await peer.answer()
        await trio.sleep(0.05)
        assert sorted(server.model.plan) == [20, 21, 22]


async def test_undo_goes_back_to_the_world_from_before(autojump_clock):
    async with open_server(Loop, step_cost=0.1) as server, server.connect() as client:
        await client.command("follow", plan=[3, 1, 4, 1, 5])
        seen = [await settled(client), *await client.take(30)]
        await client.worlds.rewind(steps=10)
        await client.worlds.undo()
        moment = await client.worlds.rewind(step=seen[20].step)  # which is of the past again
        assert moment.step == seen[20].step
        assert shown([await settled(client)]) == shown(seen[21:22])


class Hooked(Loop):
    def load(self, config: dict[str, Any]) -> None:
        super().load(config)
        self.cache = 0
        self.moments: list[Moment] = []
        self.failing = False

    @saving
    async def pack(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"cache": self.cache}

    @restored
    async def unpack(self, saved: dict[str, Any], moment: Moment) -> None:
        self.cache = saved["cache"]
        self.moments.append(moment)
        await trio.sleep(0.3)
        await self.emit(Picture(main_video=picture(255)))  # belongs to the past that is left: it is not shown
        await self.send(Note(text=f"back at {moment.step}"))
        if self.failing:
            self.failing = False
            raise OSError("no cache")

    def advance(self) -> int:
        self.cache += 1
        return (super().advance() + self.cache) % 251


async def test_the_loop_stands_in_its_emit_until_restored_has_run(autojump_clock):
    async with open_server(Hooked, step_cost=0.1) as server, server.connect() as client:
        frames = await client.take(20)
        moment = await client.worlds.rewind(step=frames[9].step)
        assert (await client.next_message()).data == {"text": f"back at {moment.step}"}
        after = [await settled(client), *await client.take(3)]
        assert shown(after) == shown(frames[10:14])
        assert [each.why for each in server.model.moments] == ["rewind"]


async def test_a_restored_that_raises_leaves_the_world_as_it_was(autojump_clock):
    async with open_server(Hooked, step_cost=0.1) as server, server.connect() as client:
        await client.command("follow", plan=[3, 1, 4, 1, 5])
        frames = await client.take(20)
        server.model.failing = True
        with pytest.raises(CommandError) as raised:
            await client.worlds.rewind(step=frames[9].step)
        assert raised.value.code == "restore_failed"
        untouched = Hooked()
        untouched.load({})
        untouched.number, untouched.plan, untouched.cache = server.model.number, server.model.plan, server.model.cache
        to_come = [untouched.advance() for _ in range(90)]
        assert untouched.cache >= 60  # those of now, not of step 9
        after = shown(await client.take(50))[-20:]
        assert any(after == to_come[at : at + 20] for at in range(71))


async def test_a_loop_that_emits_nothing_for_5_s_keeps_its_world(autojump_clock):
    async with open_server(Loop, step_cost=0.1) as server, server.connect() as client:
        frames = await client.take(20)
        await client.command("be_silent", seconds=20)
        await trio.sleep(1)
        number, began = server.model.number, trio.current_time()
        with pytest.raises(CommandError, match=r"no emit\(\) for 5 s") as raised:
            await client.worlds.rewind(step=frames[3].step)
        assert raised.value.code == "restore_failed"
        assert trio.current_time() - began == pytest.approx(5, abs=0.1)
        assert server.model.number == number
        await trio.sleep(20)
        moment = await client.worlds.rewind(step=frames[3].step)  # and later it can
        assert moment.step == frames[3].step
        assert shown([await settled(client)]) == shown(frames[4:5])


async def test_a_loop_that_emits_again_within_5_s_goes_back_then(autojump_clock):
    async with open_server(Loop, step_cost=0.1) as server, server.connect() as client:
        frames = await client.take(20)
        await client.command("be_silent", seconds=4)
        await trio.sleep(0.5)
        await client.worlds.rewind(step=frames[3].step)
        assert shown([await settled(client), *await client.take(2)]) == shown(frames[4:7])


async def test_in_the_middle_of_a_handler_no_moment_is_kept(autojump_clock):
    async with open_server(Loop, step_cost=0.1) as server, server.connect() as client:
        before = (await client.take(10))[-1].step
        await client.command("half")
        after = (await client.take(10))[-1].step
        steps = set()
        for step in range(after, before - 3, -1):
            steps.add((await client.worlds.rewind(step=step)).step)
            await client.worlds.undo()
        assert len(steps) <= after - before + 3 - 9  # 10 steps of the second of the handler are missing


class Busy(Loop):
    """Notes what runs while something else does."""

    def load(self, config: dict[str, Any]) -> None:
        super().load(config)
        self.running: list[str] = []
        self.beside: list[tuple[str, ...]] = []

    async def for_a_while(self, name: str) -> None:
        self.running.append(name)
        if len(self.running) > 1:
            self.beside.append(tuple(self.running))
        await trio.sleep(0.06)
        self.running.remove(name)

    @event
    async def handle(self) -> None:
        await self.for_a_while("handler")

    @saving
    async def pack(self) -> dict[str, Any]:
        await self.for_a_while("@saving")
        return {}

    @restored
    async def unpack(self, saved: dict[str, Any], moment: Moment) -> None:
        self.running.append("@restored")
        await trio.sleep(2)  # in which a moment falls due
        await self.emit(Picture(main_video=picture(255)))
        self.running.remove("@restored")
        await self.for_a_while("@restored")


async def test_handlers_and_hooks_of_a_world_run_one_at_a_time(autojump_clock):
    async with open_server(Busy, step_cost=0.1) as server, server.connect() as client:
        frames = await client.take(20)
        for number in range(60):
            await client.command("handle")
            await trio.sleep(0.001 * number)
            if number % 20 == 7:
                await client.worlds.rewind(step=frames[4].step)
        assert server.model.beside == []


async def test_a_client_that_leaves_while_the_rewind_waits_ends_its_session(autojump_clock):
    async with open_server(Loop, step_cost=0.1) as server:
        async with server.connect() as client:
            await client.take(10)
            await client.command("be_silent", seconds=100)
            await trio.sleep(1)
            with trio.move_on_after(1):
                await client.worlds.rewind(step=3)
        left = trio.current_time()
        async with server.connect() as client:
            assert trio.current_time() - left < 1
            assert client.worlds.may


async def test_a_rewind_of_one_session_leaves_the_other_alone(autojump_clock):
    async with open_server(Several, step_cost=0.01) as server, server.connect() as one, server.connect() as other:
        seen = await other.take(5)
        await one.take(10)
        await one.worlds.rewind(step=2)
        await one.take(5)
        seen += await other.take(20)
        model = Loop()
        model.number, model.plan = 0, [0]
        assert shown(seen) == [model.advance() for _ in seen]


class Hooks(Blocks):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.half_done = False

    @command("half")
    def half(self) -> None:
        self.half_done = True
        time.sleep(0.35)
        self.half_done = False

    @saving
    def pack(self) -> dict[str, Any]:
        assert not self.half_done
        return {}

    @restored
    def unpack(self, saved: dict[str, Any], moment: Moment) -> None:
        assert not self.half_done
        get_ctx().send({"type": "back", "data": {"at": moment.step}})


async def test_a_blocking_models_world_is_taken_and_put_when_no_command_runs(autojump_clock):
    async with open_server(Hooks, step_cost=0.1) as server, server.connect() as client:
        frames = await client.take(20)
        for number in range(3):
            await client.command("half")
            moment = await client.worlds.rewind(step=frames[9 - number].step)
            assert (await client.next_message()).data == {"at": moment.step}
            assert shown([await settled(client)]) == shown(frames[10 - number : 11 - number])


class Watches(Hooks):
    eye = VideoIn()
    looking = 0.35

    def on_frame(self, frame: Any) -> None:
        self.half_done = True
        time.sleep(self.looking)
        self.half_done = False


async def test_a_blocking_models_world_is_taken_and_put_when_on_frame_does_not_run(autojump_clock):
    async with open_server(Watches, step_cost=0.1) as server, server.connect() as client:
        frames = await client.take(20)
        for number in range(3):
            await client.push("eye", picture(1), picture(2))
            await trio.sleep(0.1)
            moment = await client.worlds.rewind(step=frames[9 - number].step)
            assert (await client.next_message()).data == {"at": moment.step}
            assert shown([await settled(client)]) == shown(frames[10 - number : 11 - number])
            await trio.sleep(2)


async def test_an_on_frame_that_does_not_return_refuses_the_rewind_after_5_s(autojump_clock):
    async with open_server(Watches, step_cost=0.1) as server, server.connect() as client:
        frames = await client.take(20)
        server.model.looking = 20
        await client.push("eye", picture(1))
        await trio.sleep(1)
        began = trio.current_time()
        with pytest.raises(CommandError, match=r"on_frame\(\) runs for 5 s") as raised:
            await client.worlds.rewind(step=frames[9].step)
        assert raised.value.code == "restore_failed"
        assert trio.current_time() - began == pytest.approx(5, abs=0.1)
        await trio.sleep(20)
        assert (await client.worlds.rewind(step=frames[9].step)).step == frames[9].step
        assert shown([await settled(client)]) == shown(frames[10:11])


@pytest.mark.parametrize("model", [Loop, Blocks])
async def test_in_a_process_of_its_own(autojump_clock, model):
    async with open_server(model, step_cost=0.1, isolation="process") as server, server.connect() as client:
        await client.command("follow", plan=[3, 1, 4, 1, 5])
        frames = [await settled(client), *await client.take(30)]
        moment = await client.worlds.rewind(step=frames[4].step)
        assert moment.step == frames[4].step
        assert shown([await settled(client), *await client.take(10)]) == shown(frames[5:16])
