"""A server whose encoder never returns, with real sockets and threads: its clients go on, and it ends when told."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import trio

from reactor_trio import Output, ReactorPipeline, Video, serve
from reactor_trio.client import connect
from reactor_trio.configuration.settings import Settings
from reactor_trio.connection import rendition_set as renditions
from reactor_trio.media import CodecSettings
from reactor_trio.media.jpeg import JpegEncoder


class Picture(Output):
    main_video: Video


class Grey(ReactorPipeline):
    output: Picture
    fps = 100

    def inference(self):
        while True:
            yield np.full((8, 8, 3), 128, np.uint8)


async def test_clients_go_on_and_the_server_goes_while_its_thread_still_hangs(monkeypatch, caplog):
    go_on, closed, opened = threading.Event(), threading.Event(), renditions.open_encoder

    class Hanging(JpegEncoder):
        def encode(self, frame):
            assert go_on.wait(120)
            return super().encode(frame)

        def close(self):
            assert go_on.is_set()
            closed.set()

    monkeypatch.setattr(
        renditions, "open_encoder",
        lambda spec, codec, settings: Hanging(settings) if codec == "jpeg" else opened(spec, codec, settings),
    )  # fmt: skip
    settings = Settings(codec=CodecSettings(timeout=0.05))
    try:
        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                serving = await nursery.start(partial(serve, Grey, port=0, settings=settings))
                url = f"ws://127.0.0.1:{serving.port}/ws"
                for _ in range(2):
                    async with connect(url, video=["jpeg", "raw"]) as client:
                        async for frame in client.frames():
                            assert np.unique(frame.data).tolist() == [128]
                            break
                        assert client.tracks[0].codec == "raw"
                nursery.cancel_scope.cancel()
        assert not go_on.is_set()
    finally:
        go_on.set()
    assert closed.wait(120)
    assert caplog.text.count("the jpeg encoder") == 2  # that it hung, in the first session, and that it has returned


async def test_an_encoder_is_closed_away_from_the_loop(monkeypatch):
    closed_by = []

    class Closing(JpegEncoder):
        def close(self):
            closed_by.append(threading.current_thread())

    monkeypatch.setattr(renditions, "open_encoder", lambda spec, codec, settings: Closing(settings))
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            serving = await nursery.start(partial(serve, Grey, port=0))
            async with connect(f"ws://127.0.0.1:{serving.port}/ws", video=["jpeg"]) as client:
                async for _ in client.frames():
                    break
                nursery.cancel_scope.cancel()
    assert len(closed_by) == 1  # although the server went with its client
    assert closed_by[0] is not threading.current_thread()
