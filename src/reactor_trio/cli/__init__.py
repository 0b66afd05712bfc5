"""The command line: `reactor init`, `run`, `schema`, `doctor`, `ticket`, `client` and others (`docs/reference/cli.md`).

Exit codes: 0 success, 1 the model failed, 2 a mistake in the command line or the manifest, or no place for what was asked
for, 70 the runtime itself failed, 130 Ctrl-C, 141 the reader of what was asked for has left. An error is one line on stderr;
`--debug` adds the traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from reactor_trio.interpreter import importing

#: exit code of a program that Ctrl-C has ended
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        argv: the arguments without the program's name; None reads `sys.argv`. An empty list means `--help`.

    Raises SystemExit, and only for `--help` and `--version`.
    """
    try:
        with importing():  # here and not above, so that Ctrl-C meanwhile gives no traceback
            from reactor_trio.cli.command_line import run_command_line
        return run_command_line(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return INTERRUPTED
