"""The real client and the real server, in memory and in virtual time: the link drops for 5 s, again and again."""

from __future__ import annotations

import pytest
import trio
from tests.support.adder import Adder

from reactor_trio.client.session_view import internals
from reactor_trio.errors import SessionEnded
from reactor_trio.testing import open_server


@pytest.mark.parametrize("websocket", [False, True])
async def test_a_link_that_drops_for_5_s_a_hundred_times(autojump_clock, websocket):
    """The session stays the same; no command is lost or doubled, and no message is lost."""
    replies, counts, seqs = [], [], []

    async with open_server(Adder, step_cost=0.05, resume_window=30, websocket=websocket) as server:
        async with server.connect(comes_back=True) as client, trio.open_nursery() as nursery:
            true_reopen, down = internals(client).connection._reopen, trio.Event()
            down.set()

            async def reopen(*what):
                if not down.is_set():
                    raise ConnectionError("no link")
                return await true_reopen(*what)

            internals(client).connection._reopen = reopen

            @nursery.start_soon
            async def listen():
                async for message in client.messages():
                    counts.append(message.data["count"])

            @nursery.start_soon
            async def watch():
                async for frame in client.frames():
                    seqs.append(frame.seq)

            first = client.session_id
            for drop in range(100):
                async with trio.open_nursery() as commands:
                    down = trio.Event()
                    for part in range(4):  # before the link drops, just then, while it is away, and just as it is back

                        async def add():
                            replies.append(await client.command("add"))

                        commands.start_soon(add)
                        if part == 0:
                            await trio.sleep(drop % 7 / 100)
                        elif part == 1:
                            await internals(client).connection.transport.aclose(1006)
                        elif part == 2:
                            await trio.sleep(5)
                            down.set()
            assert client.session_id == first
            await trio.sleep(2)
            statistics = client.statistics()
            assert (statistics.comebacks, statistics.messages_dropped) == (100, 0)
            assert 500 <= statistics.seconds_lost < 500 + 100 * 2
            assert len(server.sessions) == 1
            nursery.cancel_scope.cancel()
    assert sorted(replies) == counts == list(range(1, 401))
    assert seqs == sorted(set(seqs))


async def test_a_session_ends_when_its_resume_window_is_over(autojump_clock):
    async with open_server(Adder, step_cost=0.05, resume_window=3) as server, server.connect(comes_back=True) as client:
        true_reopen, begin = internals(client).connection._reopen, trio.current_time()

        async def reopen(*what):
            if trio.current_time() < begin + 3.5:
                raise ConnectionError("no link")
            return await true_reopen(*what)

        internals(client).connection._reopen = reopen
        await internals(client).connection.transport.aclose(1006)
        with pytest.raises(SessionEnded, match="the link did not come back within 3 s: no link") as caught:
            await client.command("add")
        assert caught.value.reason == "lost"
        assert trio.current_time() == begin + 3


async def test_the_client_does_not_continue_with_another_session(autojump_clock):
    """The server noticed the loss long before the client and has ended the session."""
    async with open_server(Adder, step_cost=0.05, resume_window=1) as server, server.connect(comes_back=True) as client:
        internals(client).receiver.protocol.welcome.resume_window = 9
        true_reopen, begin = internals(client).connection._reopen, trio.current_time()

        async def reopen(*what):
            await trio.sleep_until(begin + 1.5)
            return await true_reopen(*what)

        internals(client).connection._reopen = reopen
        await internals(client).connection.transport.aclose(1006)
        with pytest.raises(SessionEnded, match="the link broke, and when it was back the session was over"):
            await client.command("add")
        await server.settle()
        assert [session.reason for session in server.sessions] == ["client_left", "client_left"]
