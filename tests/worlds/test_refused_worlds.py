"""A world that is refused changes nothing: the next frame is the one that would have come (rows 20, 21, 22 of worlds.md)."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from reactor_trio.configuration.settings import Settings as ServerSettings
from reactor_trio.configuration.settings import WorldSettings
from reactor_trio.errors import ConnectionRefused
from reactor_trio.interface import Moment, Saves, restored, saving
from reactor_trio.testing import open_server
from tests.support.behaviour_models import raw_peer, raw_session, shown
from tests.worlds.test_rewind import Counter, Forgetful, refusal
from tests.worlds.test_saving_worlds import with_store


def newer(**own: Any) -> Any:
    """The same model after its author has changed it."""
    return type("Counter", (Counter,), {"__module__": Counter.__module__, **own})


async def saved(folder: Path, way: str) -> tuple[str, bytes]:
    """The id and the file of a world of `Counter`, whose number is 100."""
    async with open_server(Counter, config={"a": 1}, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            await client.playback.pause()
            await client.command("jump", to=100)
            world = await client.worlds.save()
    return world.id, file_of(folder).read_bytes()


def file_of(folder: Path) -> Path:
    (file,) = folder.glob("*.world")
    return file


def write(folder: Path, data: bytes) -> None:
    file = file_of(folder)
    expires = file.stat().st_mtime
    file.write_bytes(data)
    os.utime(file, (expires, expires))


async def refused(client: Any, id: str, code: str) -> None:  # noqa: A002
    """The world is refused, and the session goes on as if nobody had asked."""
    await client.playback.step()
    (before,) = shown([await client.take_after()])
    with refusal(code):
        await client.worlds.restore(id)
    await client.playback.step()
    assert shown([await client.take_after()]) == [before + 1]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


async def test_of_a_damaged_file_nothing_comes_into_the_session(autojump_clock, folder, way):
    id, whole = await saved(folder, way)  # noqa: A001
    length = int.from_bytes(whole[8:16], "little")
    damaged = [
        (b"", "damaged_world"), (whole[: len(whole) // 2], "damaged_world"), (flipped(whole, 0), "damaged_world"),
        (flipped(whole, 9), "damaged_world"), (flipped(whole, 16 + length // 2), "foreign_world"),
        (flipped(whole, len(whole) - 1), "foreign_world"), (whole + whole, "damaged_world"),
        (whole.replace(b"RWORLD1", b"RWORLD2", 1), "foreign_world"),
    ]  # fmt: skip
    async with open_server(Counter, config={"a": 1}, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            await client.playback.pause()
            for data, code in damaged:
                write(folder, data)
                await refused(client, id, code)
            write(folder, whole)
            await client.worlds.restore(id)
            await client.playback.step()
            assert shown([await client.take_after()]) == [101]
        for data, code in damaged:
            write(folder, data)
            with pytest.raises(ConnectionRefused, match=code):
                async with server.connect(world=id):
                    pass


async def test_of_a_world_that_is_not_of_this_model_nothing_comes_into_the_session(autojump_clock, folder, way):
    id, _ = await saved(folder, way)  # noqa: A001
    later = newer(saves=Saves(version=2))
    for model, config, code in ((later, {"a": 1}, "old_world"), (Counter, {"a": 2}, "foreign_world")):
        async with open_server(model, config=config, settings=with_store(folder, way)) as server:
            async with server.connect() as client:
                await client.playback.pause()
                await refused(client, id, code)
    accepting = with_store(folder, way, accept=("config",))
    async with open_server(Counter, config={"a": 2}, settings=accepting) as server:
        async with raw_session(server, "worlds=1") as peer:
            await peer.command("reactor.restore", 1, world=id)
            assert (await peer.answer())["data"]["reply"]["warnings"] == ["the world is of another config"]
    versions: list[int] = []

    @restored
    def note(self: Any, saved: dict, moment: Moment) -> None:
        versions.append(moment.version)

    model = newer(saves=Saves(version=2, reads=(1,)), note=note)
    async with open_server(model, config={"a": 1}, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            await client.playback.pause()
            await client.worlds.restore(id)
            await client.playback.step()
            assert shown([await client.take_after()]) == [101]
    assert versions == [1]


class Nothing(Counter):
    saves = Saves(may=())


#: each message about worlds, with data that is good
MESSAGES: dict[str, dict[str, Any]] = {
    "reactor.rewind": {"steps": 1}, "reactor.save": {}, "reactor.restore": {"world": "w"}, "reactor.fork": {},
    "reactor.worlds": {}, "reactor.forget": {"world": "w"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "allow", "role", "code", "welcome"),
    [
        (Forgetful, None, "control", "not_saveable", None), (Nothing, None, "control", "not_allowed", {"may": []}),
        (Counter, (), "control", "not_allowed", {"may": []}), (Counter, None, "viewer", "not_allowed", {"may": []}),
    ],
)  # fmt: skip
async def test_who_may_nothing_is_refused_each_message(autojump_clock, way, model, allow, role, code, welcome):
    worlds = WorldSettings() if allow is None else WorldSettings(allow=allow)
    async with open_server(model, settings=ServerSettings(isolation=way, worlds=worlds)) as server:
        async with AsyncExitStack() as watched:
            if role == "viewer":
                await watched.enter_async_context(server.connect())
            async with raw_peer(server, f"role={role}&worlds=1") as peer:
                said = (await peer.hear())["data"]["worlds"]
                assert said == welcome or {name: said[name] for name in welcome} == welcome
                codes = {}
                for number, (name, data) in enumerate(MESSAGES.items(), 1):
                    await peer.command(name, number, **data)
                    codes[name] = (await peer.answer())["data"].get("code")
    assert codes == dict.fromkeys(MESSAGES, code)


class Asked(Counter):
    """Counts how often it is captured."""

    captures = 0

    @saving
    def pack(self) -> dict[str, int]:
        Asked.captures += 1
        return {}


async def test_where_nothing_is_allowed_no_moment_is_kept(autojump_clock, way):
    Asked.captures = 0
    settings = ServerSettings(isolation=way, worlds=WorldSettings(allow=()))
    async with open_server(Asked, settings=settings) as server, server.connect() as client:
        await client.take(10)
    assert Asked.captures == 0
