"""Recordings of sessions that save, restore and fork their worlds run again, frame by frame (row 31 of worlds.md)."""

from __future__ import annotations

import json

import pytest
import trio
from tests.support.offline_models import Counting, picture
from tests.worlds.test_emitting_kinds import Blocks, Loop
from tests.worlds.test_rewind import Counter

from reactor_trio.configuration.settings import Settings as ServerSettings
from reactor_trio.configuration.settings import WorldSettings
from reactor_trio.interface import InputState, Saves, restored, saving
from reactor_trio.offline import ScriptError, read_recording, render, replay
from reactor_trio.testing import assert_replays, open_server, replayed_frames


class Kept(InputState):
    red: int = 0
    _number: int = 0


class Worldly(Counting):
    """Shows the setting `red` and how many steps the world has made; both are its world."""

    state: Kept
    saves = Saves()

    def inference(self):
        while True:
            self.state._number += 1
            yield picture(self.state.red, self.state._number % 256, 0)

    @restored
    def unpack(self, saved, moment):
        self.state._number += {"rewind": 0, "restore": 20, "fork": 40}[moment.why]


class Pair(Worldly):
    max_sessions = 2


def recorded(folder, *, stored: bool = True) -> ServerSettings:
    store = str(folder / "store") if stored else None
    return ServerSettings(worlds=WorldSettings(store=store), record=str(folder / "films"))


def timelines(folder):
    """The paths of the timelines, in the order in which the sessions began."""
    paths = (folder / "films").glob("*.jsonl")
    return sorted(paths, key=lambda path: json.loads(path.read_text().splitlines()[0])["began"])


async def play(client) -> None:
    """Save, go on, restore, and save a kept moment, with settings that change meanwhile."""
    await client.take(3)
    await client.command("set_red", red=100)
    first = await client.worlds.save()
    await client.take(3)
    await client.command("set_red", red=200)
    await client.take(3)
    kept = await client.worlds.save(step=2)
    await client.worlds.restore(first.id)
    await client.take(3)
    await client.worlds.rewind(steps=1)
    await client.take(2)
    await client.worlds.restore(kept.id)
    await client.take(2)
    await client.worlds.undo()
    await client.take(3)


@pytest.mark.parametrize("stored", [True, False])
async def test_a_session_that_restores_what_it_has_saved_replays_without_a_file(tmp_path, autojump_clock, stored):
    async with open_server(Worldly, settings=recorded(tmp_path, stored=stored)) as server:
        async with server.connect() as client:
            await play(client)
        await server.wait_left(client)
    (path,) = timelines(tmp_path)
    bundles = await assert_replays(path, Worldly)
    numbers = [int(b.tracks["main_video"][0, 0, 1]) for b in bundles]
    assert numbers != sorted(numbers)
    await assert_replays(path, Worldly, worlds=[tmp_path / "store"] if stored else [])


@pytest.mark.parametrize(
    ("model", "command"),
    [(Counter, {"jump": {"to": 100}}), (Loop, {"follow": {"plan": [3, 1]}}), (Blocks, {"follow": {"plan": [5]}})],
)
async def test_each_kind_of_model_goes_back_in_a_replay(tmp_path, autojump_clock, model, command):
    async with open_server(model, settings=recorded(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(6)
            world = await client.worlds.save()
            await client.take(4)
            await client.worlds.restore(world.id)
            await client.take(4)
            for name, arguments in command.items():
                await client.command(name, **arguments)
            await client.take(4)
            await client.worlds.rewind(steps=2)
            await client.worlds.restore(world.id)
            await client.worlds.rewind(steps=1)
            await client.take(4)
        await server.wait_left(client)
    (path,) = timelines(tmp_path)
    await assert_replays(path, model)


@pytest.mark.parametrize("model", [Loop, Blocks])
async def test_a_rendering_of_a_model_that_emits_applies_commands_and_rewinds(model):
    script = [
        {"step": 3, "name": "follow", "arguments": {"plan": [5, 1]}},
        {"step": 7, "name": "reactor.rewind", "arguments": {"step": 4}},
        {"step": 7, "name": "follow", "arguments": {"plan": [2]}},
    ]  # fmt: skip
    async with render(model, script=script, frames=10) as rendering:
        numbers = [int(bundle.tracks["main_video"][0, 0, 0]) for bundle in [each async for each in rendering]]
    found: list[int] = []
    number, plan, plans = 0, [0], {3: [5, 1], 7: [2]}
    for step in range(10):
        plan = plans.get(step, plan)
        number = (found[4] if step == 7 else number) * 7
        number, plan = (number + plan[0] + 1) % 251, [*plan[1:], plan[0]]
        found.append(number)
    assert numbers == found


async def saved_in_one_session_and_restored_in_another(folder):
    """Returns the file of the world and the timeline of the session that has restored it."""
    async with open_server(Worldly, settings=recorded(folder)) as server:
        async with server.connect() as client:
            await client.command("set_red", red=100)
            await client.take(5)
            world = await client.worlds.save()
        await server.wait_left(client)
        await trio.sleep(1)
        async with server.connect() as client:
            await client.take(3)
            await client.worlds.restore(world.id)
            await client.take(3)
        await server.wait_left(client)
    (file,) = (folder / "store").glob("*.world")
    return file, timelines(folder)[1]


async def test_a_world_of_another_session_comes_from_its_file_or_from_the_folder_of_the_store(tmp_path, autojump_clock):
    file, path = await saved_in_one_session_and_restored_in_another(tmp_path)
    (restore,) = read_recording(path).commands
    for places in ([file], [str(file.parent)], [tmp_path / "films", file.parent]):
        reds = [int(b.tracks["main_video"][0, 0, 0]) for b in await assert_replays(path, Worldly, worlds=places)]
        assert reds == [0] * restore.step + [100] * (len(reds) - restore.step)


async def test_without_the_file_one_line_names_it(tmp_path, autojump_clock):
    file, path = await saved_in_one_session_and_restored_in_another(tmp_path)
    (restore,) = read_recording(path).commands
    digest = restore.arguments["digest"]
    for places in ([], [tmp_path / "films"]):
        with pytest.raises(ScriptError) as raised:
            await replayed_frames(path, Worldly, worlds=places)
        assert str(raised.value) == (
            f"{restore.where}: reactor.restore: the file of the saved world of step 5 (0.600 s old, digest {digest}) is "
            "missing: name it, or the folder of the store, with --world (worlds=)"
        )
    for place, said in ((tmp_path / "none.world", "No such file"), (path, "damaged: it does not begin as one")):
        with pytest.raises(ScriptError, match=said) as raised:
            await replayed_frames(path, Worldly, worlds=[place])
        assert str(raised.value).startswith(f"{place}: ")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ScriptError, match="the file of the world is damaged"):
        await replayed_frames(path, Worldly, worlds=[file])


async def test_a_world_of_a_version_that_the_model_cannot_read_is_refused(tmp_path, autojump_clock):
    class Newer(Worldly):
        saves = Saves(version=2)

    class Reading(Worldly):
        saves = Saves(version=2, reads=(1,))

    file, path = await saved_in_one_session_and_restored_in_another(tmp_path)
    with pytest.raises(ScriptError, match=rf"{file}: the world has the version 1"):
        await replayed_frames(path, Newer, worlds=[file])
    await assert_replays(path, Reading, worlds=[file])


async def test_other_weights_are_a_warning(tmp_path, autojump_clock):
    class Weighted(Worldly):
        def world_identity(self) -> str:
            return "other"

    file, path = await saved_in_one_session_and_restored_in_another(tmp_path)
    async with replay(path, Weighted, worlds=[file], thread=False) as replaying:
        assert f"{file}: the world is of another weights" in replaying.warnings


@pytest.mark.parametrize("stored", [True, False])
async def test_parent_and_fork_replay(tmp_path, autojump_clock, stored):
    async with open_server(Pair, settings=recorded(tmp_path, stored=stored)) as server, server.connect() as first:
        await first.command("set_red", red=100)
        await first.take(5)
        fork = await first.worlds.fork()
        await trio.sleep(1)
        async with server.connect(fork=fork.token) as second:
            await second.take(3)
            await second.command("set_red", red=7)
            await second.take(3)
            of_saved = await second.worlds.fork(world=(await second.worlds.save()).id)
            await second.worlds.forget(of_saved.token)
            await second.take(1)
    parent, child = timelines(tmp_path)
    await assert_replays(parent, Pair)
    with pytest.raises(ScriptError, match=rf"{child}:1: reactor\.restore: the file of the saved world of step 5"):
        await replayed_frames(child, Pair)
    if stored:
        bundles = await assert_replays(child, Pair, worlds=[tmp_path / "store"])
        assert bundles[0].tracks["main_video"][0, 0].tolist() == [100, 7 + 40, 0]


class Slow(Worldly):
    """Its captures take time, so that the server keeps some moments alone."""

    captures = 0

    @saving
    async def pack(self):
        self.captures += 1
        await trio.sleep(0.01)
        return {}

    @restored
    def unpack(self, saved, moment):
        self.state._number += 100 * (moment.why != "rewind") + 50 * moment.same_process


async def test_a_replay_keeps_the_moments_that_are_named_and_no_others(tmp_path, autojump_clock):
    async with open_server(Slow, settings=recorded(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(20)
            moments = [moment.step for moment in (await client.worlds.list()).moments]
            assert len(moments) < 15
            await client.worlds.rewind(step=moments[3] + 1)
            await client.take(10)
            await client.worlds.undo()
            await client.take(3)
            world = await client.worlds.save(step=moments[2])
            await client.worlds.restore(world.id)
            await client.take(3)
        await server.wait_left(client)
    (path,) = timelines(tmp_path)
    await assert_replays(path, Slow)
    async with replay(path, Slow, thread=False) as replaying:
        assert len([bundle async for bundle in replaying.rendering]) > 30
    assert replaying.rendering.model.captures == 2 + 3  # those that are named; the world of before a rewind, undo, restore


class Computing(Worldly):
    def load(self, config):
        self.seconds = config.get("seconds", 0)

    async def inference(self):
        for made in super().inference():
            await trio.sleep(self.seconds)
            yield made


async def test_a_replay_takes_a_rewind_back_however_long_its_steps_take(tmp_path, autojump_clock):
    async with open_server(Computing, settings=recorded(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(9)
            await client.worlds.rewind(steps=5)
            await client.take(3)
            await client.worlds.undo()
            await client.take(2)
        await server.wait_left(client)
    (path,) = timelines(tmp_path)
    await assert_replays(path, Computing, config={"seconds": 40})


async def test_a_timeline_of_an_older_version_says_what_it_lacks(tmp_path, autojump_clock):
    async with open_server(Worldly, settings=recorded(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(3)
            world = await client.worlds.save()
            await client.take(3)
            await client.worlds.restore(world.id)
        await server.wait_left(client)
    (path,) = timelines(tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line.get("name", "").startswith("reactor."):
            line["arguments"] = {}
    old = [line for line in lines if line["type"] != "saved"]
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    with pytest.raises(ScriptError, match="the recording does not say which world that was"):
        await replayed_frames(path, Worldly)
    path.write_text("".join(json.dumps(line) + "\n" for line in old if line.get("name") != "reactor.restore"))
    await assert_replays(path, Worldly)


async def test_a_model_without_saves_says_so(tmp_path, autojump_clock):
    _, path = await saved_in_one_session_and_restored_in_another(tmp_path)
    with pytest.raises(ScriptError, match="this model saves no worlds"):
        await replayed_frames(path, Counting)
