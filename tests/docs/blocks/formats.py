"""Blocks that are read, not run: YAML, JSON, JavaScript, HTML. A mistake is an error at the block's line."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from tests.docs.blocks.page import Block
from tests.support.web_client import node_program

from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.errors import ManifestError

#: elements without an end
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

#: what stands in files that a manifest names
PNG = b"\x89PNG\r\n\x1a\n"
FILES = {".png": PNG, ".webp": PNG, ".yml": b"{}"}


def check(block: Block, folder: Path) -> None:
    """Parse the block; as a manifest, if it is saved as one in `folder`."""
    match block.language:
        case "yaml":
            _yaml(block, folder)
        case "json":
            try:
                json.loads(block.text)
            except json.JSONDecodeError as error:
                raise block.failed(f"no JSON: {error.msg}", error.lineno) from None
        case "toml":
            try:
                tomllib.loads(block.text)
            except tomllib.TOMLDecodeError as error:
                raise block.failed(f"no TOML: {error}") from None
        case "js":
            _javascript(block, block.text, 1)
        case "html":
            _html(block)


def _yaml(block: Block, folder: Path) -> None:
    try:
        value = yaml.safe_load(block.text)
    except yaml.MarkedYAMLError as error:
        raise block.failed(f"no YAML: {error.problem}", error.problem_mark.line + 1 if error.problem_mark else 1) from None
    try:
        if block.file is not None and Path(block.file).name == "reactor.yaml":
            load_manifest((folder / block.file).parent)
        elif block.file is None and isinstance(value, dict) and value.keys() & {"model", "runtime"}:
            _part_of_manifest(value)
    except ManifestError as error:
        raise block.failed(f"no manifest: {error}") from None


def _part_of_manifest(value: dict[str, Any]) -> None:
    """Load the keys that a page shows: beside a model, if they name none, and with the files that they name."""
    with TemporaryDirectory() as folder:
        for name in _texts(value):
            if content := FILES.get(Path(name).suffix):
                (Path(folder) / name).write_bytes(content)
        text = yaml.safe_dump({"model": "pipeline:Model"} | value)
        (Path(folder) / "reactor.yaml").write_text(text, encoding="utf-8")
        load_manifest(Path(folder))


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict() | list():
            for each in value.values() if isinstance(value, dict) else value:
                yield from _texts(each)


def _javascript(block: Block, text: str, line: int) -> None:
    """Let Node parse it, as a module."""
    done = subprocess.run(
        [node_program(), "--check", "--input-type=module", "-"], input=text, text=True, capture_output=True, check=False
    )
    if done.returncode:
        what = next((each for each in done.stderr.splitlines() if "Error" in each), done.stderr)
        raise block.failed(f"no JavaScript: {what}", line)


def _html(block: Block) -> None:
    page = _Elements()
    page.feed(block.text)
    page.close()
    if page.wrong:
        raise block.failed(page.wrong, page.wrong_at)
    if page.open:
        raise block.failed(f"<{page.open[-1]}> does not end")
    for line, text in page.scripts:
        _javascript(block, text, line)


class _Elements(HTMLParser):
    """Follows which elements are open, and collects the scripts with their lines."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong, self.wrong_at = "", 0
        self.scripts: list[tuple[int, str]] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        elif not self.wrong:
            self.wrong, self.wrong_at = f"</{tag}> ends what is not open", self.getpos()[0]

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append((self.getpos()[0], data))
