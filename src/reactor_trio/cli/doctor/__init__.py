"""`reactor doctor`: find what is wrong with an installation, a machine and a project before the first client does.

Each check is a function that examines one thing and returns findings. No check changes anything, runs a model's `load` or
keeps open what it opened.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from reactor_trio.cli.doctor.finding import Finding, ok, warning
from reactor_trio.cli.doctor.installation import check_codecs, check_gpu, check_packages, check_python, our_metadata
from reactor_trio.cli.doctor.machine import check_clock, check_folder, check_limits, check_port, check_reach, check_secrets
from reactor_trio.cli.doctor.project_checks import check_manifest, check_model, check_saves, check_weights
from reactor_trio.cli.doctor.tls_checks import check_tls
from reactor_trio.cli.terminal import FAILED, OK, USAGE, Terminal, UsageError
from reactor_trio.configuration.manifest import MANIFEST_NAME, Manifest
from reactor_trio.configuration.settings import Settings

COLOURS = {"ok": "green", "warning": "yellow", "problem": "bold red"}

#: Bytes of a recording of one hour at 6 Mbit/s.
RECORDING_ROOM = 6_000_000 // 8 * 3600

#: Checks whose problems exit with `USAGE`, as `reactor run` does with a wrong manifest.
MANIFEST_CHECKS = {"manifest", "model"}


def doctor(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run all checks and print the findings. Returns 0 without a problem, 2 if the manifest or the model has one, else 1."""
    if options.keyfile is not None and options.certfile is None:
        raise UsageError("--keyfile: give --certfile, too")
    found: list[Finding] = []
    show = _shown_by(terminal)
    for finding in examine(options.path, options.certfile, options.keyfile):
        found.append(finding)
        if not options.json:
            show(finding)
    if options.json:
        terminal.give(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
    else:
        terminal.say(_summary(found))
    problems = {finding.check for finding in found if finding.verdict == "problem"}
    if not problems:
        return OK
    return USAGE if problems & MANIFEST_CHECKS else FAILED


def examine(path: Path | None, certfile: Path | None = None, keyfile: Path | None = None) -> Iterator[Finding]:
    """Run the checks one after the other. `path` is the project's folder; None means this folder, if it has a manifest."""
    manifest: Manifest | None = None
    described = our_metadata()
    if described is None:
        yield warning("packages", "reactor-trio is not installed, so requirements are unknown", "pip install reactor-trio")
    else:
        python, requirements = described
        yield check_python(python)
        yield from check_packages(requirements)
    if path is None and not Path(MANIFEST_NAME).is_file():
        yield ok("manifest", f"no {MANIFEST_NAME} here, so no project was checked (--path names one)")
    else:
        manifest, finding = check_manifest(path or Path())
        yield finding
    if manifest is not None:
        yield check_model(manifest)
        yield from (found for found in (check_saves(manifest), check_weights(manifest)) if found is not None)
    settings = Settings() if manifest is None else manifest.settings
    if certfile is None and (tls := settings.tls) is not None:
        certfile, keyfile = Path(tls.certfile), None if tls.keyfile is None else Path(tls.keyfile)
    yield from check_codecs(settings.codec)
    yield from check_gpu()
    yield from check_limits(settings.limits.connections, settings.uploads.files)
    yield check_clock()
    yield check_port(settings.host, settings.port)
    yield from check_reach(
        settings.host, settings.hosts, settings.origins, auth=settings.auth is not None, tls=certfile is not None
    )
    folder = Path() if manifest is None else manifest.path
    uploads = settings.uploads
    yield check_folder("uploads", Path(uploads.folder or tempfile.gettempdir()), uploads.total_size)
    if settings.record is not None:
        yield check_folder("recordings", Path(settings.record), RECORDING_ROOM)
    yield from check_secrets(msgspec.to_builtins(settings.auth), folder)
    if certfile is not None:
        yield check_tls(certfile, keyfile)


def _shown_by(terminal: Terminal) -> Callable[[Finding], object]:
    """Return a function that prints a finding: in coloured columns on a terminal, elsewhere as one plain line."""
    if not terminal.interactive:
        return lambda finding: terminal.say(f"{finding.verdict:8} {finding.check:10} {_text(finding)}")
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=terminal.out, highlight=False)

    def show(finding: Finding) -> None:
        line = Table.grid(padding=(0, 1))
        line.add_column(width=8, style=COLOURS[finding.verdict])
        line.add_column(width=10, style="bold")
        line.add_column(overflow="fold")
        line.add_row(finding.verdict, finding.check, Text(_text(finding)))
        console.print(line)

    return show


def _text(finding: Finding) -> str:
    return f"{finding.text}; {finding.remedy}" if finding.remedy else finding.text


def _summary(found: Sequence[Finding]) -> str:
    counts = {verdict: sum(finding.verdict == verdict for finding in found) for verdict in ("problem", "warning")}
    parts = [f"{count} {verdict}{'' if count == 1 else 's'}" for verdict, count in counts.items() if count]
    return ", ".join(parts) if parts else "all is well"
