"""The exposition, read by Prometheus' own parser."""

from __future__ import annotations

import numpy as np
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.testing import TestServer, open_server


class Picture(Output):
    picture: Video


class Fast(ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        while True:
            yield np.zeros((4, 6, 3), np.uint8)


def read(server: TestServer) -> dict[tuple[str, ...], float]:
    answer = server.http("/metrics")
    assert (answer.status, answer.content_type.split(";")[0]) == (200, "text/plain")
    return {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


async def test_frames_and_drops_are_counted_by_place_and_reason(autojump_clock: object) -> None:
    async with open_server(Fast) as server:
        before = read(server)
        assert before["reactor_frames_dropped_total", "lane", "superseded"] == 0  # declared from the start
        assert before["reactor_model_ready",] == 1
        async with server.connect() as client:
            await client.take(3)
            client.stall()
            began = client.server.sessions[0]
            await trio.sleep(1)
            during = read(server)
            assert during["reactor_sessions_live",] == 1
            client.resume()
            await client.take(1)
        await trio.testing.wait_all_tasks_blocked()  # the server notices that the client has left
        after = read(server)
        handed = after["reactor_frames_handed_total",]
        sent = after["reactor_frames_sent_total",]
        lane = sum(v for k, v in after.items() if k[:2] == ("reactor_frames_dropped_total", "lane"))
        assert handed == sent + lane
        assert after["reactor_frames_dropped_total", "lane", "superseded"] >= 7
        assert after["reactor_sessions_ended_total", "client_left"] == 1
        assert began.reason == "client_left"
        assert all(name[0].startswith("reactor_") for name in after)
