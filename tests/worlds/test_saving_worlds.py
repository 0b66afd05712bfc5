"""`reactor.save`, `reactor.restore` and `reactor.forget`, in virtual time (rows 7, 8, 15, 20, 22, 23, 30 of worlds.md)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.configuration.settings import AuthSettings, WorldSettings
from reactor_trio.configuration.settings import Settings as ServerSettings
from reactor_trio.edge.tickets import issue_ticket
from reactor_trio.errors import CommandError
from reactor_trio.interface import InputField, InputState, Moment, Saves, restored
from reactor_trio.testing import memory_server, open_server
from tests.support.behaviour_models import raw_session, shown
from tests.worlds.test_rewind import Counter, Forgetful, Locked, landed, refusal


def with_store(folder, way: str = "thread", **settings) -> ServerSettings:
    return ServerSettings(isolation=way, worlds=WorldSettings(store=str(folder), **settings))


def loaded(server) -> Any:
    """The model, wherever it runs."""
    process = server.runtime.placement.process
    return server.model if process is None else process.loaded


def files(folder) -> list[str]:
    return sorted(file.suffix or file.name for file in folder.iterdir())


@pytest.mark.parametrize("stored", [True, False])
async def test_a_world_is_saved_and_the_session_goes_on_from_it_later(autojump_clock, folder, stored, way):
    settings = with_store(folder, way) if stored else ServerSettings(isolation=way)
    async with open_server(Counter, settings=settings) as server, server.connect() as client:
        await client.take(5)
        world = await client.worlds.save("the maze")
        saved = loaded(server).state._number
        await client.take(20)
        moment = await client.worlds.restore(world.id)
        assert (moment.step, moment.age, world.name) == (world.step, world.age, "the maze")
        assert not moment.picture
        assert (listed := await client.worlds.list()).worlds == (world,)
        assert not [each for each in listed.moments if each.step == world.step and each.picture]
        assert shown([await landed(client)])[0] in (world.step + 2, saved + 1)
        await client.worlds.forget(world.id)
        assert (await client.worlds.list()).worlds == ()
        with refusal("no_such_world"):
            await client.worlds.restore(world.id)


async def test_a_saved_world_outlives_its_session_and_its_server(autojump_clock, folder, way):
    async with open_server(Counter, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            await client.take(5)
            await client.command("jump", to=100)
            world = await client.worlds.save()
            assert client.worlds.lasting
    assert files(folder) == [".world", "key"]
    async with open_server(Counter, settings=with_store(folder, way)) as server, server.connect() as client:
        await client.take(3)
        await client.worlds.restore(world.id)
        assert shown([await landed(client)])[0] in (101, 102)
        await client.worlds.undo()
        assert shown([await landed(client)])[0] < 50


async def test_without_a_store_a_saved_world_ends_with_its_session(autojump_clock):
    async with open_server(Counter) as server:
        async with server.connect() as client:
            assert not client.worlds.lasting
            world = await client.worlds.save()
        async with server.connect() as client:
            with refusal("no_such_world"):
                await client.worlds.restore(world.id)


async def test_answers_keep_the_order_of_the_commands_and_no_step_waits_for_the_store(autojump_clock, folder, way):
    async with open_server(Counter, settings=with_store(folder, way)) as server, raw_session(server, "worlds=1") as peer:
        await trio.sleep(1)
        await peer.command("jump", 1, to=90)
        await peer.command("reactor.save", 2, name="a")
        await peer.command("jump", 3, to=10)
        answers = [await peer.answer() for _ in range(3)]
        assert [(answer["type"], answer["id"]) for answer in answers] == [("reactor.ack", n) for n in (1, 2, 3)]
        assert answers[1]["data"]["reply"]["world"]["name"] == "a"


async def test_a_session_has_exactly_its_slots(autojump_clock, folder, way):
    async with open_server(Counter, settings=with_store(folder, way, slots=2)) as server, server.connect() as client:
        first, _ = [await client.worlds.save() for _ in range(2)]
        with refusal("too_many"):
            await client.worlds.save()
        await client.worlds.forget(first.id)
        await client.worlds.save()
        assert files(folder) == [".world", ".world", "key"]


async def test_a_folder_that_is_gone_fails_the_save_and_not_the_session(autojump_clock, folder, way):
    async with open_server(Counter, settings=with_store(folder, way)) as server, server.connect() as client:
        (folder / "key").unlink()
        folder.rmdir()
        with refusal("store_failed"):
            await client.worlds.save()
        await client.take(3)
        with refusal("no_such_world"):
            await client.worlds.restore("nothing")
        folder.mkdir()
        await client.worlds.save()  # the failed one holds no slot and bars no other
        assert files(folder) == [".world"]


class Refuses(Counter):
    @restored
    def refuse(self, saved: dict, moment: Moment) -> None:
        if moment.why == "restore" and not moment.same_process:
            raise ValueError("no")


async def test_a_restore_that_the_model_refuses_leaves_the_world_as_it_was(autojump_clock, folder, way):
    async with open_server(Refuses, settings=with_store(folder, way)) as server, server.connect() as client:
        world = await client.worlds.save()
        await client.command("jump", to=90)
        number = loaded(server).state._number
        with refusal("restore_failed"):
            await client.worlds.restore(world.id)
        assert loaded(server).state._number >= number


class Renamed(Counter):
    pass


class Newer(Counter):
    saves = Saves(version=2)


async def test_a_world_of_another_model_or_a_damaged_one_is_refused_with_its_code(autojump_clock, folder, way):
    async with open_server(Counter, settings=with_store(folder, way)) as server, server.connect() as client:
        world = await client.worlds.save()
    for model, code in ((Renamed, "foreign_world"), (Newer, "old_world")):
        async with open_server(model, settings=with_store(folder, way)) as server, server.connect() as client:
            with refusal(code):
                await client.worlds.restore(world.id)
    (file,) = folder.glob("*.world")
    data = bytearray(file.read_bytes())
    data[0] ^= 1
    times = file.stat().st_mtime
    file.write_bytes(data)
    os.utime(file, (times, times))
    async with open_server(Counter, settings=with_store(folder, way)) as server, server.connect() as client:
        with refusal("damaged_world"):
            await client.worlds.restore(world.id)
        await client.take(3)


async def test_who_may_not_save_is_told_why(autojump_clock, folder):
    nothing = with_store(folder, allow=("rewind",))
    for model, settings, code in (
        (Forgetful, ServerSettings(), "not_saveable"), (Counter, nothing, "not_allowed"),
    ):  # fmt: skip
        async with open_server(model, settings=settings) as server, server.connect() as client:
            with refusal(code):
                await client.worlds.save()
    async with open_server(Counter, settings=nothing) as server, server.connect() as client:
        assert client.worlds.may == ("rewind",)
        await client.take(3)
        assert (await client.worlds.rewind(steps=1)).step >= 0
    async with open_server(Locked) as server, server.connect() as client:
        assert (await client.worlds.save()).bytes > 0
    async with open_server(Counter) as server, server.connect(), server.connect(role="viewer") as viewer:
        with pytest.raises(CommandError, match="only the controlling client"):
            await viewer.worlds.save()


async def test_ids_stand_in_no_log(autojump_clock, folder, caplog, way):
    caplog.set_level("DEBUG")
    async with open_server(Counter, settings=with_store(folder, way)) as server, server.connect() as client:
        world = await client.worlds.save("secret name")
        await client.worlds.restore(world.id)
    assert world.id not in caplog.text
    assert "secret name" not in caplog.text


async def test_what_has_expired_goes_within_an_hour(autojump_clock, folder, caplog):
    async with open_server(Counter, settings=with_store(folder)) as server:
        async with server.connect() as client:
            await client.take(2)
            await client.worlds.save()
        began = trio.current_time()
        (file,) = folder.glob("*.world")
        os.utime(file, (0, 0))  # so it has expired
        await trio.sleep_until(began + 3590)
        assert file.exists()
        await trio.sleep_until(began + 3610)
        assert not file.exists()
        (folder / "key").unlink()
        folder.rmdir()  # a folder that is gone ends nothing, and the next hour comes
        await trio.sleep_until(began + 7210)
        folder.mkdir()
        (old := folder / "0.world").touch()
        os.utime(old, (0, 0))
        await trio.sleep_until(began + 10810)
        assert not old.exists()
        assert [record.message for record in caplog.records if "saved worlds" in record.message] == [
            "saved worlds that have expired are not removed: the world cannot be removed: the folder of the store is gone"
        ]


async def test_a_servers_end_waits_for_no_disk_that_stands_still(autojump_clock, folder, monkeypatch):
    cleaning = trio.Event()

    async def hang(function: Any, *arguments: Any, **how: Any) -> Any:
        if getattr(function, "__name__", "") == "clean":
            cleaning.set()
            with trio.CancelScope(shield=not how["abandon_on_cancel"]):  # as a thread
                await trio.sleep(1000)
        return await called(function, *arguments, **how)

    called = memory_server._call_here
    monkeypatch.setattr(memory_server, "_call_here", hang)
    async with open_server(Counter, settings=with_store(folder)):
        await cleaning.wait()
        hour = trio.current_time()
    assert trio.current_time() == hour


async def test_neither_a_step_nor_a_sessions_end_waits_for_a_stopped_disk(autojump_clock, folder, monkeypatch, way):
    call_here = memory_server._call_here
    writing = trio.Event()

    async def hang(function: Any, *arguments: Any, **how: Any) -> Any:
        if getattr(function, "__name__", "") == "_save":
            writing.set()
            with trio.CancelScope(shield=not how["abandon_on_cancel"]):  # as a thread
                await trio.sleep(1000)
        return await call_here(function, *arguments, **how)

    monkeypatch.setattr(memory_server, "_call_here", hang)
    async with open_server(Counter, settings=with_store(folder, way)) as server:
        async with server.connect() as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.worlds.save)
            await writing.wait()
            await client.take(30)
            with refusal("busy"):
                await client.worlds.save()
            await client.worlds.rewind(steps=5)
            (kept,) = (await client.worlds.list()).worlds
            nursery.cancel_scope.cancel()
        began = trio.current_time()
        async with server.connect() as client:
            assert trio.current_time() == began
            with refusal("no_such_world"):
                await client.worlds.restore(kept.id)
    assert files(folder) == ["key"]


async def test_behind_a_disk_that_stands_still_commands_wait_two_minutes(autojump_clock, folder, monkeypatch, way):
    call_here = memory_server._call_here
    still = trio.Event()

    async def hang(function: Any, *arguments: Any, **how: Any) -> Any:
        if getattr(function, "__name__", "") in ("_save", "_load") and still.is_set():
            with trio.CancelScope(shield=not how["abandon_on_cancel"]):  # as a thread
                await trio.sleep(1000)
        return await call_here(function, *arguments, **how)

    monkeypatch.setattr(memory_server, "_call_here", hang)
    async with open_server(Counter, settings=with_store(folder, way)) as server, server.connect() as client:
        world = await client.worlds.save()
        still.set()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails, client.worlds.restore, world.id)
            await trio.sleep(1)
            await client.command("set_speed", speed=2)
            assert trio.current_time() == began + 120
            await client.take(1)
        began = trio.current_time()
        await fails(client.worlds.save)
        assert trio.current_time() == pytest.approx(began + 120, abs=0.2)  # the step that is captured
        still = trio.Event()
        assert (await client.worlds.list()).worlds == (world,)
        await client.worlds.restore(world.id)


async def fails(call: Any, *arguments: Any) -> None:
    with refusal("store_failed"):
        await call(*arguments)


class Prompted(InputState):
    prompt: str = InputField(default="", max_length=100, moderate=True)
    prompts: list[str] = InputField(default=[], moderate=True)
    note: str = InputField(default="")


class Told(Counter):
    state: Prompted

    def inference(self):
        while True:
            yield np.zeros((48, 64, 3), np.uint8)


async def test_a_restored_text_is_checked_by_the_hook_of_today(autojump_clock, folder, way):
    refused: set[str] = set()
    seen: list[str] = []

    def hook(text: str, *, command: str, field: str) -> str | None:
        seen.append(f"{command} {field} {text}")
        return "not here" if text in refused else None

    async with open_server(Told, settings=with_store(folder, way), moderate=hook) as server, server.connect() as client:
        await client.command("set_prompt", prompt="a cat")
        await client.command("set_note", note="not moderated")
        await client.command("set_prompts", prompts=["a dog"])
        world = await client.worlds.save()
        seen.clear()
        await client.worlds.restore(world.id)
        assert seen == ["reactor.restore prompt a cat", "reactor.restore prompts a dog"]
        await client.command("set_prompt", prompt="")
        refused.add("a dog")
        with refusal("moderated"):
            await client.worlds.restore(world.id)
        assert loaded(server).state.prompt == ""


class Weighed(Counter):
    identity = "a"

    def world_identity(self) -> str:
        return self.identity


async def test_a_world_of_other_weights_is_refused_or_a_warning(autojump_clock, folder, monkeypatch, way):
    async with open_server(Weighed, settings=with_store(folder, way)) as server, server.connect() as client:
        world = await client.worlds.save()
        await client.worlds.restore(world.id)
    monkeypatch.setattr(Weighed, "identity", "b")
    async with open_server(Weighed, settings=with_store(folder, way)) as server, server.connect() as client:
        with refusal("foreign_world"):
            await client.worlds.restore(world.id)
    settings = with_store(folder, way, accept=("weights",))
    async with open_server(Weighed, settings=settings) as server, raw_session(server, "worlds=1") as peer:
        await peer.command("reactor.restore", 1, world=world.id)
        (warning,) = (await peer.answer())["data"]["reply"]["warnings"]
        assert "weights" in warning


async def test_a_world_of_a_subject_is_for_no_other(autojump_clock, folder):
    key = "0" * 32
    settings = ServerSettings(auth=AuthSettings(ticket_keys=(key,)), worlds=WorldSettings(store=str(folder)))
    async with open_server(Counter, settings=settings) as server:
        async with server.connect(token=issue_ticket(key, subject="ada")) as client:
            world = await client.worlds.save()
        async with server.connect(token=issue_ticket(key, subject="bob")) as client:
            with refusal("no_such_world"):
                await client.worlds.restore(world.id)
            with refusal("no_such_world"):
                await client.worlds.forget(world.id)
        async with server.connect(token=issue_ticket(key, subject="ada")) as client:
            assert (await client.worlds.restore(world.id)).step == world.step
