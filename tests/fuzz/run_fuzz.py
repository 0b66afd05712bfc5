"""`scripts/fuzz`: each target in a process of its own, so that a crash or hang of native code is a finding too."""

from __future__ import annotations

import argparse
import hashlib
import mmap
import os
import pickle
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.fuzzing import LONGEST, Crash, Judge, Result, Target, fuzz, table

#: seconds without an input done after which a target counts as hung
HUNG = 120.0
#: bytes of address space of one target's process
MEMORY = 12 * 2**30
_HEAD = 16


def targets() -> dict[str, Target]:
    """All targets by name. A new one is a class in one of the lists."""
    from tests.fuzz.fuzz_client import CLIENT_TARGETS
    from tests.fuzz.fuzz_server import SERVER_TARGETS

    return {target.name: target for target in (make() for make in (*SERVER_TARGETS, *CLIENT_TARGETS))}


def main() -> int:
    """The exit code: 1 if something was found."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", help=f"of {', '.join(targets())}; by default all")
    parser.add_argument("--inputs", type=int, default=100_000, help="over all targets that are named")
    parser.add_argument("--seed", type=int, help="the same seed gives the same inputs; by default a random one, printed")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    parser.add_argument("--crashes", type=Path, default=Path("fuzz-crashes"), help="where inputs that crashed are written")
    parser.add_argument("--guided", action="store_true", help="by coverage, with atheris (Python 3.11 and 3.12)")
    parser.add_argument("--replay", type=Path, help="run the one input in this file, which a crash has left")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    known = targets()
    if unknown := [name for name in arguments.target if name not in known]:
        parser.error(f"no target {unknown[0]}; there are {', '.join(known)}")
    chosen = [known[name] for name in arguments.target or known]
    if arguments.child is not None:
        return _child(chosen[0], arguments.inputs, arguments.seed, arguments.child, arguments.guided)
    if arguments.replay is not None:
        result = _replay(chosen[0], arguments.replay.read_bytes())
        print(result.outcomes.most_common(1)[0][0], *(crash.what for crash in result.crashes), sep="\n")
        return 1 if result.crashes else 0
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    total = sum(target.share for target in chosen)
    waiting = [(target, max(1, arguments.inputs * target.share // total)) for target in chosen]
    results: list[Result] = []
    running: list[_Run] = []
    try:
        while waiting or running:
            while waiting and len(running) < arguments.jobs:
                running.append(_Run(*waiting.pop(0), seed, arguments.guided))
            time.sleep(0.2)
            for run in [run for run in running if run.over()]:
                running.remove(run)
                result = run.result()
                results.append(result)
                print(table([result]).splitlines()[1], flush=True)
                _keep(result, arguments.crashes)
    finally:
        for run in running:
            run.process.kill()
    print("\n" + table(results))
    return 1 if any(result.crashes for result in results) else 0


class _Run:
    """One target's process. What it is at stands in a file that both have mapped."""

    def __init__(self, target: Target, inputs: int, seed: int, guided: bool) -> None:
        self.target, self.inputs = target, inputs
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        self._file = Path(self._folder.name) / "result"
        with open(self._file.with_suffix(".now"), "wb") as now:
            now.truncate(_HEAD + LONGEST)
        with open(self._file.with_suffix(".now"), "r+b") as now:
            self._now = mmap.mmap(now.fileno(), 0)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `result`
        self._began = self._moved = time.monotonic()
        self._number = -1
        command = [sys.executable, "-m", "tests.fuzz.run_fuzz", target.name, "--inputs", str(inputs), "--seed", str(seed)]
        self.process = subprocess.Popen(
            [*command, "--child", str(self._file), *(["--guided"] if guided else [])],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=self._folder.name,
        )
        self._hung = False

    def over(self) -> bool:
        """Whether it has ended; one that hangs is ended."""
        number = int.from_bytes(self._now[:8], "little")
        if number != self._number:
            self._number, self._moved = number, time.monotonic()
        elif time.monotonic() - self._moved > HUNG:
            self._hung = True
            self.process.kill()
        return self.process.poll() is not None

    def result(self) -> Result:
        """What it found; where it did not come to its end, the input that it was at."""
        if self._file.exists():
            with open(self._file, "rb") as file:
                result: Result = pickle.load(file)
        else:
            size = int.from_bytes(self._now[8:16], "little")
            self._log.seek(0)
            what = f"hung for {HUNG:g} s" if self._hung else f"the process ended with {self.process.returncode}"
            text = f"{what}\n{self._log.read()[-4000:].decode(errors='replace')}"
            result = Result(self.target.name, self._number, time.monotonic() - self._began)
            result.crashes.append(Crash(self._now[_HEAD : _HEAD + size], text))
        self._now.close()
        self._log.close()
        self._folder.cleanup()
        return result


def _child(target: Target, inputs: int, seed: int, file: Path, guided: bool) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(file.with_suffix(".now"), "r+b") as opened:
        now = mmap.mmap(opened.fileno(), 0)

    def before(number: int, data: bytes) -> None:
        now[8:16] = len(data).to_bytes(8, "little")
        now[_HEAD : _HEAD + len(data)] = data
        now[:8] = number.to_bytes(8, "little")

    if guided:
        from tests.fuzz.guided import fuzz_guided

        fuzz_guided(target, inputs, seed, before, lambda result: _write(file, result))  # ends the process
    _write(file, fuzz(target, inputs, seed, before))
    return 0


def _write(file: Path, result: Result) -> None:
    with open(file.with_suffix(".part"), "wb") as part:
        pickle.dump(result, part)
    os.replace(part.name, file)


def _replay(target: Target, data: bytes) -> Result:
    import trio

    async def once() -> None:
        async with target.opened() as run:
            await judge.judge(run, data)

    with Judge(target) as judge:
        trio.run(once, clock=trio.testing.MockClock(autojump_threshold=0))
    return judge.result


def _keep(result: Result, folder: Path) -> None:
    for crash in result.crashes:
        folder.mkdir(exist_ok=True)
        path = folder / f"{result.target}-{hashlib.sha256(crash.data).hexdigest()[:12]}"
        path.write_bytes(crash.data)
        print(f"  {crash.what.strip()}\n  {crash.data[:200]!r}\n  scripts/fuzz {result.target} --replay {path}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
