"""Runs a page: its blocks from top to bottom, in an empty folder."""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
import types
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from itertools import zip_longest
from pathlib import Path

import trio.testing
from tests.docs.blocks import formats, repository, servers
from tests.docs.blocks.notebook import notebook
from tests.docs.blocks.page import Block, blocks_of
from tests.docs.blocks.shell import Shell, with_free_ports
from tests.support.free_port import free_port

#: a page that goes on from another one, as the pages of `learn` do: its reader has the files of that page
FILES_OF = re.compile(r"^<!-- files of ([\w./-]+\.md) -->$", re.MULTILINE)
#: what the reader of a page has done before it; nothing is said of it if it works
BEFORE = re.compile(r"^<!-- before: (.+) -->$", re.MULTILINE)
#: ports that pages name; each page has free ones in their places. The first is that of a server without an option
PORTS = ("8080", "8081", "8082", "5173", "8000")


def run_page(page: Path, folder: Path) -> None:
    """Run the blocks, then the tests that they define, then see each server that still runs, and stop it.

    Raises `BlockFailed`, whose text begins with page and line.
    """
    blocks = blocks_of(page)
    text = "".join(block.text for block in blocks if block.not_run is None)
    ports = {port: str(free_port()) for port in PORTS if port == PORTS[0] or re.search(rf"\b{port}\b", text)}
    save_files_of_earlier_pages(page, folder, ports)
    with Shell(folder, ports, servers.see) as shell:
        _what_was_before(page, shell)
        _run_blocks(page, blocks, shell, ports)


def _run_blocks(page: Path, blocks: list[Block], shell: Shell, ports: dict[str, str]) -> None:
    folder = shell.folder
    with chdir(folder), notebook() as cells, _module(page, folder) as module:
        printed: tuple[Block, str] | None = None  # by the block above
        shown: list[tuple[str, Block]] = []  # in cells
        for block, below in zip_longest(blocks, blocks[1:]):
            before, printed = printed, None
            _save(block, folder, ports)
            if block.not_run is not None:
                continue
            if block.in_repository:
                repository.check(block)
            elif block.language == "sh":
                printed = block, shell.run(block, shows_error=below is not None and _shows_error(below))
            elif block.language == "text" and before is not None:
                _compare(block, with_free_ports(block.text, ports), *before)
            elif block.language == "python":
                cells.begin_cell()
                _python(block, module, ports)
                shown += [(url, block) for url in cells.new_frames()]
            else:
                formats.check(block, folder)
        _run_tests(page, module)
        for url, block in shown:
            servers.see_page(url, block)
        shell.stop_servers()


def save_files_of_earlier_pages(page: Path, folder: Path, ports: dict[str, str]) -> None:
    """Save what the reader has from the pages that the page goes on from: the last text of each file."""
    for name in FILES_OF.findall(page.read_text(encoding="utf-8")):
        earlier = page.parent / name
        save_files_of_earlier_pages(earlier, folder, ports)
        for block in blocks_of(earlier):
            _save(block, folder, ports)


def _what_was_before(page: Path, shell: Shell) -> None:
    text = page.read_text(encoding="utf-8")
    for found in BEFORE.finditer(text):
        shell.run(Block(page, "sh", found[1], text.count("\n", 0, found.start()) + 1, None, None))


def _save(block: Block, folder: Path, ports: dict[str, str]) -> None:
    if block.file is not None:
        sys.modules.pop(Path(block.file).stem, None)  # another test of this process may have imported its own of that name
        (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
        (folder / block.file).write_text(with_free_ports(block.text, ports), encoding="utf-8")


@contextmanager
def _module(page: Path, folder: Path) -> Iterator[types.ModuleType]:
    """The module of the page's blocks without a file. Its imports find the page's files, which are forgotten at the end."""
    module = types.ModuleType(f"docs_{page.stem.replace('-', '_')}")
    module.__file__ = str(page)
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(folder))
    try:
        yield module
    finally:
        sys.path.remove(str(folder))
        del sys.modules[module.__name__]
        for name, each in list(sys.modules.items()):
            if (getattr(each, "__file__", None) or "").startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


def _python(block: Block, module: types.ModuleType, ports: dict[str, str]) -> None:
    """Run the block in the page's module; save it only, if it has a file. A traceback points into the page."""
    lines = "\n" * (block.line - 1)
    try:
        code = compile(lines + with_free_ports(block.text, ports), str(block.page), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise block.failed(f"SyntaxError: {error.msg}", (error.lineno or block.line) - block.line + 1) from None
    if block.file is None:
        with _placed(block):
            exec(code, vars(module))


@contextmanager
def _placed(block: Block) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _at(block, error) from error


def _at(block: Block, error: Exception) -> Exception:
    """The error with the last line of the page in its traceback."""
    within = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(block.page)]
    line = within[-1].lineno if within else None
    return block.failed(f"{type(error).__name__}: {error}", (line or block.line) - block.line + 1)


def _run_tests(page: Path, module: types.ModuleType) -> None:
    for name, function in list(vars(module).items()):
        if not (name.startswith("test_") and inspect.isfunction(function)):
            continue
        code = function.__code__
        block = Block(page, "python", "", code.co_firstlineno, None, None)
        with _placed(block):
            if inspect.iscoroutinefunction(function):
                given = {"autojump_clock": None} if "autojump_clock" in inspect.signature(function).parameters else {}
                trio.run(lambda function=function, given=given: function(**given),
                         clock=trio.testing.MockClock(autojump_threshold=0))  # fmt: skip
            else:
                function()


def _compare(expected: Block, text: str, commands: Block, said: str) -> None:
    """The commands say what the page says. What follows a ready server does not matter.

    `...` stands for anything within a line, and as a line of its own for any lines, or none.
    """
    pattern = "".join(_pattern(line) for line in _lines(text)) + r"(?:.*\n)*" * ("ready: http" in said)
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(said))) is None:
        raise expected.failed(f"the commands at line {commands.line} say:\n{said}")


def _pattern(line: str) -> str:
    return r"(?:.*\n)*" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def _shows_error(block: Block) -> bool:
    """Whether a page says below a command with which error it ends."""
    return block.language == "text" and any(line.startswith("reactor: ") for line in block.text.splitlines())
