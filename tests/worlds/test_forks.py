"""`reactor.fork`, and sessions that begin at a saved world, in virtual time (rows 18, 19, 20, 26 of worlds.md)."""

from __future__ import annotations

import os

import numpy as np
import pytest
import trio

from reactor_trio.client.world_control import WorldFork
from reactor_trio.configuration.settings import AuthSettings, WorldSettings
from reactor_trio.configuration.settings import Settings as ServerSettings
from reactor_trio.edge.tickets import issue_ticket
from reactor_trio.errors import ConnectionRefused
from reactor_trio.interface import Moment, Saves, restored
from reactor_trio.testing import open_server
from tests.support.behaviour_models import shown
from tests.worlds.test_rewind import Counter, Forgetful, refusal
from tests.worlds.test_saving_worlds import with_store


class Batched(Counter):
    max_sessions = 2


async def numbers(client, count: int) -> list[int]:
    return shown(await client.take(count))


async def play(client) -> list[int]:
    """The same commands in each session; returns what is shown after them."""
    await client.command("jump", to=100)
    await client.command("set_speed", speed=3)
    found: list[int] = []
    while len(found) < 5:
        found += [number for number in await numbers(client, 1) if number > 100]
    return found


@pytest.mark.parametrize("stored", [True, False])
async def test_a_fork_begins_where_the_other_session_was_and_neither_changes_the_other(autojump_clock, folder, stored, way):
    settings = with_store(folder, way) if stored else ServerSettings(isolation=way)
    async with open_server(Batched, settings=settings) as server, server.connect() as first:
        await first.take(20)
        await first.command("jump", to=50)
        fork = await first.worlds.fork()
        async with server.connect(fork=fork.token) as second:
            begun = await numbers(second, 5)
            assert begun == list(range(begun[0], begun[0] + 5))
            assert 51 <= begun[0] <= 53  # and no frame of its own beginning
            await second.command("set_speed", speed=7)
            assert (await numbers(first, 3))[-1] < 90
            assert bytes(server.runtime.sessions[0].values.welcome(0)["speed"]) == b"1"
            assert (await second.worlds.list()).moments[0].age > 0.5


async def test_fork_and_parent_show_the_same_frames_under_the_same_commands(autojump_clock, folder, way):
    async with open_server(Batched, settings=with_store(folder, way)) as server, server.connect() as first:
        await first.take(10)
        fork = await first.worlds.fork()
        async with server.connect(fork=fork.token) as second:
            await second.take(3)
            assert await play(first) == await play(second)


async def test_a_session_may_begin_at_a_kept_moment_and_at_a_saved_world(autojump_clock, folder, way):
    async with open_server(Batched, settings=with_store(folder, way)) as server, server.connect() as first:
        await first.take(30)
        fork = await first.worlds.fork(step=4)
        world = await first.worlds.save("place")
        of_saved = await first.worlds.fork(world=world.id)
        await first.worlds.forget(world.id)  # its forks stay
        async with server.connect(fork=fork.token) as second:
            assert (await numbers(second, 1))[0] == 6
        async with server.connect(fork=of_saved.token) as second:
            assert (await numbers(second, 1))[0] >= 30
        again = await first.worlds.save()
        async with server.connect(world=again.id) as second:
            assert (await numbers(second, 1))[0] >= 30


async def test_a_token_is_good_until_it_expires_and_for_its_model_alone(autojump_clock, folder, way):
    async with open_server(Counter, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            fork = await client.worlds.fork(seconds=3600)
        for _ in range(2):
            async with server.connect(fork=fork.token) as client:
                await client.take(1)
        for file in folder.glob("*.world"):
            os.utime(file, (1, 1))
    for model, token, code in (
        (Counter, fork.token, "no_such_world"), (Counter, "unknown", "no_such_world"), (Forgetful, "t", "not_saveable")
    ):  # fmt: skip
        async with open_server(model, settings=with_store(folder, way)) as server:
            with pytest.raises(ConnectionRefused, match=code) as refused:
                async with server.connect(fork=token):
                    pass
            assert (refused.value.status, refused.value.code) == (404, "no_world")
            assert not server.runtime.sessions


async def test_a_world_of_another_model_begins_no_session(autojump_clock, folder, way):
    class Other(Counter):
        pass

    async with open_server(Counter, settings=with_store(folder, way)) as server, server.connect() as client:
        fork = await client.worlds.fork()
    async with open_server(Other, settings=with_store(folder, way)) as server:
        with pytest.raises(ConnectionRefused, match="foreign_world"):
            async with server.connect(fork=fork.token):
                pass


async def test_a_server_with_auth_wants_its_credential_and_then_a_fork_is_its_bearers(autojump_clock, folder):
    key = "0" * 32
    settings = ServerSettings(auth=AuthSettings(ticket_keys=(key,)), worlds=WorldSettings(store=str(folder)))
    async with open_server(Batched, settings=settings) as server:
        async with server.connect(token=issue_ticket(key, subject="ada")) as client:
            fork, world = await client.worlds.fork(), await client.worlds.save()
        with pytest.raises(ConnectionRefused) as refused:
            async with server.connect(fork=fork.token):
                pass
        assert refused.value.status == 401
        async with server.connect(token=issue_ticket(key, subject="bob"), fork=fork.token) as client:
            await client.take(1)
        with pytest.raises(ConnectionRefused, match="no_such_world"):
            async with server.connect(token=issue_ticket(key, subject="bob"), world=world.id):
                pass


class Refuses(Counter):
    @restored
    def refuse(self, saved: dict, moment: Moment) -> None:
        if moment.why == "fork":
            raise ValueError("no")


async def test_a_model_that_refuses_its_world_ends_the_session(autojump_clock, folder, way):
    async with open_server(Refuses, settings=with_store(folder, way)) as server:
        async with server.connect() as client:
            fork = await client.worlds.fork()
        with pytest.RaisesGroup(pytest.RaisesExc(Exception, match="^no$"), allow_unwrapped=True, flatten_subgroups=True):
            async with server.connect(fork=fork.token) as client:
                await client.take(3)


async def test_forks_have_slots_of_their_own(autojump_clock, folder, way):
    async with open_server(Counter, settings=with_store(folder, way, slots=1)) as server, server.connect() as client:
        fork = await client.worlds.fork(seconds=1000)
        assert isinstance(fork, WorldFork)
        with refusal("too_many"):
            await client.worlds.fork()
        await client.worlds.save()
        with refusal("too_many"):
            await client.worlds.save()
        await client.worlds.forget(fork.token)
        await client.worlds.fork()
        with refusal("too_many"):
            await client.worlds.save()


class Large(Counter):
    saves = Saves("ground")

    def load(self, config):
        self.ground = np.zeros(100_000, np.uint8)


async def test_forks_have_a_quarter_of_the_bytes_of_a_session(autojump_clock, folder, way):
    async with open_server(Large, settings=with_store(folder, way)) as server, server.connect() as client:
        size = (await client.worlds.save()).bytes
    some = with_store(folder, way, store_bytes=10 * 12 * size)  # 12 worlds in the store's tenth, and 3 for forks
    async with open_server(Large, settings=some) as server, server.connect() as client:
        for _ in range(3):
            await client.worlds.fork()
        with refusal("too_many"):
            await client.worlds.fork()
        await client.worlds.save()


async def test_who_may_not_fork_is_refused(autojump_clock, folder, way):
    nothing = with_store(folder, way, allow=("rewind", "save"))
    async with open_server(Counter, settings=nothing) as server, server.connect() as client:
        with refusal("not_allowed"):
            await client.worlds.fork()


async def test_a_client_that_comes_back_does_not_begin_again(autojump_clock, folder, way):
    settings = ServerSettings(isolation=way, resume_window=60, worlds=WorldSettings(store=str(folder)))
    async with open_server(Counter, settings=settings) as server:
        async with server.connect() as client:
            await client.command("jump", to=50)
            fork = await client.worlds.fork()
        async with server.connect(fork=fork.token, comes_back=True) as client:
            await client.take(10)
            before = (await numbers(client, 1))[0]
            await client.vanish()
            await trio.sleep(1)
            assert (await numbers(client, 1))[0] > before
