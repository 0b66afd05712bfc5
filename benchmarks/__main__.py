"""Runs benchmarks by name, prints their tables, and fails if one misses its bar."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks import (
    against,
    comeback,
    compare,
    convert,
    cycles,
    day,
    fanout,
    gap,
    growth,
    isolation,
    links,
    media,
    overhead,
    pacing,
    page,
    push,
    ranks,
    render,
    replicas,
    rewinds,
    sessions,
    startup,
    steps,
    storm,
    traces,
    viewers,
    worlds,
)
from benchmarks.peers import SOURCE
from benchmarks.report import Report, machine

BENCHMARKS = {
    "pacing": pacing, "overhead": overhead, "cycles": cycles, "convert": convert, "render": render, "push": push,
    "links": links, "media": media, "page": page, "viewers": viewers, "sessions": sessions, "growth": growth,
    "isolation": isolation, "ranks": ranks, "startup": startup, "steps": steps, "storm": storm, "traces": traces,
    "gap": gap, "fanout": fanout, "compare": compare, "day": day, "replicas": replicas, "comeback": comeback,
    "worlds": worlds, "rewinds": rewinds,
}  # fmt: skip
#: those that take an option of their own
TAKES = {"links": "codec", "startup": "python", "compare": "workload"}
#: those with a `turn`, which `--against` measures
TURNS = ("gap", "fanout", "isolation")


def main() -> int:
    """Exit code 0 if every bar was met, 1 if one was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, "all", []], metavar="|".join([*BENCHMARKS, "all"]))
    parser.add_argument("--json", type=Path, metavar="F", help="write machine and figures to this file, too")
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples: to see that it works, not to compare")
    parser.add_argument("--codec", default="h264", help="for links (default: %(default)s)")
    parser.add_argument("--python", default=sys.executable, help="for startup: another environment's interpreter")
    parser.add_argument("--workload", action="append", default=[], help="for compare: only this one, and no scenarios")
    parser.add_argument("--against", type=Path, metavar="OLD/src", help="for gap, fanout, isolation: another tree in turns")
    parser.add_argument("--pairs", type=int, default=against.PAIRS, help="turns of each tree (default: %(default)s)")
    options = parser.parse_args()
    chosen = list(BENCHMARKS) if not options.names or "all" in options.names else options.names
    if options.against is not None:
        if not set(chosen) <= set(TURNS):
            parser.error(f"--against compares {', '.join(TURNS)}; name some of them")
        if not (options.against / "reactor_trio").is_dir():
            parser.error(f"--against: {options.against} has no folder reactor_trio")
        if options.pairs < 1:
            parser.error("--pairs: at least 1")
    facts = machine()
    print(*(f"{key}: {value}" for key, value in facts.items()), sep="\n")
    reports: list[Report] = []
    for name in chosen:
        report = Report(name)
        if options.against is not None:
            trees = options.against.resolve(), Path(SOURCE)
            against.compare(report, f"benchmarks.{name}", *trees, pairs=options.pairs, quick=options.quick)
        else:
            given = {TAKES[name]: getattr(options, TAKES[name])} if name in TAKES else {}
            BENCHMARKS[name].run(report, quick=options.quick, **given)
        reports.append(report)
        if options.json is not None:
            document = {"machine": facts, "quick": options.quick, "benchmarks": [report.as_dict() for report in reports]}
            options.json.write_text(json.dumps(document, indent=2) + "\n")
    return int(any(not bar["met"] for report in reports for bar in report.bars))


sys.exit(main())
