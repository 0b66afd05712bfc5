"""`GET /moments/STEP.jpg` and `client.worlds.picture`: the pictures of moments, for the client that may go back to them."""

from __future__ import annotations

import anyio
import numpy as np
import pytest
import simplejpeg

from reactor_trio import Output, ReactorPipeline, Saves, Video
from reactor_trio.client import connect
from reactor_trio.errors import CommandError, ConnectionRefused
from reactor_trio.server.runtime_host import RuntimeHost
from reactor_trio.testing import open_server
from tests.edge.test_address_limits import refusals
from tests.edge.test_cross_origin import PAGE, READS, ask, preflight, shared
from tests.support.asking import PROXY, behind_a_proxy, plain
from tests.support.asking import ask as ask_site
from tests.support.behaviour_models import in_all_placements
from tests.worlds.test_rewind import Forgetful, Locked


class Wide(Output):
    main_video: Video


class Brightening(ReactorPipeline):
    """640x360, four times a second, so that each frame is kept as a picture; brighter by 10 a step."""

    fps = 4
    saves = Saves("shade")
    shade = 0

    def inference(self):
        while True:
            self.shade += 10
            yield Wide(main_video=np.full((360, 640, 3), self.shade, np.uint8))


def seen(jpeg: bytes) -> tuple[int, int, int]:
    """Width, height and shade of a picture."""
    picture = simplejpeg.decode_jpeg(jpeg, colorspace="RGB")
    return picture.shape[1], picture.shape[0], round(picture.mean())


@in_all_placements
async def test_the_picture_of_a_moment_is_what_was_shown_of_it(autojump_clock, placement):
    async with open_server(Brightening, **placement) as server, server.connect() as client:
        await client.take(6)
        assert seen(await client.worlds.picture(0)) == (160, 90, 10)
        assert seen(await client.worlds.picture(3, width=320)) == (320, 180, 40)
        with pytest.raises(CommandError) as raised:
            await client.worlds.picture(-1)
        assert raised.value.code == "no_moment"


async def test_a_small_picture_is_not_made_larger(autojump_clock):
    class Small(Brightening):
        def inference(self):
            while True:
                yield Wide(main_video=np.zeros((30, 40, 3), np.uint8))

    async with open_server(Small) as server, server.connect() as client:
        await client.take(2)
        assert seen(await client.worlds.picture(0)) == (40, 30, 0)


async def test_before_the_first_picture_and_in_an_abandoned_future_there_is_none(autojump_clock):
    async with open_server(Brightening) as server, server.connect() as client:
        with pytest.raises(CommandError, match="no picture of step 0 is kept") as raised:
            await client.worlds.picture(0)
        assert raised.value.code == "no_moment"
        await client.take(10)
        await client.playback.pause()
        await client.worlds.rewind(step=2)
        await client.playback.step(2)
        newest = (await client.take_after()).step
        assert seen(await client.worlds.picture(newest)) == (160, 90, 40)
        assert seen(await client.worlds.picture(9)) == (160, 90, 100)


async def test_who_gets_pictures(autojump_clock):
    async with open_server(Locked) as server, server.connect() as client, server.connect(role="viewer") as viewer:
        await client.take(2)
        assert await client.worlds.picture(0)  # it may list them, too
        assert viewer.welcome.worlds.token is None
        with pytest.raises(CommandError) as raised:
            await viewer.worlds.picture(0)
        assert raised.value.code == "not_allowed"
    async with open_server(Forgetful) as server, server.connect() as client:
        with pytest.raises(CommandError) as raised:
            await client.worlds.picture(0)
        assert raised.value.code == "not_saveable"
        answer = server.http("/moments/0.jpg")
        assert (answer.status, answer.body) == (404, b"this model saves no worlds\n")


REQUESTS = [
    ("/moments/0.jpg?w=160", 200), ("/moments/0.jpg?w=320", 200), ("/moments/0.jpg", 200),
    ("/moments/0.jpg?w=161", 400), ("/moments/0.jpg?w=", 400), ("/moments/99999999999999999.jpg", 404),
    ("/moments/0.png", 404), ("/moments/", 404), ("/moments/0/1.jpg", 404), ("/moments/%30.jpg", 404),
]  # fmt: skip


async def test_each_request_is_answered_or_refused_over_http(autojump_clock):
    async with open_server(Brightening, websocket=True, origins=(PAGE,)) as server, server.connect() as client:
        await client.take(2)
        token = client.welcome.worlds.token
        show = f"authorization: Bearer {token}"
        for path, status in REQUESTS:
            assert (path, (await ask(server, "GET", path, show))[0]) == (path, status)
        status, headers = await ask(server, "GET", f"/moments/0.jpg?token={token}", f"origin: {PAGE}")
        assert (status, shared(headers)) == (200, READS)
        assert (headers["content-type"], headers["cache-control"]) == ("image/jpeg", "no-store")
        status, headers = await ask(server, "HEAD", f"/moments/0.jpg?token={token}")
        assert (status, int(headers["content-length"]) > 0) == (200, True)
        status, headers = await ask(server, "GET", "/moments/0.jpg?token=wrong", show)  # that of the query counts
        assert (status, headers["reactor-refusal"]) == (401, "token_wrong")
        for token_of_another in (client.welcome.share_token, client.welcome.resume_token):
            assert (await ask(server, "GET", f"/moments/0.jpg?token={token_of_another}"))[0] == 401
        status, headers = await ask(server, "GET", "/moments/0.jpg")
        assert (status, headers["reactor-refusal"]) == (401, "token_missing")
        status, headers = await ask(server, "POST", "/moments/0.jpg", show, "content-length: 0")
        assert (status, headers["allow"]) == (405, "GET, HEAD")
        asking = [line.replace("POST", "GET") for line in preflight(PAGE)]
        assert (await ask(server, "OPTIONS", "/moments/0.jpg", *asking))[0] == 200
        assert seen(await client.worlds.picture(0)) == (160, 90, 10)
        await client.close()
        assert (await ask(server, "GET", "/moments/0.jpg", show))[0] == 401


async def test_pictures_count_in_the_requests_of_an_address(autojump_clock, monkeypatch):
    with behind_a_proxy(monkeypatch):
        limits = {"http_per_minute": 3}
        async with open_server(Brightening, proxies=[PROXY], limits=limits) as server, server.connect() as client:
            await client.take(2)
            one = plain(f"/moments/0.jpg?token={client.welcome.worlds.token}")
            assert [answer.status for answer in await ask_site(server._site, *[one] * 4)] == [200, 200, 200, 429]
            assert refusals(server.runtime.metrics) == {"address_requests": 1}


async def test_a_refusal_that_is_not_about_the_moment_keeps_its_status(autojump_clock):
    async with open_server(Brightening) as server, server.connect() as client:
        await client.take(2)
        client.welcome.worlds.token = "wrong"
        with pytest.raises(ConnectionRefused, match=r"show the worlds\.token of reactor\.welcome") as raised:
            await client.worlds.picture(0)
        assert (raised.value.status, raised.value.code) == (401, "token_wrong")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_gets_a_picture_through_a_socket_on_both_loops(backend):
    async def main() -> None:
        async with connect(host.url) as client:
            async for _ in client.frames():
                kept = [moment for moment in (await client.worlds.list()).moments if moment.picture]
                if kept:
                    break
            assert seen(await client.worlds.picture(kept[0].step, width=320))[:2] == (320, 180)
            with pytest.raises(CommandError) as raised:
                await client.worlds.picture(-1)
            assert raised.value.code == "no_moment"

    with RuntimeHost(Brightening) as host:
        anyio.run(main, backend=backend)
