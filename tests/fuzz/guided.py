"""The same targets under atheris (libFuzzer for Python), which keeps the inputs that reach new code.

`pip install atheris` brings it for Python 3.11 and 3.12 on Linux; nothing else here needs it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.fuzzing import Judge, Result, Target

_INSTRUMENTED = ["reactor_trio", "h11", "wsproto", "trio_websocket"]


def fuzz_guided(
    target: Target, inputs: int, seed: int, before: Callable[[int, bytes], object], write: Callable[[Result], object]
) -> None:
    """Run `target` with `inputs` inputs; hands the result to `write` and ends the process."""
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: pip install atheris, with Python 3.11 or 3.12")
    import trio
    import trio.testing

    for name in sorted(sys.modules):
        if name.partition(".")[0] in _INSTRUMENTED:
            for function in _functions(sys.modules[name]):
                atheris.instrument_func(function)
    began = time.monotonic()
    judge = Judge(target, before)
    judge.__enter__()

    async def once(data: bytes) -> None:
        async with target.opened() as run:
            await judge.judge(run, data)

    def one(data: bytes) -> None:
        trio.run(once, data, clock=trio.testing.MockClock(autojump_threshold=0))
        if judge.result.inputs >= inputs:
            judge.result.seconds = time.monotonic() - began
            write(judge.result)

    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(target.seeds()):
            (Path(folder) / str(number)).write_bytes(data)
        atheris.Setup(
            [
                sys.argv[0],
                folder,
                f"-atheris_runs={inputs}",
                f"-seed={seed % 2**31 or 1}",
                "-max_len=8192",
                "-timeout=120",
                "-rss_limit_mb=0",
                "-verbosity=0",
            ],
            one,
        )
        atheris.Fuzz()


def _functions(module: object) -> list[Callable[..., object]]:
    """The functions and methods that a module defines."""
    found: list[Callable[..., object]] = []
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != getattr(module, "__name__", ""):
            continue
        members = list(vars(value).values()) if isinstance(value, type) else [value]
        found += [member for member in members if hasattr(member, "__code__") and not hasattr(member, "__wrapped__")]
    return found
