"""The wall clock, which jumps, is read only to name the time of day: in log lines, file names and the expiry of tokens."""

from __future__ import annotations

import ast
from pathlib import Path

import reactor_trio

PACKAGE = Path(reactor_trio.__file__).parent

#: modules that tell people or other machines the time of day, and what for
MAY = {
    "cli/log_output.py": "the time of a log entry",
    "server/session_recording.py": "the name of a recording",
    "recording/timeline.py": "when a recording began",
    "edge/tickets.py": "expiry",
    "server/tracing.py": "when a span began, as OpenTelemetry wants it",
    "cli/doctor/tls_checks.py": "expiry of a certificate",
    "cli/world_command.py": "writes the time in a file as a date",
    "world_store/store.py": "when a world was saved, and its expiry",
    "testing/world_losses.py": "finds a model that keeps it",
}


def wall_clock_readers() -> set[str]:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
                and (node.value.id, node.attr) in {
                    ("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"),
                    ("datetime", "fromtimestamp"), ("date", "today"),
                }
            ):  # fmt: skip
                found.add(str(path.relative_to(PACKAGE)))
    return found


def test_only_the_listed_modules_read_the_wall_clock():
    assert wall_clock_readers() <= set(MAY), wall_clock_readers() - set(MAY)
