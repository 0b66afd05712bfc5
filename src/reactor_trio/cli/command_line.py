"""Runs one command line: parses it, imports the module of its command, and explains what fails."""

from __future__ import annotations

from pkgutil import resolve_name

from reactor_trio.cli.command_parser import parse
from reactor_trio.cli.inherited_sockets import Inherited
from reactor_trio.cli.terminal import READER_LEFT, ReaderLeft, Terminal
from reactor_trio.interpreter import importing
from reactor_trio.standard_streams import optional_output


def run_command_line(arguments: list[str]) -> int:
    """See `main`. Raises KeyboardInterrupt."""
    with optional_output():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
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
    except ReaderLeft:
        return READER_LEFT
    except (Exception, BaseExceptionGroup) as error:
        return terminal.explain(error, debug=debug, place=place)
