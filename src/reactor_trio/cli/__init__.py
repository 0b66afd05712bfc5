"""The command line: `reactor init`, `run`, `schema`, `doctor`, `ticket`, `client` and others (`docs/cli.md`).

Exit codes: 0 success, 1 the model failed, 2 a mistake in the command line or the manifest, or no place for what was asked
for, 70 the runtime itself failed, 141 the reader of what was asked for has left. An error is one line on stderr; `--debug`
adds the traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pkgutil import resolve_name

from reactor_trio.interpreter import importing

with importing():
    from reactor_trio.cli.command_parser import parse
    from reactor_trio.cli.inherited_sockets import Inherited
    from reactor_trio.cli.terminal import READER_LEFT, ReaderLeft, Terminal
    from reactor_trio.standard_streams import optional_output


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        argv: the arguments without the program's name; None reads `sys.argv`. An empty list means `--help`.

    Raises SystemExit, and only for `--help` and `--version`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    with optional_output():
        return _main(arguments)


def _main(arguments: list[str]) -> int:
    inherited = Inherited.take()
    terminal = Terminal(report=inherited.report)
    place = None
    # Read before parsing: the parser and the import of a command can fail, too.
    debug = "--debug" in arguments
    try:
        try:
            options = parse(arguments)
        except SystemExit:
            terminal.give("")  # raises if the help is lost
            raise
        options.inherited = inherited
        place = getattr(options, "path", None)
        with importing():
            run = resolve_name(options.run)
        code: int = run(options, terminal)
        return code
    except KeyboardInterrupt:
        return 130
    except ReaderLeft:
        return READER_LEFT
    except (Exception, BaseExceptionGroup) as error:
        return terminal.explain(error, debug=debug, place=place)
