"""A mutation fuzzer without dependencies: makes inputs out of seeds, runs a target with each, and judges.

A target says in a few words what an input led to (its outcome); an input with a new outcome becomes a seed, so that the
search goes on from there. What counts as a crash: an exception that the target does not expect, a log line at ERROR, CPU
time beyond the target's patience for one input or out of proportion to its bytes, and memory that grows with the number of
inputs. The same seed gives the same inputs.
"""

from __future__ import annotations

import gc
import logging
import random
import re
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec
import trio
import trio.testing

#: bytes of an input
LONGEST = 300_000
#: bytes by which the process may grow from the first fifth of the inputs to the end
GROWTH = 200e6
#: CPU seconds that are never out of proportion
LITTLE = 0.05
MOST_CRASHES = 20

_POOL = 800
_NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_NUMBERS = (
    b"0",
    b"-1",
    b"1",
    b"255",
    b"65535",
    b"65536",
    b"2147483648",
    b"4294967296",
    b"9007199254740993",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"1e308",
    b"1e309",
    b"-1e400",
    b"1e-400",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"0.0",
    b"-0.0",
    b"0.1",
    b"9" * 25,
    b"9" * 5000,
    b"1" + b"0" * 400,
)
_WORDS = (
    b"\x00",
    b"\xff",
    b"\r\n",
    b"\n",
    b" ",
    b"\t",
    b'"',
    b"'",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"=",
    b"&",
    b"%",
    b"%00",
    b"%ff",
    b"%F0%9F%98%80",
    b"\\ud800",
    b"\\u0000",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80",
    b"\xc3\xa4",
    b"null",
    b"true",
    b"..",
    b"/",
    b"\\",
    b"../../",
    b"[" * 1200,
    b'{"a":' * 1200,
)

Run = Callable[[bytes], Awaitable[str]]


class Target(ABC):
    """What is fuzzed. `opened` gives the function that takes one input, awaited inside `trio.run` on a virtual clock."""

    name: str
    #: its part of a total number of inputs
    share: int
    #: what mutations put in, besides what all put in
    words: tuple[bytes, ...] = ()
    #: CPU seconds that one input may take; a quadratic blow-up of inputs of this size takes more
    patience = 1.0
    #: CPU seconds of one input over those of decoding as many bytes of JSON; beyond it they are out of proportion
    times = 40.0

    @abstractmethod
    def seeds(self) -> list[bytes]:
        """Inputs to begin with."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[Run]:
        """What takes an input and returns its outcome; what it raises is a crash."""

    def make(self, dice: random.Random, pool: list[bytes]) -> bytes:
        """The next input."""
        return mutated(dice, pool, self.words)


def mutated(dice: random.Random, pool: list[bytes], words: tuple[bytes, ...] = ()) -> bytes:
    """A seed with a few faults."""
    data = dice.choice(pool)
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        size = len(data)
        at = dice.randrange(size + 1)
        match dice.randrange(12):
            case 0 if size:
                at = min(at, size - 1)
                data = data[:at] + bytes((data[at] ^ (1 << dice.randrange(8)),)) + data[at + 1 :]
            case 1:
                data = data[:at] + dice.randbytes(dice.choice((1, 1, 2, 4, 8))) + data[at + 1 :]
            case 2 | 3:
                data = data[:at] + dice.choice(_WORDS) + data[at:]
            case 4 | 5 if words:
                data = data[:at] + dice.choice(words) + data[at + dice.choice((0, 0, 1, 4)) :]
            case 6:
                data = data[:at] + data[at + dice.choice((1, 1, 2, 8, 64)) :]
            case 7:
                end = at + dice.choice((1, 2, 8, 32))
                data = data[:end] + data[at:end] * dice.choice((1, 1, 2, 8)) + data[end:]
            case 8:
                other = dice.choice(pool)
                data = data[:at] + other[dice.randrange(len(other) + 1) :]
            case 9 | 10 if numbers := list(_NUMBER.finditer(data[:2000])):
                found = dice.choice(numbers)
                data = data[: found.start()] + dice.choice(_NUMBERS) + data[found.end() :]
            case 11 if dice.random() < 0.03:
                end = at + dice.choice((1, 2, 8, 32))
                data = data[:at] + data[at:end] * dice.choice((300, 3000, 20_000)) + data[end:]
            case _:
                data = data[:at]
    return data[:LONGEST]


@dataclass
class Crash:
    """An input, and what it did."""

    data: bytes
    what: str


@dataclass
class Result:
    """What a run of one target found."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, bytes] = (0.0, b"")
    crashes: list[Crash] = field(default_factory=list)
    #: bytes by which the process has grown since the first fifth of the inputs
    growth: int = 0


class _Errors(logging.Handler):
    """Log lines at ERROR and above."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1]:
            text += "\n" + "".join(traceback.format_exception(record.exc_info[1]))
        self.lines.append(text)


class Judge:
    """Runs inputs and keeps what they did."""

    def __init__(self, target: Target, before: Callable[[int, bytes], object] = lambda _number, _data: None) -> None:
        self.result = Result(target.name)
        self._before = before
        self._patience = target.patience
        self._seconds_per_byte = target.times * plain_seconds_per_byte()
        self._errors = _Errors()
        self._known: set[str] = set()

    def __enter__(self) -> Judge:
        self._disabled = logging.root.manager.disable
        logging.disable(logging.WARNING)
        logging.getLogger().addHandler(self._errors)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self._errors)
        logging.disable(self._disabled)

    async def judge(self, run: Run, data: bytes) -> bool:
        """Run one input; whether its outcome is new."""
        self._before(self.result.inputs, data)
        began = time.thread_time()
        crash = ""
        try:
            outcome = await run(data)
        except (trio.Cancelled, KeyboardInterrupt):
            raise
        except BaseException as error:
            outcome = f"crash: {type(error).__name__}"
            crash = "".join(traceback.format_exception(error))
        took = time.thread_time() - began
        if self._errors.lines:
            crash += "logged at ERROR: " + "\n".join(self._errors.lines)
            self._errors.lines.clear()
        if took > self._patience:
            crash += f"took {took:.2f} s of CPU time for {len(data)} bytes"
        elif not crash and (again := await self._out_of_proportion(run, data, took)):
            crash += f"took {again:.3f} s of CPU time, out of proportion to {len(data)} bytes"
        result = self.result
        result.inputs += 1
        result.slowest = max(result.slowest, (took, data))
        if crash:
            last = _kind_of_crash(crash)
            if last not in self._known and len(result.crashes) < MOST_CRASHES:  # one of a kind is enough
                self._known.add(last)
                result.crashes.append(Crash(data, crash))
            outcome = f"crash: {last}"
        result.outcomes[outcome] += 1
        return result.outcomes[outcome] == 1


    async def _out_of_proportion(self, run: Run, data: bytes, took: float) -> float:
        """The CPU seconds of an input that takes too many for its length, each time that it runs; 0 if it does not."""
        allowed = max(LITTLE, self._seconds_per_byte * len(data))
        for _ in range(3):
            if took <= allowed:
                return 0.0
            took = min(took, await seconds_of(run, data))
        return took if took > allowed else 0.0


@cache
def plain_seconds_per_byte() -> float:
    """CPU seconds for each byte of decoding JSON of many small values."""
    data = b"[" + b"[]," * 40_000 + b"0]"
    found = []
    for _ in range(5):
        began = time.thread_time()
        msgspec.json.decode(data)
        found.append(time.thread_time() - began)
    return min(found) / len(data)


def fuzz(
    target: Target, inputs: int, seed: int, before: Callable[[int, bytes], object] = lambda _number, _data: None
) -> Result:
    """Run `target` with its seeds and then with mutations, `inputs` in all."""
    dice = random.Random(f"{target.name} {seed}")
    began = time.monotonic()

    async def loop() -> None:
        pool = target.seeds()
        waiting = list(reversed(pool))
        base = 0
        async with target.opened() as run:
            for number in range(inputs):
                data = waiting.pop() if waiting else target.make(dice, pool)
                if await judge.judge(run, data) and len(data) < 20_000:
                    pool.append(data)
                    if len(pool) > _POOL:
                        del pool[dice.randrange(len(pool))]
                if number == inputs // 5:
                    gc.collect()
                    base = resident()
            gc.collect()
            judge.result.growth = max(0, resident() - base)

    with Judge(target, before) as judge:
        trio.run(loop, clock=trio.testing.MockClock(autojump_threshold=0))
    judge.result.seconds = time.monotonic() - began
    if judge.result.growth > GROWTH:
        judge.result.crashes.append(Crash(b"", f"memory grew by {judge.result.growth / 1e6:.0f} MB"))
    return judge.result


def _kind_of_crash(text: str) -> str:
    """Where it happened and what it was, so that one fault is told once."""
    places = re.findall(r'File "[^"]*/([^"/]+)", line (\d+)', text)
    return f"{':'.join(places[-1]) if places else ''} {kind_of(text.strip().splitlines()[-1])}"


def resident() -> int:
    """Bytes of memory that this process has."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0


_VARYING = re.compile(r"[^A-Za-z .:,$<>=-]+")


def kind_of(text: str) -> str:
    """A message without what varies from input to input: its beginning, up to what it quotes."""
    return _VARYING.sub("#", re.split(r"""['"{\[]|field """, text[:200])[0])[:36]


def unwrapped(error: BaseException) -> BaseException:
    """The one exception inside groups."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


@asynccontextmanager
async def plain(run: Run) -> AsyncGenerator[Run, None]:
    """A target that needs nothing opened."""
    yield run


def table(results: list[Result]) -> str:
    """The results for people."""
    lines = [f"{'target':<14}{'inputs':>9}{'seconds':>9}{'outcomes':>10}{'slowest':>11}{'growth':>10}{'crashes':>9}"]
    for r in results:
        lines.append(
            f"{r.target:<14}{r.inputs:>9}{r.seconds:>9.0f}{len(r.outcomes):>10}{r.slowest[0] * 1000:>8.0f} ms"
            f"{r.growth / 1e6:>7.0f} MB{len(r.crashes):>9}"
        )
    total = sum(r.inputs for r in results), sum(r.seconds for r in results), sum(len(r.crashes) for r in results)
    lines.append(f"{'all':<14}{total[0]:>9}{total[1]:>9.0f}{'':>10}{'':>11}{'':>10}{total[2]:>9}")
    return "\n".join(lines)


async def seconds_of(run: Run, data: bytes) -> float:
    """The CPU seconds of this thread for one input, without the garbage collector."""
    gc.collect()
    gc.disable()
    began = time.thread_time()
    try:
        await run(data)
        return time.thread_time() - began
    finally:
        gc.enable()
