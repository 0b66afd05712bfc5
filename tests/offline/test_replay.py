"""A recorded session runs again: the same frames, or the first one that differs."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from tests.support.offline_models import AsyncCounting, Blocking, Counting, Looping, Noisy, Taking, picture, seen

from reactor_trio.errors import CommandError
from reactor_trio.interface import Saves
from reactor_trio.offline import ScriptError, Verification, read_recording, replay
from reactor_trio.testing import assert_replays, open_server, replayed_frames


def timeline(folder):
    (path,) = folder.glob("*.jsonl")
    return path


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_lines(path, changed):
    path.write_text("".join(json.dumps(line) + "\n" for line in changed))


async def record(model, folder, *, config=None, at=0.1):
    """A session with commands of all fates; returns its timeline's path."""
    async with open_server(model, step_cost=0.25, record=str(folder), config=config) as server:
        async with server.connect() as client:
            await client.take(2)
            await trio.sleep(at)  # by default a step computes then, so of the first two only one counts
            async with trio.open_nursery() as nursery:
                for red in (100, 200):
                    nursery.start_soon(lambda red=red: client.command("set_red", red=red))
                    await trio.testing.wait_all_tasks_blocked()
            await client.take(2)
            await trio.sleep(at)
            if "jump" in server.runtime.placement.declaration.commands:
                async with trio.open_nursery() as nursery:
                    for by in (50, 3):
                        nursery.start_soon(lambda by=by: client.command("jump", by=by))
                        await trio.testing.wait_all_tasks_blocked()
                with pytest.raises(CommandError):
                    await client.command("jump", by=-1)
                await client.command("jump", by=4)
            await client.take(3)
        await server.wait_left(client)
    return timeline(folder)


@pytest.mark.parametrize("model", [Counting, Noisy])
async def test_a_recording_replays_frame_by_frame(model, tmp_path, autojump_clock):
    path = await record(model, tmp_path)
    known = read_recording(path)
    made = [line for line in lines(path) if line["type"] == "frames"]
    assert known.verifiable
    assert known.bundles == len(made) >= 7
    bundles = await assert_replays(path, model)
    assert [b.step for b in bundles] == [line["step"] for line in made]
    assert [list(b.tracks["main_video"].shape) for b in bundles] == [line["tracks"]["main_video"]["shape"] for line in made]


async def test_a_session_that_was_paused_stepped_and_restarted_replays_frame_by_frame(tmp_path, autojump_clock):
    async with open_server(Counting, step_cost=0.01, record=str(tmp_path)) as server:
        async with server.connect() as client:
            await client.command("set_red", red=100)
            await client.take(3)
            await client.transport.pause()
            await client.transport.step(2)
            await client.transport.restart()
            await client.transport.step()
            await client.transport.resume()
            await client.take(4)
            await client.transport.restart("fresh")
            await client.take(3)
        await server.wait_left(client)
    path = timeline(tmp_path)
    names = [(line["name"], line["arguments"]) for line in lines(path) if line["type"] == "command"]
    assert ("reactor.pause", {"paused": True}) in names
    assert [command.arguments for command in read_recording(path).commands[1:]] == [{"state": "kept"}, {"state": "fresh"}]
    await assert_replays(path, Counting)


class Worldly(Counting):
    saves = Saves("number")

    number = 0

    def inference(self):
        while True:
            self.number += 1
            yield picture(self.state.red, self.number, 0)


async def test_a_session_that_was_rewound_replays_frame_by_frame(tmp_path, autojump_clock):
    async with open_server(Worldly, step_cost=0.01, record=str(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(20)
            await client.worlds.rewind(seconds=0.5)
            await client.take(8)
            await client.worlds.undo()
            await client.take(8)
            await client.worlds.rewind(steps=9)
            await client.take(5)
        await server.wait_left(client)
    path = timeline(tmp_path)
    rewinds = [command.arguments for command in read_recording(path).commands if command.name == "reactor.rewind"]
    assert [list(each) for each in rewinds] == [["step"], ["undo"], ["step"]]
    await assert_replays(path, Worldly)


async def test_a_model_that_cannot_be_restarted_refuses_a_recorded_restart(tmp_path, autojump_clock):
    class Never(Counting):
        transport = ()

    path = await record(Counting, tmp_path)
    write_lines(path, [*lines(path)[:-1], {"type": "command", "t": 9, "id": 1, "name": "reactor.restart", "step": 9,
                                           "arguments": {"state": "kept"}}])  # fmt: skip
    with pytest.raises(ScriptError, match=r"reactor\.restart: this model cannot be restarted"):
        async with replay(path, Never):
            pass


async def test_commands_are_fed_at_the_steps_that_saw_them_and_only_those_that_were_carried_out(tmp_path, autojump_clock):
    path = await record(Counting, tmp_path)
    commands = [line for line in lines(path) if line["type"] == "command"]
    assert [bool(line.get("superseded")) for line in commands[:4]] == [True, False, True, False]
    assert "code" in commands[4]
    bundles = await replayed_frames(path, Counting)
    set_at, third, fourth = commands[1]["step"], commands[3]["step"], commands[5]["step"]
    pictures = [b.tracks["main_video"][0, 0] for b in bundles]
    assert [int(p[0]) for p in pictures] == [200 * (n >= set_at) for n in range(len(bundles))]
    assert [int(p[2]) for p in pictures] == [3 * (n >= third) + 4 * (n >= fourth) for n in range(len(bundles))]
    assert bundles[set_at].command in (1, 2)


@pytest.mark.parametrize("at", [0, 0.1])
@pytest.mark.parametrize("model", [Counting, AsyncCounting, Looping, Blocking])
async def test_each_kind_of_model_replays(model, at, tmp_path, autojump_clock):
    path = await record(model, tmp_path, at=at)
    step = max(line["step"] for line in lines(path) if line.get("name") == "set_red")
    reds = [red for _, red, _ in seen(await assert_replays(path, model))]
    assert reds[step:] == [200] * len(reds[step:])
    assert reds[: step - 1] == [0] * (step - 1)


async def test_the_first_frame_that_differs_is_named(tmp_path, autojump_clock):
    path = await record(Counting, tmp_path)

    class Other(Counting):
        def inference(self):
            for number, frame in enumerate(super().inference()):
                if number in (4, 5):
                    frame[0, 0, 0] ^= 1
                yield frame

    with pytest.raises(AssertionError, match=r"2 of \d+ frames differ, first step 4, track main_video, frame 4: its con"):
        await assert_replays(path, Other)
    with pytest.raises(AssertionError, match=r"this is tests.support.offline_models:|this is test_replay:"):
        await assert_replays(path, Other)
    assert len(await assert_replays(path, Other, frames=4)) == 4


async def test_a_model_without_a_seed_differs_from_the_first_frame_on(tmp_path, autojump_clock):
    path = await record(Noisy, tmp_path, config={"seeded": False})
    with pytest.raises(AssertionError, match="first step 0, track main_video, frame 0: its content differs"):
        await assert_replays(path, Noisy, config={"seeded": False})


async def test_another_config_is_said_and_no_value_of_it_is_recorded(tmp_path, autojump_clock):
    path = await record(Noisy, tmp_path, config={"key": "very secret"})
    assert "very secret" not in path.read_text()
    async with replay(path, Noisy, config={"key": "very secret"}, thread=False) as same:
        assert same.warnings == []
    async with replay(path, Noisy, config={"key": "other"}, thread=False) as other:
        assert other.warnings == ["the model's config is not the one that it was recorded with"]


async def test_frames_that_are_not_made_again_differ_and_those_without_a_digest_are_said(tmp_path, autojump_clock):
    path = await record(Counting, tmp_path)
    recorded = lines(path)
    frames = [line for line in recorded if line["type"] == "frames"]
    frames[1]["tracks"]["main_video"]["digest"] = None
    frames[2]["tracks"]["main_video"]["seq"] = 900
    frames[3]["tracks"]["main_video"]["shape"] = [1, 2, 3]
    write_lines(path, recorded)
    with pytest.raises(AssertionError) as failed:
        await assert_replays(path, Counting)
    assert "frame 3: it was 1x2x3 and is 32x32x3" in str(failed.value)
    assert "step 2, track main_video, frame 900: it was not made again" in str(failed.value)
    assert "of 1 more the recording has no digest" in str(failed.value)


async def test_an_old_recording_replays_and_says_that_it_cannot_be_compared(tmp_path, autojump_clock):
    path = await record(Counting, tmp_path)
    kept = [line for line in lines(path) if line["type"] != "frames"]
    del kept[0]["run"]
    write_lines(path, kept)
    known = read_recording(path)
    assert (known.verifiable, known.model) == (False, None)
    assert len(await replayed_frames(path, Counting)) == round(known.seconds * 10)
    with pytest.raises(AssertionError, match="has no digests of its frames, so they cannot be compared"):
        await assert_replays(path, Counting)
    assert not Verification(known).equal


async def test_a_recording_of_a_killed_server_ends_where_its_last_line_is_cut(tmp_path, autojump_clock):
    path = await record(Counting, tmp_path)
    whole = path.read_text().splitlines(keepends=True)
    path.write_text("".join(whole[:8]) + whole[8][:9])
    assert len(await assert_replays(path, Counting)) == sum('"frames"' in line for line in whole[:8])


async def test_uploaded_files_come_from_a_folder_and_must_be_the_same(tmp_path, autojump_clock):
    async with open_server(Taking, step_cost=0.25, record=str(tmp_path)) as server:
        async with server.connect() as client:
            await client.take(2)
            uploaded = await client.upload(b"\x09abc", name="nine.bin", mime_type="application/x-nine")
            await client.command("show", file=uploaded)
            await client.take(2)
        await server.wait_left(client)
    path = timeline(tmp_path)
    (upload,) = [line for line in lines(path) if line["type"] == "upload"]
    assert (upload["mime_type"], len(upload["digest"])) == ("application/x-nine", 32)
    with pytest.raises(ScriptError, match=r"'nine.bin' \(4 bytes\) is not in the recording: give a folder that has it"):
        await assert_replays(path, Taking)
    (tmp_path / "nine.bin").write_bytes(b"\x09abd")
    with pytest.raises(ScriptError, match="its content differs"):
        await assert_replays(path, Taking, uploads=tmp_path)
    (tmp_path / "nine.bin").write_bytes(b"\x09abc")
    assert [red for _, red, _ in seen(await assert_replays(path, Taking, uploads=tmp_path))][-1] == 9


def test_a_file_that_is_not_a_recording_is_an_error_that_says_so(tmp_path):
    path = tmp_path / "a.jsonl"
    with pytest.raises(ScriptError, match=r"a\.jsonl: cannot be read: No such file"):
        read_recording(path)
    path.write_text('{"step": 1, "name": "x"}\n')
    with pytest.raises(ScriptError, match=r"a\.jsonl:1: this is no timeline of a session"):
        read_recording(path)
    path.write_text('{"type": "session", "protocol": "x"}\n{"type": "frames", "step": "one"}\n')
    with pytest.raises(ScriptError, match=r"a.jsonl:2: Expected `int`"):
        read_recording(path)
    with pytest.raises(ScriptError, match=r"name the \.jsonl file beside the film"):
        read_recording(tmp_path / "a.mp4")
