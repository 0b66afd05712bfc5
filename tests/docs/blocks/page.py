"""The code blocks of a page of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[3]
LANGUAGES = {"python", "sh", "yaml", "json", "ts", "tsx", "js", "html", "css", "toml", "text"}
#: how the first line of a block names the file that the reader saves it as
FILE = re.compile(r"(?:#|//|<!--|/\*) ([\w-][\w./-]*\.\w+)(?: -->| \*/)?")
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")
IN_REPOSITORY = "<!-- in the repository -->"


class BlockFailed(Exception):
    """A block does not do what the page says. The text begins with the page and the line."""

    def __init__(self, page: Path, line: int, what: str) -> None:
        where = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page.name
        super().__init__(f"{where}:{line}: {what}")


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    text: str
    #: of the block's first line of code, from 1
    line: int
    #: what the reader saves it as
    file: str | None
    #: why it does not run; None if it runs
    not_run: str | None
    #: whether its commands are the repository's, which are checked and not run
    in_repository: bool = False

    def failed(self, what: str, line: int = 1) -> BlockFailed:
        """The error for a line of this block, counted from 1."""
        return BlockFailed(self.page, self.line + line - 1, what)


def blocks_of(page: Path) -> list[Block]:
    """The page's fenced blocks, in order. One without a known language is an error, as is a reason without a block."""
    return list(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    reason: str | None = None
    in_repository, said_at = False, 0
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block" and (found := NOT_RUN.search(token.content)):
            reason, said_at = found[1], line
        elif token.type == "html_block" and IN_REPOSITORY in token.content:
            in_repository, said_at = True, line
        elif token.type == "fence" and not token.info.startswith("{"):
            yield _block(page, token.info.strip(), token.content, line + 1, reason, in_repository)
            reason, in_repository, said_at = None, False, 0
        elif said_at and token.nesting >= 0:
            break
    if said_at:
        what = "not run" if reason else "in the repository"
        raise BlockFailed(page, said_at, f'"{what}" stands right above the block that it is about')


def _block(page: Path, language: str, text: str, line: int, not_run: str | None, in_repository: bool) -> Block:
    if language not in LANGUAGES:
        known = ", ".join(sorted(LANGUAGES))
        raise BlockFailed(page, line - 1, f"a block says what it is, one of {known}: not {language!r}")
    named = None if language in ("sh", "text") else FILE.fullmatch(text.partition("\n")[0].rstrip())
    return Block(page, language, text, line, named and named[1], not_run, in_repository)
