"""`reactor loadtest`: run many clients against one server and print what they measured as tables."""

from __future__ import annotations

import argparse
import resource
from functools import partial

import msgspec
import trio
from rich import box
from rich.console import Console
from rich.table import Table

from reactor_trio.cli.client_command import target_of, until_signal
from reactor_trio.cli.terminal import FAILED, OK, Terminal, UsageError
from reactor_trio.loadtest import Bars, Load, Shape, Summary, summarise

#: Seconds between two progress lines: on a terminal, where each replaces the last; and elsewhere.
INTERVAL, PLAIN_INTERVAL = 1.0, 10.0
#: File descriptors that this process needs besides its connections.
DESCRIPTORS = 64


def loadtest(options: argparse.Namespace, terminal: Terminal) -> int:
    """Load a server, print the figures and return the exit code. Ctrl-C ends the test with the figures so far.

    Raises UsageError, also if no server answers.
    """
    from reactor_trio.client.connecting import connect
    from reactor_trio.client.decoders import wanted

    shape = Shape(**{name: getattr(options, name) for name in Shape.__struct_fields__})
    target, token = target_of(options)
    at_once = min(options.at_once, shape.sessions * (1 + shape.viewers))
    _allow_descriptors(at_once)
    try:
        video = None if options.video is None else wanted(options.video)
    except ValueError as error:
        raise UsageError(f"--video: {error}") from None
    # No client resumes a session: a lost link must show up as an error.
    opening = partial(connect, target, token=token, video=video, resume=False)
    try:
        load = Load(shape, opening, at_once=at_once, patience=options.patience, decode=options.decode, only=options.command)
    except ValueError as error:
        raise UsageError(f"--at-once: {error}") from None
    terminal.say(_title(target, shape))
    summary = trio.run(_drive, load, terminal)
    if summary.outcomes.get("failed") == summary.clients and not summary.counts.get("sessions"):
        raise UsageError(f"{target}: {', '.join(summary.errors)}; does the server run?", anchor="no-server")
    _print(summary, terminal)
    if options.json is not None:
        try:
            options.json.write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
        except OSError as error:
            raise UsageError(f"--json: {options.json}: {error.strerror}") from error
    missed = summary.missed(Bars(options.max_errors, options.p99_admission, options.p99_first_picture))
    for line in missed:
        terminal.fail(f"a bar was missed: {line}")
    return FAILED if missed else OK


async def _drive(load: Load, terminal: Terminal) -> Summary:
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_show_progress, load, terminal)
        await until_signal(load.run)
        nursery.cancel_scope.cancel()
    return summarise(load.ledger, load.shape, trio.current_time() - began)


async def _show_progress(load: Load, terminal: Terminal) -> None:
    show, interval = (terminal.live, INTERVAL) if terminal.interactive else (terminal.say, PLAIN_INTERVAL)
    while True:
        await trio.sleep(interval)
        show(_progress(load))


def _progress(load: Load) -> str:
    outcomes, errors = load.ledger.outcomes(), load.ledger.errors.total()
    waiting, watching = outcomes.pop("asking", 0), outcomes.pop("watching", 0)
    parts = [f"{watching} watch", f"{waiting} wait", f"{outcomes.total()} of {load.shape.sessions} done"]
    return ", ".join([*parts, f"{errors} errors"] if errors else parts)


def _allow_descriptors(clients: int) -> None:
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
            heading, scale = (name, 1) if name.endswith("fps") else (f"{name}, ms", 1000)
            values = (spread.p50, spread.p95, spread.p99, spread.max)
            table.add_row(heading, str(spread.n), *("-" if each is None else f"{each * scale:.1f}" for each in values))
    return table


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
        late = counts.get("viewers' late", 0)
        lines.append(f"viewers: {counts.get('viewers', 0)}, {late} late pictures")
    if summary.ends:
        lines.append(f"ended by the server: {_listed(summary.ends)}")
    for refusal in summary.refusals:
        lines.append(f"refused {refusal.times} times: {refusal}")
    lines.append(f"errors: {_listed(summary.errors) or '0'}")
    return lines


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items())
