"""The cells of `test_matrix`: how each kind of model serves sessions, and how each session ends.

A cell is one server in virtual time. Some sessions warm it up, then the collector is turned off. After the sessions of the
cell the process must hold what it held before (`held`).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from reactor_trio.interface import UploadedFile, VideoModel
from reactor_trio.session import Session
from reactor_trio.session.upload_store import UploadStore
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_server import TestServer
from tests.leftovers.held import BIG, Held, in_use, standing_still, why
from tests.leftovers.kinds import BREAKS, KINDS, RETURNS, SHAPE
from tests.leftovers.visitor import Visitor

#: seconds in which a lost client may come back, where that is part of the cell
WINDOW = 5
#: seconds in which a client must take a byte, and send one
STALL, SILENCE = 3.0, 4.0


# ---- how a session ends -----------------------------------------------------------------------------------------------


@dataclass
class Visits:
    """The clients of one cell."""

    server: TestServer
    #: the client whose session runs, where the next one takes it over
    present: Visitor | None = None

    async def enter(self) -> Visitor:
        """A client that has seen pictures, set a value, sent camera frames and, where the state has one, a file."""
        visitor = await Visitor(self.server).open("/ws?video=jpeg")
        await visitor.pictures(2)
        if visitor.welcome.get("upload_token") is not None:
            file = await visitor.upload(b"\x89PNG" + bytes(20_000))
            await visitor.say("set_file", file={"upload_id": file})
        await visitor.say("set_level", level=3)
        for track in visitor.welcome["tracks"]:
            for _ in range(3 if track["direction"] == "in" else 0):
                await visitor.push(*SHAPE[:2], track=track["index"])
        await visitor.pictures(2)
        return visitor

    async def over(self) -> None:
        """Return when no client is connected and no session runs, and make the kit forget those that were."""
        if self.present is not None:
            await self.present.leave()
            self.present = None
        await self.server.runtime.session_manager.all_left(math.inf)
        await trio.sleep(1)  # a `run()` that computes sees the end when its step is over
        self.server.forget_past()


async def leaves(visits: Visits) -> None:
    await (await visits.enter()).leave()


async def resets(visits: Visits) -> None:
    await (await visits.enter()).vanish()


async def too_slow(visits: Visits) -> None:
    visitor = await visits.enter()
    await trio.sleep(STALL + 2)
    await visitor.until_over()


async def silent(visits: Visits) -> None:
    await (await visits.enter()).until_over()


async def takes_over(visits: Visits) -> None:
    before = visits.present
    async with trio.open_nursery() as nursery:
        if before is not None:
            nursery.start_soon(before.until_over)
        visits.present = await visits.enter()
    assert before is None or before.bye == "taken_over"


async def model_returns(visits: Visits) -> None:
    visitor = await visits.enter()
    await visitor.say("set_level", level=RETURNS)
    if isinstance(visits.server.model, VideoModel):
        assert await visitor.until_over() == "done"
    else:
        await visitor.pictures(4)
        await visitor.leave()


async def model_raises(visits: Visits) -> None:
    visitor = await visits.enter()
    await visitor.say("set_level", level=BREAKS)
    await trio.sleep(0.3)
    for _ in range(2):  # it has not read the goodbye yet, and speaks on
        await visitor.say("set_level", level=3)
        await visitor.push(*SHAPE[:2], track=next(t["index"] for t in visitor.welcome["tracks"] if t["direction"] == "in"))
        await trio.sleep(0.1)
    assert await visitor.until_over() == "model_error"


async def hook_raises(visits: Visits) -> None:
    visits.server.model.hook_raises = True
    visitor = await Visitor(visits.server).open("/ws?video=jpeg")
    assert await visitor.until_over() == "model_error"


async def drain(visits: Visits) -> None:
    visitor = await visits.enter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(visits.server.drain)
        assert await visitor.until_over() == "draining"


async def revoked(visits: Visits) -> None:
    visitor = await visits.enter()
    assert visits.server.runtime.revoke(visits.server.sessions[-1].id)
    assert await visitor.until_over() == "revoked"


async def window_passes(visits: Visits) -> None:
    await (await visits.enter()).vanish()
    await trio.sleep(WINDOW + 1)


Ending = Callable[[Visits], Awaitable[None]]
ENDINGS: dict[str, Ending] = {
    "client leaves": leaves, "client resets": resets, "too slow": too_slow, "silent": silent, "takes over": takes_over,
    "model returns": model_returns, "model raises": model_raises, "hook raises": hook_raises, "drain": drain,
    "revoked": revoked, "resume window passes": window_passes,
}  # fmt: skip

#: settings of the server, by ending
SETTINGS: dict[str, dict[str, Any]] = {
    "takes over": {"takeover": "anyone", "max_sessions": 1}, "resume window passes": {"resume_window": WINDOW},
}  # fmt: skip
LIMITS: dict[str, dict[str, float]] = {"too slow": {"stall": STALL, "silence": 60.0}, "silent": {"silence": SILENCE}}

#: cells that cannot be, each with the reason
IMPOSSIBLE: dict[tuple[str, str], str] = {
    ("app", "model returns"): "the steps of an app have no end",
    ("batch", "model returns"): "a batch has no end",
    ("run loop", "model returns"): "a `run()` that returns ends the model, not a session",
    ("run loop", "model raises"): "a `run()` that raises ends the model, not a session",
}
#: endings after which the server takes no other client: one session takes the place of many
LAST = ("drain",)


@dataclass
class Cell:
    """One server, and what its sessions do, again and again.

    Attributes:
        visit: one client from its coming to its going.
        sessions: how many the collector does not see.
        warm: how many before, by `first`.
    """

    model: type[Any]
    visit: Ending
    settings: dict[str, Any]
    sessions: int
    warm: int
    first: Ending

    async def run(self, patch: pytest.MonkeyPatch, folder: Path) -> Left:
        """Run the cell. What is left is explained at once, while it is there."""
        watch_big_values(patch)
        patch.setattr("tempfile.tempdir", str(folder))
        async with open_server(self.model, step_cost=0.01, **self.settings) as server:
            visits = Visits(server)
            for _ in range(self.warm):
                await self.first(visits)
            await visits.over()
            with standing_still():
                before, at_first = Held.now(folder), in_use()
                for _ in range(self.sessions):
                    await self.visit(visits)
                await visits.over()
                at_last, after = in_use(), Held.now(folder)
                lines = after.beyond(before)
                return Left(lines, why(before) if lines else "", at_last - at_first)


@dataclass
class Left:
    """What a cell has left: a line for each kind of thing, what holds it, and the bytes kept (`growth`)."""

    lines: list[str]
    why: str
    kept: int

    def __str__(self) -> str:
        return "\n".join([*self.lines, self.why])


def cell_of(kind: str, ending: str, sessions: int, warm: int) -> Cell:
    """The cell of a kind of model and an ending."""
    settings = SETTINGS.get(ending, {}) | {"limits": {"ping_interval": 2.0} | LIMITS.get(ending, {})}
    last = ending in LAST
    return Cell(KINDS[kind], ENDINGS[ending], settings, 1 if last else sessions, warm, leaves if last else ENDINGS[ending])


def watch_big_values(patch: pytest.MonkeyPatch) -> None:
    """From now on count frames, input frames and uploads of this process; states are the models' own affair."""
    patch.setattr("reactor_trio.media.frames._empty", BIG.empty)
    take_input, find = Session.take_input, UploadStore.find

    def taken(session: Session, track: str, given: Any) -> None:
        BIG.watch("input frame", given.data)
        take_input(session, track, given)

    def found(store: UploadStore, upload_id: str) -> UploadedFile:
        file = find(store, upload_id)
        BIG.watch("upload", file)
        return file

    patch.setattr(Session, "take_input", taken)
    patch.setattr(UploadStore, "find", found)
