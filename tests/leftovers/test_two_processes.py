"""Nothing is left of a session that is over, in the server's process and in the model's: real processes, collector off.

CI runs few sessions of a few cells, in which each kind of model and each ending comes twice; the soak tests run all cells.
`test_matrix` has the same kinds and more endings within one process, in virtual time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from reactor_trio.memory.shared_arrays import MOST_KEPT
from reactor_trio.protocol import Packet, encode_packet
from tests.leftovers.held import Held
from tests.leftovers.kinds import BREAKS, SHAPE
from tests.leftovers.process_models import KINDS, LARGE, ask
from tests.support.fault_peers import BINARY, PATIENCE, RawClient, ReactorProcess, frame, health, reactor_run
from tests.support.model_processes import children

ROOT = Path(__file__).parents[2]
#: and no fork of one: its memory is counted
NEW_INTERPRETER = ("env", "PYTHONMALLOC=malloc")
MODEL = """
import sys
sys.path.insert(0, {root!r})
from tests.leftovers.process_models import KINDS, answer_questions
answer_questions()
Model = KINDS[{kind!r}]
"""


@dataclass
class Visits:
    """The clients of one cell."""

    server: ReactorProcess
    folder: Path
    #: the client whose session runs, where the next one takes it over
    present: RawClient | None = None
    #: how many sessions have begun
    begun: int = field(default=0)

    def enter(self) -> RawClient:
        """A client that has seen pictures, set a value and sent camera frames."""
        client = connected(self.server)
        tracks = client.text("reactor.welcome")["data"]["tracks"]
        self.begun += 1
        client.picture()
        client.say("set_level", 1, level=3)
        client.answer(1)
        track = next(track["index"] for track in tracks if track["direction"] == "in")
        pixels = memoryview(np.zeros(SHAPE, np.uint8)).cast("B")
        meta = {"codec": "raw", "width": SHAPE[1], "height": SHAPE[0]}
        for _ in range(3):
            client.send(frame(BINARY, encode_packet(Packet(track, 0, 0, 1, None, 0, meta, pixels))))
        client.picture()
        return client

    @property
    def model(self) -> int:
        """The model's process, or that of rank 0."""
        return self.models[0]

    @property
    def models(self) -> list[int]:
        """The model's processes that run now."""
        return sorted(children(self.server.process.pid))

    def over(self) -> None:
        """Return when no client is connected and no session runs."""
        if self.present is not None:
            self.present.vanish()
            self.present = None
        until = time.monotonic() + PATIENCE
        while self.server.log.count(" ended: ") < self.begun:
            assert time.monotonic() < until, self.server.log
            time.sleep(0.01)


def connected(server: ReactorProcess) -> RawClient:
    """A client of the model that is there, or there again."""
    until = time.monotonic() + PATIENCE
    while health(server.port)[0] != 200:
        assert time.monotonic() < until
        time.sleep(0.02)
    return RawClient(server.port)


def resets(visits: Visits) -> None:
    visits.enter().vanish()


def model_raises(visits: Visits) -> None:
    with visits.enter() as client:
        client.say("set_level", level=BREAKS)
        assert client.text("reactor.bye")["data"]["reason"] == "model_error"


def takes_over(visits: Visits) -> None:
    before, after = visits.present, visits.enter()
    if before is not None:
        before.gone()
        before.socket.close()
    visits.present = after


def window_passes(visits: Visits) -> None:
    ended = visits.server.log.count(" ended: ")
    visits.enter().vanish()
    until = time.monotonic() + PATIENCE
    while visits.server.log.count(" ended: ") == ended:
        assert time.monotonic() < until
        time.sleep(0.01)


def saves_and_restores(visits: Visits) -> None:
    with visits.enter() as client:
        client.say("reactor.rewind", 10, steps=1)
        assert client.answer(10)["type"] == "reactor.ack"
        client.say("reactor.save", 11)
        world = client.answer(11)["data"]["reply"]["world"]["id"]
        assert "code" not in client.text("reactor.saved")["data"]
        client.say("reactor.restore", 12, world=world)
        assert client.answer(12)["type"] == "reactor.ack"
        client.say("reactor.forget", 13, world=world)
        assert client.answer(13)["type"] == "reactor.ack"
        client.say("reactor.save", 14)  # and it leaves while that one crosses
        assert client.answer(14)["type"] == "reactor.ack"
        client.vanish()


def killed(visits: Visits) -> None:
    with visits.enter() as client:
        os.kill(visits.model, signal.SIGKILL)
        assert client.text("reactor.bye")["data"]["reason"] == "model_restarting"


def stopped_and_killed(visits: Visits) -> None:
    with visits.enter() as client:
        model = visits.model
        os.kill(model, signal.SIGSTOP)
        for _ in range(20):
            client.say("set_level", level=4)
        client.vanish()
        gone = visits.server.log.count("the model is gone")
        os.kill(model, signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while visits.server.log.count("the model is gone") == gone:
        assert time.monotonic() < until
        time.sleep(0.01)


ENDINGS: dict[str, Callable[[Visits], None]] = {
    "client resets": resets, "model raises": model_raises, "takes over": takes_over, "resume window passes": window_passes,
    "saves and restores": saves_and_restores, "model's process is killed": killed,
    "model's process is stopped and killed": stopped_and_killed,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "takes over": {"takeover": "anyone"}, "resume window passes": {"resume_window": 0.2},
    "saves and restores": {"worlds": {"store": "store", "ring": 4 * LARGE}},
}  # fmt: skip
#: endings of the model's process: each costs a load
OF_THE_PROCESS = ("model's process is killed", "model's process is stopped and killed")
IMPOSSIBLE = {
    ("run loop", "model raises"): "a `run()` that raises ends the model, not a session",
    ("async generator", "takes over"): "with two places the second client takes the other one",
    ("batch", "takes over"): "with two places the second client takes the other one",
    **{(kind, "saves and restores"): "it saves no worlds" for kind in KINDS if kind != "saving"},
}
CELLS = [(kind, ending) for kind in KINDS for ending in ENDINGS if (kind, ending) not in IMPOSSIBLE]
#: those that CI runs
FEW = [
    ("generator", "client resets"), ("generator", "model's process is killed"), ("async generator", "model raises"),
    ("app", "takes over"), ("batch", "resume window passes"), ("run loop", "model's process is stopped and killed"),
    ("blocking", "client resets"), ("two ranks", "client resets"),
    ("saving", "saves and restores"),
]  # fmt: skip


def run(folder: Path, kind: str, ending: str, sessions: int, warm: int) -> list[str]:
    """Run a cell; returns a line for each kind of thing that is left, and what holds it."""
    visit = ENDINGS[ending]
    settings = {"isolation": "process", "resume_window": 0} | SETTINGS.get(ending, {})
    with reactor_run(folder, MODEL.format(root=str(ROOT), kind=kind), prefix=NEW_INTERPRETER, **settings) as server:
        visits = Visits(server, folder)
        for _ in range(warm):
            visit(visits)
        visits.over()
        resets(visits)  # the model is there, also after its process was killed
        visits.over()
        processes = {"server": server.process.pid}
        if ending not in OF_THE_PROCESS:
            processes |= {f"model {rank}": pid for rank, pid in enumerate(visits.models)}
        for pid in processes.values():
            hold_still(folder, pid)
        before = {name: held(folder, pid) for name, pid in processes.items()}
        for _ in range(sessions):
            visit(visits)
        visits.over()
        resets(visits)
        visits.over()
        return [line for name, pid in processes.items() for line in left(folder, name, pid, before[name], sessions)]


def hold_still(folder: Path, pid: int) -> None:
    """Turn the collector of that process off, once it is at rest, as after its start it turns the collector on."""
    until = time.monotonic() + PATIENCE
    while not ask(folder, pid, "is at rest"):
        assert time.monotonic() < until
        time.sleep(0.02)
    ask(folder, pid, "hold still")


def held(folder: Path, pid: int) -> Held:
    return msgspec.convert(ask(folder, pid, "held"), Held)


#: seconds in which what the last session held must be gone, also on a machine that is slow
SOON = 30.0
#: bytes by which fifty sessions may grow a process
MAY_GROW = 2**20


def left(folder: Path, name: str, pid: int, before: Held, sessions: int) -> list[str]:
    """What a process holds beyond `before`. Of objects only as many count as there were sessions: its tasks go on.

    Free slots of memory do not count up to their bound: their number depends on how many frames were under way at once.
    """
    until = time.monotonic() + SOON
    while True:
        now = held(folder, pid)
        more = ((int(line.split()[0]), line) for line in now.beyond(before))
        more = [(count, line) for count, line in more if count > MOST_KEPT or not line.endswith("shared_arrays._Slot")]
        lines = [line for count, line in more if count >= sessions or (count > 0 and line.endswith(")"))]
        if not lines:
            break
        if time.monotonic() > until:
            return [f"{name}: {line}" for line in [*lines, ask(folder, pid, "why", msgspec.to_builtins(before))]]
        time.sleep(0.05)
    grown = now.in_use - before.in_use
    return [f"{name}: grown by {grown / 2**20:.1f} MiB"] if grown > SHAPE[0] * SHAPE[1] * 3 + MAY_GROW else []


@pytest.mark.parametrize(("kind", "ending"), FEW, ids=[f"{kind}, {ending}" for kind, ending in FEW])
def test_nothing_is_left_in_either_process(tmp_path, kind, ending):
    few, warm = (2, 1) if ending in OF_THE_PROCESS else (5, 2)  # after each end the next load waits longer
    lines = run(tmp_path, kind, ending, sessions=few, warm=warm)
    assert not lines, "\n".join(lines)


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "ending"), CELLS, ids=[f"{kind}, {ending}" for kind, ending in CELLS])
def test_nothing_is_left_of_fifty_sessions_in_either_process(tmp_path, kind, ending):
    sessions, warm = (4, 1) if ending in OF_THE_PROCESS else (50, 8)  # more deaths in a row are a crash loop
    lines = run(tmp_path, kind, ending, sessions=sessions, warm=warm)
    assert not lines, "\n".join(lines)
