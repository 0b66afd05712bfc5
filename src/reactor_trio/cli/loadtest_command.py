"""`reactor loadtest`: run many clients against one server and print what they measured as tables."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from reactor_trio.cli.client_command import full_url, until_signal
from reactor_trio.cli.terminal import FAILED, OK, Terminal, UsageError
from reactor_trio.loadtest import Bars, Load, Shape, Summary, summarise

if TYPE_CHECKING:
    from reactor_trio.loadtest.samples import Distribution

__all__ = ["loadtest"]

#: Seconds between two progress lines: on a terminal, where each replaces the last; and elsewhere.
INTERVAL, PLAIN_INTERVAL = 1.0, 10.0
#: File descriptors that this process needs besides its connections.
DESCRIPTORS = 64
VIEWERS_LATE = "viewers' late"


def loadtest(
    url: str,
    shape: Shape,
    terminal: Terminal,
    *,
    bars: Bars,
    at_once: int,
    patience: float,
    decode: bool,
    only: Sequence[str],
    video: Sequence[str] | None,
    token: str | None,
    json: Path | None,
) -> int:
    """Load the server at `url`, print the figures and return the exit code. Ctrl-C ends the test with the figures so far.

    Raises UsageError, also if no server answers at `url`.
    """
    from reactor_trio.client.connecting import connect
    from reactor_trio.client.urls import without_token

    target, in_url = without_token(full_url(url))
    token = in_url or token or os.environ.get("REACTOR_TOKEN") or None
    if not 0 <= shape.vanish <= 1:
        raise UsageError(f"--vanish {shape.vanish:g}: expected a share from 0 to 1")
    at_once = min(at_once, shape.sessions * (1 + shape.viewers))
    _make_room(at_once)

    def opening(*, token: str | None = token, **options: object) -> object:
        # No client resumes a session: a lost link must show up as an error.
        return connect(target, token=token, video=video, resume=False, **options)  # type: ignore[arg-type]

    try:
        load = Load(shape, opening, at_once=at_once, patience=patience, decode=decode, only=only)  # type: ignore[arg-type]
    except ValueError as error:
        raise UsageError(f"--at-once: {str(error).partition(': ')[2]}") from None
    terminal.say(_title(target, shape))
    summary = anyio.run(partial(_drive, load, terminal), backend="trio")
    if summary.outcomes.get("failed") == summary.clients and not summary.counts.get("sessions"):
        raise UsageError(f"{target}: cannot connect: {', '.join(summary.errors)}; does the server run?")
    _print(summary, terminal)
    if json is not None:
        try:
            json.write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
        except OSError as error:
            raise UsageError(f"--json: {json}: {error.strerror}") from error
    missed = summary.missed(bars)
    for line in missed:
        terminal.fail(f"a bar was missed: {line}")
    return FAILED if missed else OK


async def _drive(load: Load, terminal: Terminal) -> Summary:
    began = anyio.current_time()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_tell_progress, load, terminal)
            await until_signal(load.run)
            tasks.cancel_scope.cancel()
    finally:
        summary = summarise(load.ledger, load.shape, anyio.current_time() - began)
    return summary


async def _tell_progress(load: Load, terminal: Terminal) -> None:
    interactive = terminal.interactive
    while True:
        await anyio.sleep(INTERVAL if interactive else PLAIN_INTERVAL)
        (terminal.live if interactive else terminal.say)(_progress(load))


def _progress(load: Load) -> str:
    outcomes, errors = load.ledger.outcomes(), load.ledger.errors.total()
    waiting, watching = outcomes.pop("asking", 0), outcomes.pop("watching", 0)
    parts = [f"{watching} watch", f"{waiting} wait", f"{outcomes.total()} of {load.shape.sessions} done"]
    return ", ".join([*parts, f"{errors} errors"] if errors else parts)


def _make_room(clients: int) -> None:
    """Raise this process's descriptor limit to fit the clients. Raises UsageError if the hard limit is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = clients + DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise UsageError(f"--at-once: {clients} clients need {needed} open files, the system allows {hard} (ulimit -n)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _title(target: str, shape: Shape) -> str:
    rate = "" if shape.arrival == "all-at-once" else f" ({shape.rate:g}/s)"
    return (
        f"{target}: {shape.sessions} sessions, {shape.arrival}{rate}, {shape.lengths} length of {shape.length:g} s, "
        f"seed {shape.seed}"
    )


# ---- tables -----------------------------------------------------------------------------------------------------------


def _print(summary: Summary, terminal: Terminal) -> None:
    if terminal.interactive:
        terminal.live("")
    # A pipe has no width, so rich needs one that fits every line.
    console = Console(file=terminal.out, highlight=False, width=None if terminal.interactive else 100)
    console.print(_figures(summary))
    for line in _lines(summary):
        console.print(line, markup=False, soft_wrap=True)
    for line in summary.advice():
        console.print(line, markup=False, soft_wrap=True, style="bold")


def _figures(summary: Summary) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    for column in ("n", "p50", "p95", "p99", "max"):
        table.add_column(column, justify="right")
    for name, spread in summary.figures.items():
        if spread.n:
            table.add_row(name if name.endswith("fps") else f"{name}, ms", *_cells(name, spread))
    return table


def _cells(name: str, spread: Distribution) -> list[str]:
    scale, digits = (1, 1) if name.endswith("fps") else (1000, 1)
    values = [spread.p50, spread.p95, spread.p99, spread.max]
    return [str(spread.n), *("-" if value is None else f"{value * scale:.{digits}f}" for value in values)]


def _lines(summary: Summary) -> list[str]:
    counts = summary.counts
    pictures, seconds = counts.get("pictures", 0), max(summary.seconds, 1e-9)
    lines = [
        f"clients: {summary.clients} in {summary.seconds:.1f} s: {_listed(summary.outcomes)}",
        f"pictures: {pictures}, {counts.get('late', 0)} late by more than two intervals, "
        f"{counts.get('missing', 0)} missing, {counts.get('bytes', 0) * 8 / seconds / 1e6:.1f} Mbit/s in all",
    ]
    if summary.last_position:
        lines.append(f"queue: position {summary.last_position} at most")
    if counts.get("without a picture"):
        lines.append(f"sessions without a picture: {counts['without a picture']}")
    if summary.commands:
        lines.append(f"commands: {_listed(summary.commands)}")
    for name, why in summary.left_out.items():
        lines.append(f"command {name} was never sent: {why}")
    if summary.shape.viewers:
        lines.append(f"viewers: {counts.get('viewers', 0)}, {counts.get(VIEWERS_LATE, 0)} late pictures")
    if summary.ends:
        lines.append(f"ended by the server: {_listed(summary.ends)}")
    for refusal in summary.refusals:
        lines.append(f"refused {refusal.times} times: {refusal}")
    lines.append(f"errors: {_listed(summary.errors) or '0'}")
    return lines


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items())
