"""The functions that a frame, a command, an HTTP request and the start of a WebSocket pass, seen while one of each does.

    python -m tests.support.traced_ways --page      prints rows and looks as `docs/contribute/design.md` should have them
    python -m tests.support.traced_ways --write     writes them there, and `tests/golden/files/ways.json` if no number grows

The rule, for a reader of the code. A *record* is what carries the frame, the command or the request: the picture itself, its
encoded payload, the text of the command, the bytes of the request and of its answer's head, and the classes of `RECORDS`;
also a tuple, a list or a dict with one in it. An object that has a record in an attribute is none. A function *takes* a
record as an argument (`self` is one), *gives* one as its result or by `yield`, and *hands* one to a function that it calls.

1. A *row* is a function of the package that takes or gives a record across a module: its caller, the nearest function of the
   package or of the author below it on the stack, is in another module. Or it has no such caller, because an event loop or a
   thread calls it.
2. A row is also a function that takes none and gives none but hands one to a function of the package. It has the record from
   a queue, or from a function that it called: it *pulls* it (`↓`). What it hands must lead on: see 3.
3. A *look* is a function by 1 that leads the record nowhere. It gives none and keeps none (no reference to it is left when
   it has returned), and inside it no row runs, no code of the author, and no function of Trio that takes the record.
4. Rows are in the order in which they first have the record. The way of a command ends with the author's handler, that of a
   start when the client has its welcome.

Rule 1 leaves out helpers that only their own module calls. Three numbers beside the rows see them: how many looks there are,
how many functions touch (take, give or hand) a record, and how many run at all while the frame or the command is under way.

Each run sees the same, on any machine: one session in virtual time, with the model on the test's loop, over the real
WebSocket in memory. The window of a frame is a second of a model with one frame a second, from a moment at which all tasks
wait to the next such moment. Functions that run only for the first frames have run before. The encoder runs in a real worker
thread, and nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import inspect
import itertools
import json
import math
import opcode
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import numpy as np
import trio
import trio.testing

from reactor_trio.interface import Output, ReactorModel, ReactorPipeline, event
from reactor_trio.media.codec_pool import worker_threads
from reactor_trio.testing import TestServer, hold_clock, memory_server, open_server
from tests.support import ways_page
from tests.support.models import Picture
from tests.support.ways_page import VARIANTS

ROOT = Path(__file__).parents[2]
NUMBERS = ROOT / "tests" / "golden" / "files" / "ways.json"

#: way -> the classes that carry it, as `docs/contribute/design.md` names them
RECORDS = {
    "frame": (
        "execution.step_loop.StepMade", "media.frames.Chunk", "media.frames.Bundle", "connection.outgoing_frames.DueFrame",
        "media.encoders.Encoded", "connection.outgoing_frames.CodedFrame",
    ),
    "command": ("protocol.text.ClientText", "crossing.messages.Command"),
    "request": ("transport.exchange.Exchange", "transport.request.Request", "transport.request.Response"),
    "start": (
        "transport.exchange.Exchange", "transport.request.Request", "connection.connect_request.ConnectRequest",
        "protocol.text.Welcome",
    ),
}  # fmt: skip
#: what no other text contains
MARK = "traced-7d0b"

PACKAGE = "reactor_trio."
#: the client and the kit, which are no part of the server
CLIENT = ("reactor_trio.client.", "reactor_trio.testing.session_client")
KIT = "reactor_trio.testing."
_RESUMABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
#: references that each further variable of a function adds to an object while a profiler sees the function
_EACH_VARIABLE = 1 if sys.version_info >= (3, 13) else 2


# ---- what is traced ---------------------------------------------------------------------------------------------------


class Painted(ReactorPipeline):
    """A frame a second. The model keeps its picture, so it is copied."""

    output: Picture
    fps = 1
    picture = np.full((64, 64, 3), 90, np.uint8)

    @event
    def paint(self, colour: str) -> None:
        """The end of a command's way."""

    def inference(self):
        while True:
            yield self.picture


class Emitted(ReactorModel):
    """The same from a run loop, which is slower than its playout: each frame is shown at once."""

    output: Picture
    fps = 10
    picture = Painted.picture

    @event
    def paint(self, colour: str) -> None:
        """The end of a command's way."""

    async def run(self):
        while True:
            await self.connected.wait()
            await trio.sleep(1)
            await self.emit(self.picture)


AUTHOR = {id(f.__code__) for f in (Painted.paint, Painted.inference, Emitted.paint, Emitted.run)}


# ---- the tracer -------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Call:
    """One call of a function of the package or of the author, while it runs or waits."""

    function: str
    module: str
    code: int
    author: bool
    parent: Call | None = None
    place: str = ""
    #: across a module; and what it does with a record
    crosses: bool = False
    takes: bool = False
    gives: bool = False
    hands: bool = False
    keeps: bool = False
    #: the author's code or Trio takes the record inside it
    leads: bool = False
    #: when it first had a record
    first: int | None = None
    #: parameters with a record, and the references to it when the call began
    references: dict[str, int] = field(default_factory=dict)

    @property
    def pulls(self) -> bool:
        return self.hands and not self.takes and not self.gives

    @property
    def touches(self) -> bool:
        return self.takes or self.gives or self.hands

    def up(self) -> Iterable[Call]:
        """The calls that it runs in."""
        call = self.parent
        while call is not None:
            yield call
            call = call.parent


@dataclass
class Trace:
    """What one way in one variant is."""

    #: function -> (where it runs, whether it pulls), in order
    rows: dict[str, tuple[str, bool]]
    looks: list[str]
    touch: int
    run: int

    @property
    def numbers(self) -> dict[str, int]:
        return {"rows": len(self.rows), "looks": len(self.looks), "touch": self.touch, "run": self.run}


class Tracer:
    """Profiles the functions of the package in a window, and applies the rule to what it saw."""

    def __init__(self, way: str, *, process: bool) -> None:
        self._way = way
        self._process = process
        self._types: tuple[type, ...] = tuple(map(_named, RECORDS[way]))
        self._calls: list[Call] = []
        self._live: dict[int, Call] = {}
        self._run: set[str] = set()
        self._moments = itertools.count()
        self._kinds: dict[int, tuple[str, str, str]] = {}
        self._open = False

    @contextmanager
    def window(self) -> Generator[None, None, None]:
        """What runs on this thread in the block is traced, and what runs in `traced` on others."""
        gc.collect()
        gc.disable()  # a finalizer would run at any time
        self._open = True
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            gc.enable()
            self._open = False

    def traced(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call `function` on a worker thread, traced if the window is open."""
        if self._open:
            sys.setprofile(self._profile)
        try:
            return function(argument)
        finally:
            sys.setprofile(None)

    def result(self) -> Trace:
        """Apply the rule."""
        inside: set[Call] = set()  # what has something inside it that leads the record on
        for call in self._calls:
            if call.keeps or call.leads or (call.crosses and call.gives):
                inside.update(call.up())
        rows: dict[str, list[Call]] = {}
        looks: dict[str, list[Call]] = {}
        for call in self._calls:
            if call.author or not (call.crosses or call.pulls):
                continue
            if call in inside or call.leads or (call.crosses and (call.gives or call.keeps)):
                rows.setdefault(call.function, []).append(call)
            elif call.crosses:
                looks.setdefault(call.function, []).append(call)
        table = {
            name: (", ".join(sorted({call.place for call in calls})), all(call.pulls for call in calls))
            for name, calls in sorted(rows.items(), key=lambda row: _first(row[1]))
        }
        touch = {call.function for call in self._calls if call.touches and not call.author}
        return Trace(
            table, [name for name, calls in sorted(looks.items(), key=lambda row: _first(row[1])) if name not in table],
            len(touch), len(self._run),
        )  # fmt: skip

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _profile(self, frame: FrameType, what: str, value: Any) -> None:
        if not self._open or what not in ("call", "return"):
            return
        kind, _, _ = self._kind(frame)
        if kind == "other" or (kind in ("trio", "kit") and what == "return") or self._of_client(frame):
            return
        if kind in ("trio", "kit"):
            if any(map(self._is_record, _arguments(frame).values())):
                self._lead(self._caller(frame))
        elif what == "call":
            self._called(frame)
        else:
            self._returned(frame, value)

    def _called(self, frame: FrameType) -> None:
        call = self._live.get(id(frame))
        resumed = call is not None and call.code == id(frame.f_code) and frame.f_code.co_flags & _RESUMABLE
        caller = self._caller(frame)
        if resumed:
            assert call is not None
            call.parent = caller
            return
        call = self._new(frame, caller)
        arguments = _arguments(frame)
        argument = None
        for name, argument in arguments.items():
            if self._is_record(argument):
                call.references[name] = 0
        del arguments, argument
        for name in call.references:
            call.references[name] = _references(frame, name)
        if call.references:
            if caller is not None:
                self._has(caller)
                caller.hands = caller.hands or not call.author
            self._has(call)
            call.takes, call.crosses = True, self._crosses(call, caller)
            if call.author:
                self._lead(caller)
                self._open = self._way != "command"

    def _returned(self, frame: FrameType, value: Any) -> None:
        call, caller = self._live.get(id(frame)), self._caller(frame)
        if call is None or call.code != id(frame.f_code):  # it ran already when the window opened
            call = self._new(frame, caller)
        if self._is_record(value):
            self._has(call)
            call.gives, call.crosses = True, call.crosses or self._crosses(call, caller)
            if caller is not None:
                self._has(caller)
        if frame.f_code.co_flags & _RESUMABLE and opcode.opname[frame.f_code.co_code[frame.f_lasti]] == "YIELD_VALUE":
            return
        del self._live[id(frame)]
        call.keeps = any(_references(frame, name) > before for name, before in call.references.items())

    def _new(self, frame: FrameType, caller: Call | None) -> Call:
        kind, module, function = self._kind(frame)
        call = Call(function, module, id(frame.f_code), kind == "author", caller)
        self._live[id(frame)] = call
        self._calls.append(call)
        if kind == "ours":
            self._run.add(function)
        return call

    def _caller(self, frame: FrameType) -> Call | None:
        """The nearest call of ours or of the author below it."""
        below = frame.f_back
        while below is not None and self._kind(below)[0] != "kit":
            if self._kind(below)[0] in ("ours", "author"):
                call = self._live.get(id(below))
                return call if call is not None and call.code == id(below.f_code) else self._new(below, self._caller(below))
            below = below.f_back
        return None

    def _has(self, call: Call) -> None:
        if call.first is None:
            call.first, call.place = next(self._moments), self._place()

    def _lead(self, call: Call | None) -> None:
        if call is not None:
            call.leads = True

    def _crosses(self, call: Call, caller: Call | None) -> bool:
        return caller is None or caller.module != call.module

    def _is_record(self, value: Any, depth: int = 2) -> bool:
        if isinstance(value, self._types):
            return True
        if type(value) in (tuple, list):
            return depth > 0 and any(self._is_record(each, depth - 1) for each in value)
        if type(value) is dict:
            return depth > 0 and any(self._is_record(each, depth - 1) for each in value.values())
        if self._way in ("request", "start"):
            return isinstance(value, bytes | bytearray | memoryview) and _of_http(bytes(value))
        if self._way == "command":
            if isinstance(value, str):
                return MARK in value
            return isinstance(value, bytes | bytearray | memoryview) and MARK.encode() in _unmasked(bytes(value))
        if isinstance(value, np.ndarray):
            return value.ndim == 3
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value[:2]) == b"\xff\xd8"  # a JPEG file
        return isinstance(value, Output)

    def _kind(self, frame: FrameType) -> tuple[str, str, str]:
        """What its code is, its module, and its name for the page."""
        code = frame.f_code
        if (known := self._kinds.get(id(code))) is None:
            module = frame.f_globals.get("__name__", "")
            kind = "other"
            if id(code) in AUTHOR:
                kind = "author"
            elif module.startswith(CLIENT):
                kind = "client"
            elif module.startswith(("trio.", KIT)):
                kind = "kit" if module.startswith(KIT) else "trio"
            elif module.startswith(PACKAGE) and not _part_of_another(code):
                kind = "ours"
            known = self._kinds[id(code)] = kind, module, f"{module.removeprefix(PACKAGE)}:{code.co_qualname}"
        return known

    def _of_client(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if self._kind(frame)[0] == "client":
                return True
            frame = frame.f_back
        return False

    def _place(self) -> str:
        if threading.current_thread() is not threading.main_thread():
            return "worker thread"
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code is _on_model_loop.__code__:
                return "model loop"
            frame = frame.f_back
        task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        while task is not None:
            root = getattr(task.coro, "cr_code", None)
            name = "" if root is None else root.co_qualname
            if name == "ModelHost.supervise":
                return "model loop"
            if name == "InlineProcess._run" or (name == "EntryQueue.task" and self._process):
                return "process's I/O loop"
            task = task.parent_nursery.parent_task if task.parent_nursery is not None else None
        return "I/O loop"


class _Posted:
    """A `PostObserver`, by which a tracer sees what runs on the model loop because it was posted there."""

    def posted(self, function: Callable[..., object], args: tuple[object, ...]) -> tuple[Any, tuple[object, ...]]:
        return _on_model_loop, (function, args)


def _on_model_loop(function: Callable[..., object], args: tuple[object, ...]) -> None:
    function(*args)


def _first(calls: list[Call]) -> int:
    return min(call.first for call in calls if call.first is not None)


def _named(path: str) -> type:
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(PACKAGE + module), name, None)
    assert isinstance(found, type), f"{path} is no class any more: RECORDS in tests/support/traced_ways.py names it"
    return found


def _references(frame: FrameType, name: str) -> int:
    """How many references there are to the value of a variable, without those of other variables of the function."""
    variables = frame.f_locals
    if name not in variables:
        return 0
    others = sum(variables[other] is variables[name] for other in variables) - 1
    return sys.getrefcount(variables[name]) - others * _EACH_VARIABLE


def _arguments(frame: FrameType) -> dict[str, Any]:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    variables = frame.f_locals
    return {name: variables[name] for name in code.co_varnames[:count] if name in variables}


def _part_of_another(code: CodeType) -> bool:
    """A comprehension, which newer versions of Python make no function of, or what a decorator has generated."""
    return code.co_name in ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>") or code.co_filename[0] == "<"


def _unmasked(data: bytes) -> bytes:
    """The text of a client's WebSocket frame, which is masked; other data as it is."""
    if len(data) > 6 and data[0] == 0x81 and 0x80 <= data[1] < 0xFE:
        return bytes(byte ^ data[2 + place % 4] for place, byte in enumerate(data[6:]))
    return data


def _of_http(data: bytes) -> bool:
    """Whether it is a request of ours, or the head of an answer."""
    return MARK.encode() in data or data.startswith(b"HTTP/1.1 ")


# ---- the sessions -----------------------------------------------------------------------------------------------------


def traces() -> dict[str, dict[str, Trace]]:
    """Way -> variant -> its trace."""
    found: dict[str, dict[str, Trace]] = {way: {} for way in RECORDS}
    for variant in VARIANTS:
        clock = trio.testing.MockClock(autojump_threshold=0)
        for way, trace in trio.run(_session, variant, clock=clock).items():
            found[way][variant] = trace
    return found


async def _session(variant: str) -> dict[str, Trace]:
    model, process = Emitted if "run loop" in variant else Painted, "process" in variant
    frame, command, request, start = (Tracer(way, process=process) for way in RECORDS)
    threads = worker_threads(1)

    async def work(function: Callable[[Any], Any], argument: Any, /, limit: float = math.inf) -> Any:
        async with hold_clock():
            await trio.testing.wait_all_tasks_blocked()
            return await threads(partial(frame.traced, function), argument, limit)

    isolation = "process" if process else "thread"
    with mock.patch.object(memory_server, "_here", work):
        async with (
            open_server(model, websocket=True, isolation=isolation) as server,
            server.connect(video=["jpeg"]) as client,
        ):
            server._host.posts = _Posted()
            await client.take(4)
            await trio.sleep(0.5)
            with frame.window():
                await trio.sleep(1)
            await client.take(1, within=0.1)
            with command.window():
                await client.command("paint", colour=MARK)
            await client.close()
            await trio.sleep(1)
            await _ask(server, request)
            again = server.connect(video=[], token=MARK)
            with start.window():
                await again.__aenter__()
                await trio.sleep(0.1)
            await again.__aexit__(None, None, None)
    return {way: tracer.result() for way, tracer in zip(RECORDS, (frame, command, request, start), strict=True)}


async def _ask(server: TestServer, request: Tracer) -> None:
    """Two requests on one connection. The second is traced; what runs only for the first one has run."""
    stream = await server._open_stream()
    get = f"GET /health?{MARK}=1 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()

    async def ask() -> None:
        await stream.send(get)
        answer = b""
        while not answer.endswith(b"}"):
            answer += await stream.receive()
        await trio.testing.wait_all_tasks_blocked()

    await ask()
    with request.window():
        await ask()
    await stream.aclose()


def grown(found: Mapping[str, Mapping[str, Trace]]) -> list[str]:
    """Which numbers are above those of the file, in words."""
    held = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return [
        f"{way}, {variant}: {name} {number}, at most {most}"
        for way, variants in found.items()
        for variant, trace in variants.items()
        for name, number in trace.numbers.items()
        if number > (most := held.get(way, {}).get(variant, {}).get(name, math.inf))
    ]


def numbers(found: Mapping[str, Mapping[str, Trace]]) -> str:
    """The text of the file with today's numbers."""
    texts = {way: {variant: trace.numbers for variant, trace in variants.items()} for way, variants in found.items()}
    return json.dumps(texts, indent=1) + "\n"


def main(arguments: Sequence[str]) -> str | None:
    """Print the ways, or write them; what is wrong."""
    what = "The ways of docs/contribute/design.md."
    parser = argparse.ArgumentParser("python -m tests.support.traced_ways", description=what)
    parser.add_argument("--page", action="store_true", help="print the tables as the page should have them")
    parser.add_argument("--write", action="store_true", help="write them into the page, and the numbers if none grows")
    options, found = parser.parse_args(arguments), traces()
    page = ways_page.PAGE.read_text(encoding="utf-8")
    for way, variants in found.items():
        parts = ways_page.expected(variants)
        if options.page:
            for variant, text in ways_page.written(way, parts, page).items():
                print(f"---- {ways_page.TITLES[way]}: {variant}\n\n{text}")
        if options.write:
            page = ways_page.replaced(way, parts, page)
    if not options.write:
        print(numbers(found), end="")
        return None
    ways_page.PAGE.write_text(page, encoding="utf-8")
    if more := grown(found):
        return "these numbers have grown, so tests/golden/files/ways.json stays as it is:\n" + "\n".join(more)
    NUMBERS.write_text(numbers(found), encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
