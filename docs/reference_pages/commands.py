"""`commands`: every command of `reactor` with its options, from the parser that reads the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from reactor_trio.cli.command_parser import build_parser
from reference_pages.markdown import table


def commands() -> str:
    """Return a section for each command: what it does, how it is called, and its options."""
    (subparsers,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    said = {choice.dest: choice.help or "" for choice in subparsers._choices_actions}
    return "\n".join(_section(name, said[name], parser) for name, parser in subparsers.choices.items())


def _section(name: str, said: str, parser: argparse.ArgumentParser) -> str:
    parser.formatter_class = _wide
    usage = parser.format_usage().removeprefix("usage: ")
    text = f"## `reactor {name}`\n\n{said[:1].upper()}{said[1:]}.\n\n```text\n{usage}```\n"
    rows = list(_rows(parser))
    return f"{text}\n{table(('option', 'means'), rows)}" if rows else text


def _wide(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=100)  # and not the width of the terminal in which the site is made


def _rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if action.dest == "help":
            continue
        value = "" if action.nargs == 0 else action.metavar or action.dest.upper()
        written = f"{', '.join(action.option_strings)} {value}".strip()
        yield f"`{written}`", (action.help or "") % {"default": action.default}
