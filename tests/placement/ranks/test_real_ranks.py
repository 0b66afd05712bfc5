"""Two ranks that are processes, with `torch.distributed` between them: what they make together, and what is left of them."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from tests.support.fault_peers import PATIENCE, RawClient, reactor_run
from tests.support.model_processes import children, is_gone, nothing_more_is_open, until_served, without_frames
from tests.support.ranked_models import MODEL
from tests.support.ranked_worlds import MODEL as SAVES

from reactor_trio.client import connect

pytestmark = pytest.mark.needs("torch")


@pytest.fixture
def served(tmp_path):
    with reactor_run(tmp_path, MODEL, step_timeout=4) as server:
        yield server
        print(server.log)  # shown if the test fails


def processes(client):
    client.say("processes", 90)
    return client.answer(90)["data"]["reply"]


def is_told(client):
    """Wait until the client is told that its model is loaded again."""
    assert client.text("reactor.bye")["data"]["reason"] == "model_restarting"
    assert client.gone().code == 1011


def test_two_ranks_make_the_halves_of_each_picture(served):
    with RawClient(served.port) as client:
        client.text("reactor.welcome")
        known = processes(client)
        assert sorted(known["pids"]) == sorted(children(served.process.pid))
        assert (known["rank"], known["of"]) == ("0", "2")
        for level in (9, 50, 120):
            client.say("set_level", level, level=level)
            step = client.answer(level)["data"]["step"]
            while (packet := client.picture()).command != level:
                pass
            assert packet.step == step  # on both ranks, or the halves would differ
            shown = np.frombuffer(packet.payload, np.uint8).reshape(240, 320, 3)
            assert (shown[:120] == level).all()
            assert (shown[120:239] == level + 100).all()
            client.say("levels", 1000)
            assert client.answer(1000)["data"]["reply"] == [level, level]
        pictures = [client.picture() for _ in range(30)]
        seqs = [packet.seq for packet in pictures]
        assert seqs == sorted(set(seqs))  # with gaps where this machine is too slow for all of them
        for packet in pictures:
            assert np.frombuffer(packet.payload, np.uint8)[-1] == packet.step % 256


def halves(packet):
    shown = np.frombuffer(packet.payload, np.uint8).reshape(16, 16, 3)
    return int(shown[0, 0, 0]), int(shown[-1, 0, 0])


def test_both_ranks_go_back_to_the_same_step(tmp_path):
    with reactor_run(tmp_path, SAVES, step_timeout=4) as server, RawClient(server.port) as client:
        client.text("reactor.welcome")
        made = {}
        while len(made) < 40:
            packet = client.picture()
            made[packet.step] = halves(packet)
        assert len(set(made.values())) > 30
        place = sorted(made)[15]
        client.say("reactor.rewind", 1, step=place)
        answer = client.answer(1)["data"]
        landed = answer["reply"]["moment"]["step"]
        assert landed <= place
        again = {}
        while len(again) < 10:
            packet = client.picture()
            if packet.step >= answer["step"]:
                again[landed + 1 + packet.step - answer["step"]] = halves(packet)
        both = again.keys() & made.keys()
        assert len(both) >= 5  # a viewer may miss some
        assert {step: again[step] for step in both} == {step: made[step] for step in both}
        assert "Traceback" not in server.log


def test_both_ranks_go_on_from_a_world_that_an_earlier_server_has_saved(tmp_path):
    settings = {"step_timeout": 4, "worlds": {"store": "worlds"}}
    with reactor_run(tmp_path, SAVES, **settings) as server, RawClient(server.port, "/ws?video=raw&worlds=1") as client:
        client.text("reactor.welcome")
        client.picture()
        client.say("reactor.save", 1)
        world = client.answer(1)["data"]["reply"]["world"]
        assert world["bytes"] > 2 * 8 * 300_000  # of both ranks
        assert client.text("reactor.saved")["data"] == {"world": world["id"]}
        made = {}
        while len(made) < 40:
            packet = client.picture()
            made[packet.step] = halves(packet)
        assert "Traceback" not in server.log
    with reactor_run(tmp_path, SAVES, **settings) as server:
        with RawClient(server.port, f"/ws?video=raw&worlds=1&world={world['id']}") as client:
            client.text("reactor.welcome")
            packets = [client.picture() for _ in range(12)]
        assert "Traceback" not in server.log
    found = {world["step"] + 1 + packet.step: halves(packet) for packet in packets}
    both = found.keys() & made.keys()
    assert len(both) >= 5  # a viewer may miss some
    assert {step: found[step] for step in both} == {step: made[step] for step in both}


@pytest.mark.parametrize("rank", [1, pytest.param(0, marks=pytest.mark.soak)])
def test_a_rank_that_dies_is_told_at_once_and_mended_and_nothing_is_left(served, rank):
    with RawClient(served.port) as client:  # the first connection, so that none is about to be closed
        first = processes(client)
        descriptors, threads = without_frames(served), served.threads()
        client.picture()
        os.kill(first["pids"][rank], signal.SIGKILL)
        is_told(client)
        for pid in first["pids"]:
            assert is_gone(pid)
    with until_served(served) as client:
        client.picture()
        second = processes(client)
        assert not set(second["pids"]) & set(first["pids"])
        for before, after in zip(first["holds"], second["holds"], strict=True):
            assert after == before
        assert nothing_more_is_open(served, descriptors)
        assert served.threads() <= threads + 2
        assert sorted(children(served.process.pid)) == sorted(second["pids"])
    # The death was the sign, not a step that took too long.
    assert served.log.count(f"the model is gone: its process of rank {rank} was ended by SIGKILL") == 1


@pytest.mark.soak
def test_a_rank_that_raises_alone_while_another_waits_for_it(served):
    with RawClient(served.port) as client:
        client.say("act", 1, what="raise")
        assert client.text("reactor.bye")["data"]["reason"] == "model_error"
    served.wait_log("ValueError: in a step")
    assert "is gone" not in served.log
    with until_served(served) as client:
        before = processes(client)["pids"]
        client.say("act", 2, what="raise", rank=1)  # rank 0 waits in all_reduce
        is_told(client)
        assert all(map(is_gone, before))
    served.wait_log("rank 1 raised alone.*raise ValueError")
    served.wait_log("out of step: in step [0-9]+ rank 1 raised ValueError: in a step, and rank 0 goes on")
    with until_served(served) as client:
        client.picture()


@pytest.mark.soak
@pytest.mark.parametrize("rank", [1, 0])
def test_a_rank_that_hangs_is_ended_with_the_others(tmp_path, rank):
    with reactor_run(tmp_path, MODEL, step_timeout=1.5) as served:
        with until_served(served) as client:
            pids = processes(client)["pids"]
            client.say("act", 1, what="hang", rank=rank)
            is_told(client)
            assert all(map(is_gone, pids))
        served.wait_log(r"its process of rank [01 and]+ computed for more than 1.5 s in one step \(runtime.step_timeout\)")
        with until_served(served) as client:
            client.picture()


@pytest.mark.soak
def test_a_client_that_leaves_in_the_middle_of_a_step_is_seen_by_all_ranks_at_the_same_place(served):
    for _ in range(5):
        with until_served(served) as client:
            client.say("act", 1, what="poll")
            client.answer(1)
            time.sleep(0.05)
            pids = processes_of(served)
            client.vanish()
    with until_served(served) as client:
        client.picture()
        assert processes_of(served) == pids
    assert "is gone" not in served.log


def processes_of(server):
    return sorted(children(server.process.pid))


@pytest.mark.soak
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_ranks_go_with_their_server(tmp_path, end):
    last = 'atexit.register(lambda: os.write(2, f"last {self.rank} {dist.is_initialized()}\\n".encode()))'
    model = MODEL.replace("import os", "import atexit, os", 1)
    model = model.replace('self.todo = ""', f'self.todo = ""\n        {last}', 1)
    with reactor_run(tmp_path, model) as server:
        with RawClient(server.port) as client:
            client.picture()
            pids = processes_of(server)
            assert len(pids) == 2
            os.kill(server.process.pid, end)
            if end == signal.SIGTERM:
                assert client.text("reactor.bye")["data"]["reason"] == "draining"
        assert server.process.wait(PATIENCE) == (-signal.SIGKILL if end == signal.SIGKILL else 0)
        assert all(map(is_gone, pids))
        ended = {line for line in server.log.splitlines() if line.startswith("last")}
        # Out of the group; who takes longer than GRACE_PERIOD, on a busy machine, is killed.
        assert ended <= ({"last 0 False", "last 1 False"} if end == signal.SIGTERM else set())
        assert "rank" not in server.log, server.log


@pytest.mark.soak
async def test_an_input_frame_is_read_by_both(served):
    async with connect(f"ws://127.0.0.1:{served.port}/ws", video=["raw"]) as client:
        await client.push_video("webcam", np.full((240, 320, 3), 60, np.uint8))
        async for frame in client.frames("main_video"):
            if abs(int(frame.data[0, 0, 0]) - 120) < 8:  # the sum of both
                break


@pytest.mark.soak
@pytest.mark.parametrize(
    ("load", "said"),
    [
        ("assert self.rank == 0, 'no second device'", "AssertionError: no second device"),
        ("self.rank and os._exit(3)", "its process of rank 1 ended with exit code 3 while the model was loaded"),
    ],
)
def test_a_rank_that_cannot_be_loaded_is_exit_1_with_one_line(tmp_path, load, said):
    model = MODEL.replace('self.todo = ""\n        seed', load + "\n        seed", 1)
    with reactor_run(tmp_path, model, ready=False) as server:
        assert server.process.wait(PATIENCE) == 1
        (line,) = [line for line in server.log.splitlines() if line.startswith("reactor: ")]
        assert said in line
