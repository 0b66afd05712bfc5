"""What this process holds now: `Held.now()`. It is used in the server's process, and in a model's process by a command of
the model itself (`held_commands`), so it imports nothing of the server.

Three kinds of things are counted:

* objects of ours that the garbage collector knows, by type: `of_ours` says which are ours;
* big values that a test has given to `BIG`, by weak reference: frames, states, input frames, uploads;
* what the system lends: descriptors by kind, maps of memory that is shared or a file without a name, threads, files in a
  folder for temporary files; and the bytes in use.

`hold_still` collects once and turns the collector off. `why` then says what holds what is left: the knots that only a
collection would free, and for objects that are still in use the shortest chain of references from a module or a frame.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import types
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tests.leftovers.referrers import chain, knots

#: Parts of the package that run at the client's or the test's side. A server's process has none of their objects.
OTHER_SIDE = ("reactor_trio.client", "reactor_trio.testing")
#: How the name of one of Trio's worker threads begins while it has nothing to do; it ends by itself after some seconds.
IDLE_WORKER = "Trio thread "


class _Info(ctypes.Structure):
    """What mallinfo2 of glibc 2.33 returns. Only two numbers are used."""

    _fields_ = [(name, ctypes.c_size_t) for name in (*"abcd", "mapped", *"ef", "in_heaps", *"gh")]


def in_use() -> int:
    """Bytes that the C library has given to this process and not got back; Python's too under PYTHONMALLOC=malloc.

    Resident memory counts free memory, too, and how much of that there is depends on all that ran before.
    """
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Info
    info = mallinfo()
    return int(info.in_heaps + info.mapped)


class BigValues:
    """Counts the big values of this process that are alive."""

    def __init__(self) -> None:
        self.alive: Counter[str] = Counter()

    def watch(self, kind: str, value: object) -> None:
        """Count `value`, which takes weak references, as one of this kind until it is freed."""
        self.alive[kind] += 1
        weakref.finalize(value, self._freed, kind).atexit = False

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """As `np.empty`, for `media.frames.keep_frames_in`: the array counts as a frame."""
        array: npt.NDArray[Any] = np.empty(shape, dtype)
        self.watch("frame", array)
        return array

    def _freed(self, kind: str) -> None:
        self.alive[kind] -= 1


#: those of this process
BIG = BigValues()


class Held(msgspec.Struct, frozen=True):
    """What a process holds, each by name and number. It can cross between two processes as JSON.

    Attributes:
        objects: objects of ours by type.
        big: big values by kind.
        system: what the system lends, by kind.
        in_use: bytes, see `in_use`.
    """

    objects: dict[str, int]
    big: dict[str, int]
    system: dict[str, int]
    in_use: int

    @classmethod
    def now(cls, temporary: Path | None = None) -> Held:
        """Count. `temporary` is a folder whose files count, too."""
        return cls(dict(_objects()), dict(+BIG.alive), dict(_lent(temporary)), in_use())

    def beyond(self, before: Held, *, big: int = 0) -> list[str]:
        """A line for each kind of which there is more than `before`, or another number of what the system lends.

        `big`: how many big values of a kind may be there beyond the earlier ones, such as the picture that stands.
        Bytes are the caller's to compare.
        """
        left = [f"{count:+d} {name}" for name, count in _more(self.objects, before.objects).items()]
        left += [f"{count:+d} {name} (big)" for name, count in _more(self.big, before.big).items() if count > big]
        kinds = sorted({*self.system, *before.system})
        changes = {kind: self.system.get(kind, 0) - before.system.get(kind, 0) for kind in kinds}
        return left + [f"{change:+d} {kind} (system)" for kind, change in changes.items() if change]


def hold_still(*, thaw: bool = True) -> None:
    """Collect once and turn the collector off, until `let_go`. `thaw`: also collect and count what a server has frozen."""
    if thaw:
        gc.unfreeze()
    gc.collect()
    gc.disable()


def let_go() -> None:
    """Turn the collector on."""
    gc.enable()


@contextmanager
def standing_still() -> Iterator[None]:
    """A block between `hold_still` and `let_go`, in a test's process: only what its modules made may be frozen."""
    hold_still(thaw=False)
    try:
        yield
    finally:
        let_go()


def of_ours(one: object) -> str | None:
    """The name of an object of ours, None for any other.

    Ours is an object of a class of the package, a function that is not a module's or class's own, a bound method, a partial
    call, a coroutine or a generator of our code, and a frame of it (kept by a traceback).
    """
    kind = type(one)
    if kind is types.MethodType:
        one, words = one.__func__, "method"  # type: ignore[attr-defined]
        module = getattr(one, "__module__", None)
    elif kind is partial:
        one, words = one.func, "partial"  # type: ignore[attr-defined]
        one = getattr(one, "__func__", one)
        module = getattr(one, "__module__", None)
    elif kind is types.FunctionType:
        words, module = "function", one.__module__
    elif kind in _CODE:
        words, attribute = _CODE[kind]
        code: types.CodeType = getattr(one, attribute)
        return f"{words} of {code.co_qualname}" if _is_ours_by_path(code.co_filename) else None
    else:
        return _of_our_class(kind)
    return f"{words} {module}.{getattr(one, '__qualname__', kind.__qualname__)}" if _is_ours(module) else None


def _of_our_class(kind: type) -> str | None:
    """The name of the objects of a class."""
    if kind is type or kind is property:
        return None
    module = kind.__module__
    return f"{module}.{kind.__qualname__}" if _is_ours(module) else None


def _objects() -> Counter[str]:
    """How many objects of ours there are, by name: `of_ours` of each, which depends on the class alone for most of them."""
    there = gc.get_objects()
    found = Counter(name for one in there if type(one) in _EACH and (name := of_ours(one)) is not None)
    for kind, count in Counter(map(type, there)).items():
        if kind not in _EACH and (name := _of_our_class(kind)) is not None:
            found[name] += count
    return found


#: the word for each kind of running code, and where it keeps its code
_CODE: dict[type, tuple[str, str]] = {
    types.CoroutineType: ("coroutine", "cr_code"), types.GeneratorType: ("generator", "gi_code"),
    types.AsyncGeneratorType: ("async generator", "ag_code"), types.FrameType: ("frame", "f_code"),
}  # fmt: skip
#: the classes whose objects `of_ours` looks at
_EACH = {types.MethodType, partial, types.FunctionType, *_CODE}


def why(before: Held, *, most: int = 6) -> str:
    """What holds the objects of ours beyond `before`, in words. It collects, so nothing can be counted after it."""
    lines = knots(lambda one: of_ours(one) is not None)
    gc.collect()
    now = [one for one in gc.get_objects() if of_ours(one) is not None]
    more = _more(dict(Counter(of_ours(one) for one in now)), before.objects)
    gc.unfreeze()  # a chain begins at a module
    for name in sorted(more, key=more.__getitem__, reverse=True)[:most]:
        newest = next(one for one in reversed(now) if of_ours(one) == name)
        lines.append(f"{more[name]:+d} {name} in use: {chain(newest, ignore=(now,))}")
    return "\n".join(lines)


def _more(now: dict[Any, int], before: dict[Any, int]) -> dict[Any, int]:
    return dict(+(Counter(now) - Counter(before)))


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and module.startswith("reactor_trio") and not module.startswith(OTHER_SIDE)


def _is_ours_by_path(file: str) -> bool:
    return "/reactor_trio/" in file and not any(f"/{part.replace('.', '/')}/" in file for part in OTHER_SIDE)


def _lent(temporary: Path | None) -> Counter[str]:
    """Descriptors, maps, threads, and files of `temporary`, by kind."""
    lent: Counter[str] = Counter()
    for number in os.listdir("/proc/self/fd"):
        try:
            lent[f"descriptor of {_kind(os.readlink(f'/proc/self/fd/{number}'))}"] += 1
        except OSError:  # the one of this list
            continue
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if path.startswith(("memfd:", "dev/shm/")) or path.endswith(" (deleted)"):
            lent[f"map of {_kind(f'/{path}')}"] += 1
    threads = [thread.name for thread in threading.enumerate()]
    lent["threads of Python"] = sum(not name.startswith(IDLE_WORKER) for name in threads)
    lent["other threads"] = len(os.listdir("/proc/self/task")) - len(threads)
    if temporary is not None:
        lent["temporary files"] = sum(1 for _ in temporary.rglob("*"))
    return lent


def _kind(target: str) -> str:
    """What a descriptor or a map refers to, without the number of the single thing."""
    if target.startswith("/memfd:"):
        return "memfd"
    if target.startswith("/dev/shm/"):
        return "shared memory"
    if target.endswith(" (deleted)"):
        return "file without a name"
    return target.partition(":[")[0] if not target.startswith(("/", "anon_inode")) else target


assert sys.platform == "linux", "tests.leftovers reads /proc"
