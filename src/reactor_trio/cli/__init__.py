"""The command line: `reactor init`, `run`, `schema`, `doctor`, `ticket`, `client` and others (`docs/cli.md`).

Exit codes: 0 success, 1 the model failed, 2 a mistake in the command line or the manifest, 70 the runtime itself failed.
An error is one line on stderr; `--debug` adds the traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pkgutil import resolve_name

from reactor_trio.interpreter import importing

with importing():
    from reactor_trio.cli.command_parser import parse
    from reactor_trio.cli.inherited_sockets import Inherited
    from reactor_trio.cli.terminal import Terminal


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        argv: the arguments without the program's name; None reads `sys.argv`. An empty list means `--help`.

    Raises SystemExit, and only for `--help` and `--version`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    inherited = Inherited.take()
    terminal = Terminal(report=inherited.report)
    place = None
    # Read before parsing: the parser and the import of a command can fail, too.
    debug = "--debug" in arguments
    try:
        options = parse(arguments)
        options.inherited = inherited
        place = getattr(options, "path", None)
        with importing():
            run = resolve_name(options.run)
        code: int = run(options, terminal)
        return code
    except KeyboardInterrupt:
        return 130
    except (Exception, BaseExceptionGroup) as error:
        return terminal.explain(error, debug=debug, place=place)
