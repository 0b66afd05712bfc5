"""Mixed clients against one `reactor run`, for as long as one likes: who comes, what is measured, and what it must come to.

    this thread     a sample each second
    control         threads; each takes the next number, and is the client of that number from its first byte to its last
    bystanders      threads: polls, viewers that come by themselves, requests without manners, slow loris, crowds

Client `n` throws dice that the seed and `n` alone decide. When it meets the others is the machine's affair.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.soak import secret_model
from tests.soak.behaviours import VISITS, Door
from tests.soak.bystanders import Lorises, has_no_manners, looks_in, polls
from tests.soak.cycling import Holding, settled, wait_for_rest
from tests.soak.figures import PER, Figure, Sample, Slope
from tests.soak.ledger import Ledger
from tests.support.fault_peers import Gone, RawClient, ReactorProcess, ask, health, reactor_run

#: controlling clients at a time: one has the session, the others wait, come or go
CONTROL = 10
#: what a session may take away from the process for ever, in MiB for 10 000
MAY_GROW = 0.5
#: sessions a minute, so that 30 minutes have 20 000
PACE = 20_000 / 30
#: seconds of rest before the first and after the last, in which idle worker threads end
REST = 12.0
#: seconds for the last clients to end
LAST = 60.0
#: shorter than by default, so that a client that gives no sign of life holds up the others for seconds
LIMITS = {"handshake": 5, "stall": 5}
#: settings of the memory allocator begin so; a soak says which of them held
ALLOCATOR = ("MALLOC_", "PYTHONMALLOC", "GLIBC_TUNABLES", "LD_PRELOAD")
#: problems that are bars by themselves; all others are one more
NAMED = ("cross-talk", "lost acknowledgements")


@dataclass
class Soaked:
    """What came of a soak."""

    seed: int
    seconds: float
    ledger: Ledger
    fresh: Holding
    end: Holding | None
    samples: list[Sample]
    server_sessions: dict[str, int]
    tracebacks: int
    exit_code: int | None
    processor: float
    stopped: bool = False
    conditions: dict[str, Any] = field(default_factory=dict)

    @property
    def sessions(self) -> int:
        """Sessions of which a client read the welcome."""
        return self.ledger.counts["sessions"]

    def slope(self, what: str = "resident") -> Slope | None:
        """How `resident` or `anonymous` memory grows."""
        return Slope.of([(sample.sessions, getattr(sample, what)) for sample in self.samples])

    def figures(self, *, slopes: bool = True, pace: float = PACE, rested: bool = True) -> list[Figure]:
        """Each figure with its bar.

        Args:
            slopes: whether it was long enough for them.
            pace: sessions a minute that are due.
            rested: whether idle worker threads had ended before it began; if not there may be fewer at the end.
        """
        counts, problems = self.ledger.counts, self.ledger.problems
        least, served = round(pace * self.seconds / 60), sum(self.server_sessions.values())
        return [
            Figure("sessions", str(self.sessions), f"at least {least}", self.sessions >= least),
            Figure("sessions, as the server counts", str(served), f"at least {self.sessions}", served >= self.sessions),
            Figure("sessions a second", f"{self.sessions / self.seconds:.1f}"),
            Figure("the server's share of one core", f"{self.processor / self.seconds:.0%}"),
            *(self._slopes() if slopes else []),
            *([] if self.end is None else self._held(self.end, rested)),
            Figure("frames checked for their secret", str(counts["frames checked"])),
            Figure("messages checked", str(counts["messages checked"])),
            Figure("commands answered", f"{counts['answers']} acknowledged, {counts['refusals']} refused"),
            *(Figure(name, str(problems[name]), "0", problems[name] == 0) for name in NAMED),
            self._other_problems(),
            Figure("tracebacks that no client asked for", str(self.tracebacks), "0", self.tracebacks == 0),
            Figure("exit code after SIGTERM", str(self.exit_code), "0", self.exit_code == 0),
        ]  # fmt: skip

    def _slopes(self) -> Iterator[Figure]:
        for what in ("resident", "anonymous"):
            slope = self.slope(what)
            for how in ("least_squares", "theil_sen"):
                value = None if slope is None else getattr(slope, how)
                name = f"MiB for each {PER} sessions, {what}, {how.replace('_', ' ')}"
                written = "nothing to fit" if value is None else f"{value:+.3f}"
                if what == "resident":
                    yield Figure(name, written, f"below {MAY_GROW}", value is not None and value < MAY_GROW)
                else:
                    yield Figure(name, written)

    def _held(self, end: Holding, rested: bool) -> Iterator[Figure]:
        fresh = self.fresh
        threads = fresh.threads == end.threads if rested else fresh.threads >= end.threads
        yield self._equal("threads", fresh.threads, end.threads, threads)
        same = fresh.descriptors == end.descriptors
        yield self._equal("descriptors", len(fresh.descriptors), len(end.descriptors), same)
        yield self._equal("tasks", fresh.tasks, end.tasks)
        begun = end.generators_entered - 1  # the asking client's runs
        yield Figure("generators begun, closed", f"{begun}, {end.generators_left}", "equal", begun == end.generators_left)

    @staticmethod
    def _equal(name: str, begin: int, end: int, equal: bool | None = None) -> Figure:
        equal = begin == end if equal is None else equal
        return Figure(f"{name} at the beginning and end", f"{begin}, {end}", "equal", equal)

    def _other_problems(self) -> Figure:
        others = {name: number for name, number in self.ledger.problems.items() if name not in NAMED}
        words = ", ".join(f"{number} {name}" for name, number in sorted(others.items())) or "0"
        return Figure("other problems", words, "0", not others)

    def as_json(self, figures: list[Figure]) -> str:
        """All of it."""
        return json.dumps({
            "seed": self.seed, "seconds": self.seconds, "stopped": self.stopped, "conditions": self.conditions,
            "figures": [figure.row() for figure in figures], "counts": dict(self.ledger.counts),
            "kinds": dict(self.ledger.kinds), "problems": dict(self.ledger.problems), "words": self.ledger.words,
            "server_sessions": self.server_sessions, "fresh": asdict(self.fresh), "end": self.end and asdict(self.end),
            "samples": [asdict(sample) for sample in self.samples],
        }, indent=1)  # fmt: skip


def soak(
    folder: Path, *, seed: int = 1, seconds: float = float("inf"), sessions: float = float("inf"), rest: float = REST,
    model: str | None = None, say: Callable[[Sample], None] = lambda _sample: None,
) -> Soaked:  # fmt: skip
    """Run until `seconds` are over or so many clients have come; a KeyboardInterrupt ends it sooner.

    Args:
        rest: seconds of rest at both ends; without them the server may end with fewer threads than it began with.
        model: the source of another model that says the same.
        say: told each sample.
    """
    ledger, stopped, samples = Ledger(), False, list[Sample]()
    load_before = os.getloadavg()
    with reactor_run(folder, model or Path(secret_model.__file__).read_text(), limits=LIMITS) as server:
        wait_for_rest(server)
        time.sleep(rest)
        fresh = settled(server, None)
        before, used = _server_sessions(server.port), _processor(server)
        began = time.monotonic()
        crowd = _Crowd(server, ledger, seed, sessions)
        with crowd.around():
            try:
                for number in itertools.count(1):
                    if crowd.over.wait(max(0.0, min(began + number, began + seconds) - time.monotonic())):
                        break
                    samples.append(Sample.take(server, time.monotonic() - began, ledger.counts["sessions"]))
                    say(samples[-1])
                    if time.monotonic() - began >= seconds or server.process.poll() is not None:
                        break
            except KeyboardInterrupt:
                stopped = True
        took, used = time.monotonic() - began, _processor(server) - used
        time.sleep(rest)
        ended = _ended(server, before)
        end = _at_rest(server, fresh, ledger)
        server.process.terminate()
        exit_code = server.process.wait(120)
        all_raised, asked = (
            len(re.findall(what, server.log, re.MULTILINE)) for what in (r"^Traceback", r"^RuntimeError: asked to")
        )
    conditions = {
        "python": platform.python_version(), "cores": os.cpu_count(),
        "load_before": load_before, "load_after": os.getloadavg(), "log_bytes": samples[-1].log if samples else 0,
        "malloc": {name: value for name, value in os.environ.items() if name.startswith(ALLOCATOR)},
    }  # fmt: skip
    return Soaked(
        seed, took, ledger, fresh, end, samples, ended, all_raised - asked,
        exit_code, used, stopped, conditions,
    )  # fmt: skip


class _Crowd:
    """All clients of one soak.

    Attributes:
        over: set when no more controlling clients come.
    """

    def __init__(self, server: ReactorProcess, ledger: Ledger, seed: int, clients: float) -> None:
        self.over = threading.Event()
        self._ledger, self._seed, self._clients = ledger, seed, clients
        self._port = server.port
        self._codecs = set(health(server.port)[1]["encoders"])
        self._numbers = itertools.count(1)
        self._stop = threading.Event()

    @contextmanager
    def around(self) -> Iterator[None]:
        """They come while the block runs, and have gone when it is left."""
        control = [threading.Thread(target=self._control, daemon=True) for _ in range(CONTROL)]
        lorises = Lorises()
        bystanders = [
            threading.Thread(target=self._bystander, args=each, daemon=True)
            for each in ((polls, 0.2), (looks_in, 0.15), (has_no_manners, 0.1), (lorises.step, 0.2), (self._crowds, 3.0))
        ]
        threads = control + bystanders
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            until = time.monotonic() + LAST
            for thread in control:
                thread.join(max(0.0, until - time.monotonic()))
            self._stop.set()
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))
            lorises.close()
            if alive := sum(thread.is_alive() for thread in threads):
                self._ledger.problem("clients that never ended", f"{alive} after {LAST} s", alive)

    def _control(self) -> None:
        kinds, often = [*VISITS], [*VISITS.values()]
        while not self.over.is_set():
            number = next(self._numbers)
            if number > self._clients:
                self.over.set()
                return
            door = self._door(str(number), number)
            door.live(door.dice.choices(kinds, often)[0])

    def _bystander(self, behaviour: Callable[[Door], None], pause: float) -> None:
        for turn in itertools.count():
            if self._stop.wait(pause):
                return
            self._door(f"{behaviour.__name__} {turn}", -1).live(behaviour)

    def _crowds(self, door: Door) -> None:
        """More come at once than there is room for, and go; the queue is full for a moment."""
        crowd = [RawClient(self._port, upgrade=False) for _ in range(20)]
        for client in crowd:
            client.send(b"GET /ws?video=raw HTTP/1.1\r\nhost: localhost\r\n" + UPGRADE)
        for client in crowd:
            status, _, _ = client.response(body=False)
            door.ledger.count(f"of crowds: {status}")
            door.vanish(client)

    def _door(self, what: str, number: int) -> Door:
        return Door(self._port, self._ledger, self._codecs, random.Random(f"{self._seed}/{what}"), number)


UPGRADE = (
    b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def _server_sessions(port: int) -> dict[str, int]:
    """Sessions that ended, by reason."""
    _, _, body = ask(port, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    found = re.findall(r'^reactor_sessions_ended_total\{reason="(\w+)"\} (\S+)$', body.decode(), re.MULTILINE)
    return {reason: int(float(count)) for reason, count in found}


def _at_rest(server: ReactorProcess, fresh: Holding, ledger: Ledger) -> Holding | None:
    """What the server holds when all have left; None, and a problem, if it does not serve or never comes to rest."""
    try:
        return settled(server, fresh)
    except (Gone, OSError, AssertionError) as error:
        ledger.problem("servers that did not come to rest", f"{type(error).__name__}: {error}")
        return None


def _ended(server: ReactorProcess, before: dict[str, int]) -> dict[str, int]:
    """Sessions that ended since `before`, by reason; none if the server answers no more."""
    try:
        now = _server_sessions(server.port)
    except (Gone, OSError):
        return {}
    return {reason: count - before[reason] for reason, count in now.items() if count > before[reason]}


def _processor(server: ReactorProcess) -> float:
    """Processor seconds that the server has used."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
