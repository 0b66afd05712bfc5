"""What a recording says of worlds: which moments and files a replay needs, and no id (rule 11 of worlds.md)."""

from __future__ import annotations

import json

import pytest
import trio
from tests.worlds.test_forks import Batched
from tests.worlds.test_rewind import Counter

from reactor_trio.cli import main
from reactor_trio.client import record
from reactor_trio.configuration.settings import Settings as ServerSettings
from reactor_trio.configuration.settings import WorldSettings
from reactor_trio.errors import CommandError
from reactor_trio.testing import open_server


def recorded(films, store) -> ServerSettings:
    return ServerSettings(worlds=WorldSettings(store=str(store)), record=str(films))


def timelines(folder):
    """The timelines of the folder in the order in which the sessions began, each as its lines."""
    read = [[json.loads(line) for line in path.read_text().splitlines()] for path in folder.glob("*.jsonl")]
    return sorted(read, key=lambda lines: lines[0]["began"])


def of_worlds(lines):
    """Name and arguments of each command about worlds, and each `saved` line."""
    return [
        (line["name"], line["arguments"]) if line["type"] == "command" else ("saved", line["digest"])
        for line in lines
        if line.get("name", "").startswith("reactor.") or line["type"] == "saved"
    ]


def digest_of(path, capsys) -> str:
    assert main(["world", str(path), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["digest"]


async def test_a_timeline_says_which_worlds_were_saved_and_restored_and_no_id(autojump_clock, tmp_path, capsys):
    store, films = tmp_path / "store", tmp_path / "films"
    ids = []
    async with open_server(Counter, settings=recorded(films, store)) as server:
        async with server.connect() as client:
            await client.take(5)
            first = await client.worlds.save("Anna's maze")
            await client.take(5)
            kept = await client.worlds.save(step=2)
            await client.worlds.restore(first.id)
            fork = await client.worlds.fork(world=kept.id)
            await client.worlds.forget(kept.id)
            ids += [first.id, kept.id, fork.token]
        await server.wait_left(client)
    (lines,) = timelines(films)
    digests = {digest_of(path, capsys) for path in store.glob("*.world")}
    named = of_worlds(lines)
    one, two, three = [digest for name, digest in named if name == "saved"]
    assert named == [
        ("reactor.save", {"step": None, "age": first.age}), ("saved", one),
        ("reactor.save", {"step": 2, "age": kept.age}), ("saved", two),
        ("reactor.restore", {"step": first.step, "age": first.age, "digest": one}),
        ("reactor.fork", {"step": 2, "age": kept.age, "digest": two}), ("saved", three),
        ("reactor.forget", {}),
    ]  # fmt: skip
    assert digests == {one, three}  # that of `kept` was forgotten
    text = json.dumps(lines)
    assert not [id for id in (*ids, "Anna") if id in text]  # noqa: A001
    assert "begun_from" not in lines[0]


async def test_the_first_line_names_the_world_at_which_the_session_began(autojump_clock, tmp_path, capsys):
    store, films = tmp_path / "store", tmp_path / "films"
    async with open_server(Batched, settings=recorded(films, store)) as server, server.connect() as first:
        await first.take(5)
        fork = await first.worlds.fork()
        await trio.sleep(1)
        async with server.connect(fork=fork.token) as second:
            await second.take(2)
    parent, child = timelines(films)
    (path,) = store.glob("*.world")
    ((_, arguments), (_, digest)) = of_worlds(parent)
    assert child[0]["begun_from"] == {"step": 5, "age": arguments["age"], "digest": digest}
    assert digest == digest_of(path, capsys)
    assert of_worlds(child) == []
    assert fork.token not in json.dumps([parent, child])


async def test_a_world_that_cannot_be_stored_has_no_digest(autojump_clock, tmp_path):
    store, films = tmp_path / "store", tmp_path / "films"
    async with open_server(Counter, settings=recorded(films, store)) as server:
        async with server.connect() as client:
            await client.take(2)
            (store / "key").unlink()
            store.rmdir()
            with pytest.raises(CommandError, match="folder of the store is gone"):
                await client.worlds.save()
        await server.wait_left(client)
    (lines,) = timelines(films)
    (saved,) = [line for line in lines if line["type"] == "saved"]
    assert {name: saved[name] for name in saved if name != "t"} == {"type": "saved", "digest": None, "code": "store_failed"}


async def test_the_timeline_of_a_client_has_no_id_either(autojump_clock, tmp_path):
    async with open_server(Counter, settings=recorded(tmp_path / "films", tmp_path / "store")) as server:
        async with server.connect() as client, record(client, tmp_path / "out.mp4"):
            await client.take(2)
            world = await client.worlds.save("here")
            await client.worlds.restore(world.id)
            await client.worlds.forget(world.id)
    lines = (tmp_path / "out.jsonl").read_text()
    assert [name for name, _ in of_worlds(map(json.loads, lines.splitlines()))] == [
        "reactor.save", "reactor.restore", "reactor.forget",
    ]  # fmt: skip
    assert world.id not in lines
