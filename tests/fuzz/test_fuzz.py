"""Each fuzz target for a moment, with a fixed seed, and that the fuzzer finds what it must."""

from __future__ import annotations

import logging
import random
from contextlib import asynccontextmanager

import pytest

from tests.fuzz import fuzzing
from tests.fuzz.fuzz_client import CLIENT_TARGETS
from tests.fuzz.fuzz_server import SERVER_TARGETS
from tests.fuzz.fuzzing import Target, fuzz, plain

TARGETS = {target.name: target for target in (make() for make in (*SERVER_TARGETS, *CLIENT_TARGETS))}
#: inputs in every run of the tests, under a second each
INPUTS = {
    "text": 1500,
    "waiting": 600,
    "packet": 600,
    "head": 800,
    "query": 600,
    "http": 300,
    "upload": 150,
    "websocket": 120,
    "ticket": 400,
    "client": 400,
    "handshake": 400,
    "manifest": 40,
    "link": 300,
    "stream": 80,
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_moment_of_each_target(name):
    result = fuzz(TARGETS[name], INPUTS[name], 1)
    assert not result.crashes, "\n\n".join(f"{crash.data!r}\n{crash.what}" for crash in result.crashes)
    assert result.inputs == INPUTS[name]
    assert len(result.outcomes) >= 4  # it gets beyond the first check


@pytest.mark.soak
@pytest.mark.parametrize("name", TARGETS)
def test_minutes_of_each_target(name):
    seed = random.SystemRandom().randrange(10**6)
    print(f"\n{name}: seed {seed}")
    result = fuzz(TARGETS[name], 40 * INPUTS[name], seed)
    assert not result.crashes, "\n\n".join(f"{crash.data!r}\n{crash.what}" for crash in result.crashes)


class Faulty(Target):
    """Fails in three ways, each behind something that mutations must find."""

    name, share, words = "faulty", 1, (b"loop", b"log")

    def seeds(self):
        return [b'{"n": 12}']

    def opened(self):
        async def run(data):
            if b"loop" in data:
                sum(range(2_000_000))
            if b"log" in data:
                logging.getLogger("reactor_trio.x").error("please report this")
            if b"9007199254740993" in data:
                raise ZeroDivisionError
            return "fine"

        return plain(run)


def test_the_fuzzer_finds_the_planted_faults():
    target = Faulty()
    target.patience = 0.01
    found = " ".join(crash.what for crash in fuzz(target, 200, 1).crashes)
    assert "ZeroDivisionError" in found
    assert "please report this" in found
    assert "of CPU time" in found


@pytest.mark.parametrize(("times", "found"), [(1e-9, True), (1e9, False)])
def test_the_fuzzer_finds_an_input_of_disproportionate_cost_in_each_run(times, found, monkeypatch):
    monkeypatch.setattr(fuzzing, "LITTLE", 0.0)
    ran: list[bytes] = []

    class Dear(Target):
        name, share = "dear", 1

        def seeds(self):
            return [b"abc"]

        def opened(self):
            async def run(data):
                ran.append(data)
                sum(range(1000))
                return "fine"

            return plain(run)

    target = Dear()
    target.times = times
    (crash,) = fuzz(target, 1, 1).crashes or [None]
    assert (crash is not None) is found
    assert ran == [b"abc"] * (4 if found else 1)
    assert crash is None or "out of proportion to 3 bytes" in crash.what


def test_the_same_seed_gives_the_same_inputs():
    class Recorded(Target):
        name, share = "recorded", 1

        def seeds(self):
            return [b"abc 123", b"{}"]

        @asynccontextmanager
        async def opened(self):
            async def run(data):
                seen.append(data)
                return str(len(data))

            yield run

    runs = []
    for seed in (1, 1, 2):
        seen: list[bytes] = []
        fuzz(Recorded(), 200, seed)
        runs.append(seen)
    assert runs[0] == runs[1] != runs[2]
