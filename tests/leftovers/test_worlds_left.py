"""Nothing is left of sessions that rewind, save, fork and restore; each bound holds, also while the disk stands still."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.configuration.settings import WorldSettings
from reactor_trio.crossing.file_pieces import PIECES as TO_MODEL
from reactor_trio.crossing.file_pieces import CommandLane
from reactor_trio.crossing.world_pieces import PIECE, WorldLane
from reactor_trio.crossing.world_pieces import PIECES as TO_SERVER
from reactor_trio.interface import Saves, session_started
from reactor_trio.testing import memory_server
from reactor_trio.world_store.shelves import MemoryShelf
from reactor_trio.worlds import Ring
from tests.leftovers.kinds import KINDS
from tests.leftovers.matrix import Cell, Left, Visits
from tests.leftovers.visitor import Visitor

#: bytes of an array that each world has, of which the ring of a session has room for four
LARGE = 600_000
RING = 8 * LARGE


class Large:
    """Has a large array, of which each session begins with its own."""

    saves = Saves("large")
    large = np.zeros(0, np.uint8)

    @session_started
    def fill(self) -> None:
        self.large = np.zeros(LARGE, np.uint8)


def with_worlds(kind: str) -> type[Any]:
    """A model of the kind that saves its worlds."""
    own: dict[str, Any] = {"__module__": __name__}
    if kind in ("run loop", "blocking"):
        own |= {"saves": Saves("level", "large"), "level": 0}
    return type(f"{KINDS[kind].__name__}Saving", (Large, KINDS[kind]), own)


MODELS = {kind: with_worlds(kind) for kind in KINDS}
every_cell = pytest.mark.parametrize(
    ("kind", "way"), [(kind, way) for kind in KINDS for way in ("thread", "process")],
    ids=[f"{kind}, {way}" for kind in KINDS for way in ("thread", "process")],
)  # fmt: skip


async def ask(visitor: Visitor, name: str, number: int, /, **data: Any) -> dict[str, Any]:
    """Send a command, and read until its answer."""
    await visitor.say(name, number, **data)
    while visitor.answered.get("id") != number:
        assert await visitor.message() is not None, visitor.bye
    return visitor.answered


async def saved(visitor: Visitor, name: str, number: int, /, **data: Any) -> str:
    """Save or fork; returns the id."""
    visitor.saved = {}
    assert (await ask(visitor, name, number, **data))["type"] == "reactor.ack", visitor.answered
    while not visitor.saved:
        assert await visitor.message() is not None, visitor.bye
    assert "code" not in visitor.saved, visitor.saved
    world: str = visitor.saved["world"]
    return world


#: what was there before the test: `caplog` keeps the frames of exceptions that earlier tests have logged
_of_others: list[object] = []


@pytest.fixture(autouse=True)
def know_others() -> Iterator[None]:
    gc.collect()
    _of_others[:] = [each for each in gc.get_objects() if isinstance(each, Ring | WorldLane | CommandLane)]
    yield
    _of_others.clear()


def look(ways: str) -> int:
    """Check the bounds of all that keeps worlds now; returns how many rings there are."""
    rings, others = 0, set(map(id, _of_others))
    for found in gc.get_objects():
        if id(found) in others:
            continue
        match found:
            case Ring():
                rings += 1
                assert found.bytes <= found.most_bytes <= RING
            case WorldLane():
                assert found._window.size <= TO_SERVER.size + PIECE
            case CommandLane():
                assert found._window.size <= TO_MODEL.size + PIECE
                assert len(found._worlds) <= 1
            case MemoryShelf():
                assert sum(each.size for each in found.kept().values()) <= RING, ways
    return rings


def beyond_slots(left: Left) -> list[str]:
    """What is left but free slots of the memory of frames, of which up to `MOST_KEPT` wait for the next frames."""
    return [line for line in left.lines if not line.endswith("shared_arrays._Slot")]


async def goes_to_and_fro(visits: Visits, stored: bool) -> None:
    """Rewind, take that back, save, restore, fork, and begin at the fork."""
    visitor = await Visitor(visits.server).open("/ws?video=jpeg&worlds=1")
    await visitor.pictures(8)
    for number, how in enumerate(({"steps": 3}, {"undo": True}, {"seconds": 0.1}), 1):
        assert (await ask(visitor, "reactor.rewind", number, **how))["type"] == "reactor.ack", visitor.answered
        await visitor.pictures(2)
    world = await saved(visitor, "reactor.save", 4, name="here")
    assert (await ask(visitor, "reactor.restore", 5, world=world))["type"] == "reactor.ack", visitor.answered
    assert look("after a restore")
    assert (await ask(visitor, "reactor.restore", 6, world="nothing"))["data"]["code"] == "no_such_world"
    fork = await saved(visitor, "reactor.fork", 7, seconds=60)
    await visitor.pictures(2)
    assert (await ask(visitor, "reactor.forget", 8, world=world))["type"] == "reactor.ack", visitor.answered
    await ask(visitor, "reactor.worlds", 9)
    await visitor.leave()
    if stored:
        visitor = await Visitor(visits.server).open(f"/ws?video=jpeg&worlds=1&fork={fork}")
        await visitor.pictures(2)
        await visitor.vanish()
    else:
        await visits.server.runtime.session_manager.all_left(1000.0)
        shelf = visits.server.runtime.session_manager.loaded.services.worlds.store._shelf
        assert shelf.kept() == {}


@every_cell
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "in memory"])
async def test_nothing_is_left_of_worlds(autojump_clock, monkeypatch, tmp_path, kind, way, stored):
    store, temporary = tmp_path / "store", tmp_path / "temporary"
    temporary.mkdir()
    worlds = WorldSettings(ring=RING, store=str(store) if stored else None)
    visit = partial(goes_to_and_fro, stored=stored)
    settings = {"isolation": way, "worlds": worlds, "max_sessions": 1}
    left = await Cell(MODELS[kind], visit, settings, 3, 3, visit).run(monkeypatch, temporary)
    assert not beyond_slots(left), left
    assert left.kept < LARGE


@every_cell
async def test_while_the_disk_stands_still_each_bound_holds_and_nothing_is_left(
    autojump_clock, monkeypatch, tmp_path, kind, way
):
    call_here = memory_server._call_here

    async def stands_still(function: Any, *arguments: Any, **how: Any) -> Any:
        if getattr(function, "__name__", "") in ("_save", "_load"):
            with trio.CancelScope(shield=not how["abandon_on_cancel"]):  # as a thread
                await trio.sleep_forever()
        return await call_here(function, *arguments, **how)

    async def visit(visits: Visits) -> None:
        visitor = await Visitor(visits.server).open("/ws?video=jpeg&worlds=1")
        await visitor.pictures(4)
        assert (await ask(visitor, "reactor.save", 1))["type"] == "reactor.ack", visitor.answered
        for number in range(2, 8):
            name = ("reactor.save", "reactor.fork")[number % 2]
            assert (await ask(visitor, name, number))["data"]["code"] == "busy"
            assert (await ask(visitor, "reactor.rewind", number + 10, steps=2))["type"] == "reactor.ack", visitor.answered
            await visitor.pictures(3)
            assert look("while the disk stands still") == 1
        for number in range(30, 36):
            await visitor.say("reactor.restore", number, world="w")  # one reads, the others wait behind it
        assert look("while restores wait") == 1
        await visitor.pictures(3)
        await visitor.leave()

    monkeypatch.setattr(memory_server, "_call_here", stands_still)
    store, temporary = tmp_path / "store", tmp_path / "temporary"
    temporary.mkdir()
    settings = {"isolation": way, "worlds": WorldSettings(ring=RING, store=str(store)), "max_sessions": 1}
    left = await Cell(MODELS[kind], visit, settings, 3, 3, visit).run(monkeypatch, temporary)
    assert not beyond_slots(left), left
    assert left.kept < LARGE
    assert [file.name for file in store.iterdir()] == ["key"]
