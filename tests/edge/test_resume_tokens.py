"""What a resume token lets its bearer do, and what it does not."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import trio

from reactor_trio import issue_ticket
from reactor_trio.errors import ConnectionRefused, SessionEnded
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_connection import MemoryLink, MemoryMessages, Stall
from reactor_trio.testing.memory_exchange import admit
from reactor_trio.transport import Request

TOKEN, KEY = "control-" + "t" * 16, "k" * 32


class Picture(Output):
    main_video: Video


class Model(ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


def served(**runtime):
    auth = {"token": TOKEN, "ticket_keys": [KEY]}
    return open_server(Model, **{"step_cost": 0.1, "auth": auth, "resume_window": 30, **runtime})


async def refusal(server, **wishes):
    with pytest.raises(ConnectionRefused) as refused:
        async with server.connect(**wishes):
            pass
    return refused.value.status


async def test_it_stands_for_a_ticket_that_is_used_and_its_session_keeps_what_that_said(autojump_clock, caplog):
    caplog.set_level(logging.DEBUG)
    async with served() as server:
        shown = issue_ticket(KEY, subject="ann", max_session=20)
        async with server.connect(token=shown) as client:
            await client.vanish()
        await trio.sleep(10)
        assert await refusal(server, token=shown) == 401, "a ticket is for one connection"
        async with server.connect(resume=client.resume_token) as again:
            assert again.session_id == client.session_id
            assert (again.share_token, again.resume_token) == (client.share_token, client.resume_token)
            with pytest.raises(SessionEnded, match="expired"):
                await again.take(1000)
            assert trio.current_time() == pytest.approx(20)
        assert client.resume_token not in caplog.text


async def test_it_lets_nobody_in_when_its_session_is_over(autojump_clock):
    async with served() as server:
        async with server.connect(token=TOKEN) as client:
            await client.take(1)
            await client.close()
        assert await refusal(server, resume=client.resume_token) == 401
        async with server.connect(resume=client.resume_token, token=TOKEN) as fresh:
            assert fresh.session_id != client.session_id


async def test_it_is_no_other_token(autojump_clock):
    async with served() as server, server.connect(token=TOKEN) as client:
        assert len(client.resume_token) >= 43
        assert await refusal(server, token=client.resume_token) == 401
        assert await refusal(server, resume=client.resume_token, role="viewer") == 401
        assert await refusal(server, resume=client.share_token) == 401
        assert await refusal(server, resume=client.resume_token[:-1]) == 401
        assert await refusal(server, resume=client.resume_token, model="other") == 404
        async with server.connect(role="viewer", token=client.share_token) as viewer:
            assert viewer.resume_token is None
        await client.take(1)


async def test_whose_session_ends_during_the_handshake_is_sent_away(autojump_clock):
    """The token alone has let it in, so there is no fresh session for it."""
    async with served(resume_window=5) as server:
        async with server.connect(token=TOKEN) as client:
            await client.vanish()
        query = {"resume": client.resume_token, "video": "raw"}
        request = Request(
            method="GET", path="/ws", query=query, host="127.0.0.1", authority="127.0.0.1", headers=(), peer="late"
        )
        talk = await admit(server._site, request)
        await trio.sleep(5)
        link = MemoryLink(Stall(), 15)
        await talk(MemoryMessages(link, "late"))
        assert link.to_client == ['{"type":"reactor.bye","data":{"reason":"client_left"}}']
        assert len(server.sessions) == 1
