"""Share links: a token that can watch one session, and who may watch at all."""

from __future__ import annotations

import numpy as np
import pytest

from reactor_trio import RuntimeHost
from reactor_trio.client import connect
from reactor_trio.errors import ConnectionRefused
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.testing import open_server


class Picture(Output):
    main_video: Video


class Model(ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


async def refused(server, **wishes):
    with pytest.raises(ConnectionRefused) as caught:
        async with server.connect(**wishes):
            pass
    return caught.value.status


@pytest.mark.parametrize("viewers", ["anyone", "token"])
async def test_a_share_link_watches_its_session(autojump_clock, viewers):
    async with open_server(Model, step_cost=0.1, viewers=viewers) as server, server.connect() as player:
        token = player.share_token
        async with server.connect(role="viewer", token=token) as viewer:
            assert viewer.session_id == player.session_id
            assert viewer.share_token is None
            assert await viewer.take(2)


class Shared(Model):
    max_sessions = 2


async def test_a_share_link_whose_token_is_in_the_header_watches_its_session_among_others():
    """The clients of the package send their token there. The oldest session was shown, whichever had shared the link."""
    with RuntimeHost(Shared) as host:
        async with connect(host.url) as oldest, connect(host.url) as sharing:
            assert oldest.session_id != sharing.session_id
            async with connect(host.url, role="viewer", token=sharing.share_token) as viewer:
                assert viewer.session_id == sharing.session_id


async def test_a_share_link_can_only_watch(autojump_clock):
    async with open_server(Model, step_cost=0.1) as server, server.connect() as player:
        assert await refused(server, role="control", token=player.share_token) == 403


async def test_a_share_link_is_void_when_its_session_is_over(autojump_clock):
    async with open_server(Model, step_cost=0.1) as server:
        async with server.connect() as player:
            token = player.share_token
            await player.close()
        assert await refused(server, role="viewer", token=token) == 401
        async with server.connect() as player:
            assert player.share_token != token
            assert await refused(server, role="viewer", token=token) == 401


@pytest.mark.parametrize("token", ["x", "é", "\0", "x" * 4000])
async def test_a_wrong_token_watches_nothing(autojump_clock, token):
    async with open_server(Model, step_cost=0.1) as server, server.connect():
        assert await refused(server, role="viewer", token=token) == 401


async def test_without_a_link_nobody_watches_where_one_is_needed(autojump_clock):
    async with open_server(Model, step_cost=0.1, viewers="token") as server, server.connect():
        assert await refused(server, role="viewer") == 401


async def test_a_server_may_take_no_viewers(autojump_clock):
    async with open_server(Model, step_cost=0.1, viewers="none") as server, server.connect() as player:
        assert await refused(server, role="viewer") == 403
        assert await refused(server, role="viewer", token=player.share_token) == 403
