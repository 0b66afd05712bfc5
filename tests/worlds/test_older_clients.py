"""A client that does not say `worlds=1` hears what it has always heard (row 26 of worlds.md)."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import trio

from reactor_trio.configuration.settings import Settings as ServerSettings
from reactor_trio.testing import open_server
from tests.support.behaviour_models import raw_peer, raw_session
from tests.worlds.test_rewind import Counter
from tests.worlds.test_saving_worlds import with_store

#: of a welcome: other values in each session
DRAWN = ("session_id", "resume_token", "share_token", "upload_token")


def model(**own: Any) -> type[Counter]:
    return type("Model", (Counter,), {"__module__": __name__, **own})


async def heard_for(peer: Any, seconds: float) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    with trio.move_on_after(seconds):
        await hear_all(peer, messages)
    return messages


async def hear_all(peer: Any, messages: list[dict[str, Any]]) -> None:
    while True:
        messages.append(await peer.hear())


async def session_of(model: type[Counter], settings: ServerSettings) -> list[str]:
    """The texts that a controlling client and a viewer of such a kind hear in a session, as they were sent."""
    async with open_server(model, settings=settings) as server:
        async with raw_peer(server, "role=control") as peer, AsyncExitStack() as watching:
            heard = [await peer.hear()]
            viewer = await watching.enter_async_context(raw_peer(server, "role=viewer"))
            await peer.command("set_speed", 1, speed=3)
            await peer.command("jump", 2, to=50)
            await peer.command("jump", 3, to="nowhere")
            await peer.command("reactor.pause", 4)
            await peer.command("reactor.step", 5)
            await peer.command("reactor.resume", 6)
            await peer.command("reactor.restart", 7)
            heard += [*await heard_for(peer, 3), *await heard_for(viewer, 1)]
    for message in heard:
        if message["type"] == "reactor.welcome":
            message["data"] |= {name: "" for name in DRAWN if message["data"].get(name)}
    return [json.dumps(message) for message in heard]


async def test_a_session_is_word_for_word_that_of_a_model_that_saves_nothing(autojump_clock, folder, way):
    heard = await session_of(model(), with_store(folder, way))
    assert heard == await session_of(model(saves=None), ServerSettings(isolation=way))
    assert len(heard) > 9
    assert "worlds" not in "".join(heard)


async def test_of_what_another_client_does_with_worlds_it_hears_the_settings_alone(autojump_clock, folder, way):
    heard: list[dict[str, Any]] = []
    async with open_server(Counter, settings=with_store(folder, way)) as server:
        async with raw_session(server, "worlds=1") as peer, AsyncExitStack() as watching:
            old = await watching.enter_async_context(raw_session(server, "role=viewer"))
            nursery = await watching.enter_async_context(trio.open_nursery())
            nursery.start_soon(hear_all, old, heard)
            await trio.sleep(1)
            await peer.command("reactor.save", 1)
            world = (await peer.answer())["data"]["reply"]["world"]["id"]
            await peer.command("set_speed", 2, speed=4)
            asked: list[tuple[str, dict[str, Any]]] = [
                ("reactor.rewind", {"step": 3}), ("reactor.rewind", {"undo": True}), ("reactor.restore", {"world": world}),
                ("reactor.fork", {}), ("reactor.worlds", {}), ("reactor.forget", {"world": world}),
            ]  # fmt: skip
            assert (await peer.answer())["type"] == "reactor.ack"
            for number, (name, data) in enumerate(asked, 3):
                await trio.sleep(1)
                await peer.command(name, number, **data)
                assert (await peer.answer())["type"] == "reactor.ack"
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
    assert {message["type"] for message in heard} == {"reactor.state"}
    assert [message["data"] for message in heard] == [{"speed": speed} for speed in (4, 1, 4, 1)]
