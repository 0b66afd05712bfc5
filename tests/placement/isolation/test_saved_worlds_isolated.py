"""Saved worlds with `isolation: process` and real processes: they cross whole, and a death leaves nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.support.fault_peers import PATIENCE, RawClient, reactor_run
from tests.support.model_processes import children, until_served

MIB = 1024 * 1024
#: bytes of the world, more than are under way at a time
SIZE = 32 * MIB

MODEL = f'''
import hashlib
import os
import signal
import numpy as np
from reactor_trio import *
from reactor_trio.crossing.world_pieces import WorldLane

taken = WorldLane.taken

def in_the_middle(lane, report):
    """The server has taken a part of a world: get the signal that a file of this name asks for."""
    for name in ("SIGKILL", "SIGSTOP"):
        if os.path.exists(os.path.join(os.path.dirname(__file__), name)):
            os.kill(os.getpid(), getattr(signal, name))
    taken(lane, report)

WorldLane.taken = in_the_middle

class Picture(Output):
    main_video: Video

class State(InputState):
    level: int = 0
    _past: object = None
    _number: int = 0

class Model(ReactorPipeline):
    state: State
    output: Picture
    fps = 20
    saves = Saves()

    @session_started
    def fill(self):
        self.state._past = np.random.default_rng(1).integers(0, 256, {SIZE}, np.uint8)

    @event
    def digest(self) -> str:
        return hashlib.blake2b(self.state._past, digest_size=8).hexdigest()

    @event
    def change(self):
        self.state._past[::1000] += 1

    def inference(self):
        while True:
            self.state._number += 1
            yield Picture(main_video=np.full((48, 64, 3), self.state._number % 256, np.uint8))
'''


def reply(client: RawClient, name: str, number: int, /, **arguments: object) -> object:
    client.say(name, number, **arguments)
    answer = client.answer(number)
    assert answer["type"] == "reactor.ack", answer
    return answer["data"]["reply"]


def files(folder: Path) -> list[str]:
    return sorted(file.suffix or file.name for file in folder.iterdir())


def test_a_world_crosses_whole_and_is_restored_also_after_the_death_of_its_process(tmp_path):
    store = tmp_path / "store"
    with reactor_run(tmp_path, MODEL, isolation="process", worlds={"store": str(store), "ring": 2 * SIZE}) as server:
        with RawClient(server.port, "/ws?video=raw&worlds=1") as client:
            client.picture()
            digest = reply(client, "digest", 1)
            world = reply(client, "reactor.save", 2, name="here")["world"]
            assert client.text("reactor.saved")["data"] == {"world": world["id"]}
            assert (store_of := files(store)) == [".world", "key"]
            assert next(store.glob("*.world")).stat().st_size > SIZE
            reply(client, "change", 3)
            assert reply(client, "digest", 4) != digest
            assert reply(client, "reactor.restore", 5, world=world["id"])["warnings"] == []
            assert reply(client, "digest", 6) == digest
            (tmp_path / "SIGKILL").touch()
            reply(client, "reactor.save", 7)
            assert client.text("reactor.saved")["data"]["code"] == "store_failed"
            assert client.text("reactor.bye")["data"]["reason"] == "model_restarting"
        assert files(store) == store_of
        (tmp_path / "SIGKILL").unlink()
        until_served(server).vanish()
        with RawClient(server.port, f"/ws?video=raw&worlds=1&world={world['id']}") as client:
            client.picture()
            assert reply(client, "digest", 1) == digest
            assert [name for name in server.descriptors() if "store" in name] == []


def test_while_the_models_process_stands_still_a_save_waits_and_then_ends(tmp_path):
    store = tmp_path / "store"
    with reactor_run(
        tmp_path, MODEL, isolation="process", step_timeout=0, worlds={"store": str(store), "ring": 2 * SIZE}
    ) as server:
        with RawClient(server.port, "/ws?video=raw&worlds=1") as client:
            client.picture()
            [model] = children(server.process.pid)
            (tmp_path / "SIGSTOP").touch()
            reply(client, "reactor.save", 1)
            until = time.monotonic() + PATIENCE
            while Path(f"/proc/{model}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                assert time.monotonic() < until
                time.sleep(0.01)
            client.say("reactor.save", 2)  # the server itself refuses it
            assert client.answer(2)["data"]["code"] == "busy"
            assert files(store) == ["key"]
            (tmp_path / "SIGSTOP").unlink()
            os.kill(model, signal.SIGCONT)
            assert "code" not in client.text("reactor.saved")["data"]
        assert files(store) == [".world", "key"]
