"""Commands about worlds among others are answered once each, whatever the disk does (rows 13, 23 of worlds.md)."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest
import trio

from reactor_trio.configuration.settings import Settings as ServerSettings
from reactor_trio.testing import memory_server, open_server
from tests.support.behaviour_models import raw_peer, raw_session, shown
from tests.worlds.test_rewind import Counter, refusal
from tests.worlds.test_saving_worlds import with_store


async def heard_until(peer: Any, seconds: float) -> list[dict[str, Any]]:
    """All that it hears for so long."""
    messages = []
    with trio.move_on_after(seconds):
        while True:
            messages.append(await peer.hear())
    return messages


async def test_settings_and_rewinds_in_one_packet(autojump_clock, way):
    """The state that holds in the end is told to every client after the answers."""
    async with open_server(Counter, settings=ServerSettings(isolation=way)) as server:
        async with raw_session(server, "worlds=1") as peer, raw_peer(server, "role=viewer&worlds=1") as viewer:
            await trio.sleep(1)
            await heard_until(viewer, 0.01)
            asked = [("set_speed", {"speed": 5}), ("reactor.rewind", {"step": 4}), ("set_speed", {"speed": 3})]
            asked += [("reactor.rewind", {"step": 2}), ("reactor.rewind", {"step": 3})]
            for number, (name, data) in enumerate(asked, 1):
                await peer.command(name, number, **data)
            heard, watched = await heard_until(peer, 1), await heard_until(viewer, 0.01)
    answers = [each for each in heard if "id" in each]
    assert [(each["type"], each["id"]) for each in answers] == [("reactor.ack", number) for number in range(1, 6)]
    landings = [each["data"]["reply"]["moment"]["step"] for each in answers if each["data"]["reply"]]
    assert landings == [4, 3, 3]
    assert len({each["data"]["step"] for each in answers[3:]}) == 1
    assert heard.index(answers[-1]) < max(at for at, each in enumerate(heard) if each["type"] == "reactor.state")
    for messages in (heard, watched):
        moments = [each["data"]["to"]["step"] for each in messages if each["type"] == "reactor.moment"]
        assert moments == [4, 3]
        states = [each["data"] for each in messages if each["type"] == "reactor.state"]
        assert states[-1] == {"speed": 1}
        assert messages[-1]["type"] == "reactor.state"


async def test_a_slow_disk_delays_what_says_that_it_is_stored_and_nothing_else(autojump_clock, folder, monkeypatch, way):
    call_here = memory_server._call_here

    async def slow(function: Any, *arguments: Any, **how: Any) -> Any:
        if getattr(function, "__name__", "") == "_save":
            await trio.sleep(30)
        return await call_here(function, *arguments, **how)

    monkeypatch.setattr(memory_server, "_call_here", slow)
    async with open_server(Counter, settings=with_store(folder, way)) as server:
        async with raw_session(server, "worlds=1") as peer:
            await trio.sleep(1)
            began = trio.current_time()
            asked = ["jump", "reactor.save", "jump", "reactor.save", "jump"]
            for number, name in enumerate(asked, 1):
                await peer.command(name, number, **({"to": number} if name == "jump" else {}))
            answers = [await peer.answer() for _ in asked]
            assert trio.current_time() - began < 1
            assert sorted(each["id"] for each in answers) == [1, 2, 3, 4, 5]
            assert [each["id"] for each in answers if each["type"] == "reactor.ack"] == [1, 2, 3, 5]
            (busy,) = [each for each in answers if each["type"] == "reactor.error"]
            assert (busy["id"], busy["data"]["code"]) == (4, "busy")
            world = answers[[each["id"] for each in answers].index(2)]["data"]["reply"]["world"]
            while (message := await peer.hear())["type"] != "reactor.saved":
                pass
            assert message["data"] == {"world": world["id"]}
            assert trio.current_time() - began == pytest.approx(30, abs=0.2)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
async def test_a_disk_that_is_full_fails_the_save_and_nothing_else(autojump_clock, folder, monkeypatch, way, error):
    def fails(*_given: Any, **_how: Any) -> None:
        raise OSError(error, os.strerror(error))

    async with open_server(Counter, settings=with_store(folder, way)) as server, server.connect() as client:
        frames = await client.take(5)
        with monkeypatch.context() as patched:
            patched.setattr("os.utime", fails)  # the file is written by then, and has its temporary name
            for ask in (client.worlds.save, client.worlds.fork):
                with refusal("store_failed"):
                    await ask()
        assert [file.name for file in folder.iterdir()] == ["key"]
        assert (await client.worlds.list()).worlds == ()
        frames += await client.take(10)
        assert shown(frames) == list(range(1, 16))
        await client.worlds.save()
