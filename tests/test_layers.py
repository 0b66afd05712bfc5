"""Who may import whom: the package's layers, and that no module reaches around them.

`LAYERS` is the one place where they stand; `docs/design.md` shows the same table. A part may import parts that stand above
it in the table and are named in its row, and packages of others that are named there.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import reactor_trio

SOURCE = Path(reactor_trio.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"

#: part -> (parts of ours it may import, packages of others it may import)
#:
#: The client is the one part that runs on asyncio too: it must not import trio, nor a part that does.
LAYERS: dict[str, tuple[str, str]] = {
    "errors": ("", ""),
    "moved": ("", ""),
    "protocol": ("errors", "msgspec"),
    "telemetry": ("protocol", "msgspec"),
    "concurrency": ("errors", "outcome trio"),
    "interface": ("errors", "msgspec numpy omegaconf torch trio"),
    "decoding": ("", "av cv2 numpy"),
    "pacing": ("moved", ""),
    "admission": ("", ""),
    "media": ("errors protocol interface decoding pacing", "av msgspec numpy simplejpeg torch trio"),
    "recording": ("errors protocol", "av msgspec numpy"),
    "configuration": ("errors interface media", "msgspec yaml"),
    "execution": (
        "errors protocol telemetry concurrency interface pacing media configuration",
        "msgspec numpy outcome torch trio",
    ),
    "session": ("errors protocol telemetry concurrency interface pacing media execution", "msgspec trio"),
    "transport": ("protocol", "h11 msgspec trio trio_websocket wsproto"),
    "connection": (
        "errors protocol telemetry concurrency interface pacing admission media execution session transport",
        "msgspec numpy trio",
    ),
    "edge": ("errors protocol admission configuration transport", "jwt msgspec prometheus_client trio"),
    "server": (
        "errors moved protocol telemetry concurrency interface admission media recording configuration execution session "
        "transport connection edge",
        "msgspec opentelemetry outcome prometheus_client trio",
    ),
    "gate": (
        "errors protocol concurrency admission configuration transport edge server",
        "msgspec prometheus_client trio",
    ),
    "replicas": (
        "errors protocol interface admission configuration execution edge server gate",
        "msgspec ray trio",
    ),
    "offline": (
        "errors protocol telemetry concurrency interface pacing media recording configuration execution server",
        "msgspec numpy outcome trio yaml",
    ),
    "client": ("errors protocol decoding recording", "anyio av h11 msgspec numpy simplejpeg wsproto"),
    "testing": (
        "errors concurrency interface configuration execution session transport edge server offline client",
        "anyio msgspec trio",
    ),
    "deployment": ("errors configuration", "msgspec yaml"),
    "loadtest": ("errors protocol client", "anyio msgspec numpy"),
    "cli": (
        "errors protocol interface media configuration execution edge server replicas offline client deployment loadtest",
        "anyio msgspec numpy packaging rich structlog torch trio watchfiles",
    ),
}

#: the files of the root, which only re-export and start
ROOT = {
    "__init__": "errors interface concurrency configuration edge execution server",
    "__main__": "cli", "model_api": "interface", "tracks": "interface", "headless": "moved",
}  # fmt: skip


class Import:
    """One import statement of ours: in which file, of which part, of which module."""

    def __init__(self, file: Path, line: int, module: str) -> None:
        parts = file.relative_to(SOURCE).parts
        self.part = parts[0] if len(parts) > 1 else file.stem
        self.where = f"{file.relative_to(SOURCE)}:{line}"
        self.module = module
        top, _, rest = module.partition(".")
        self.ours = top == "reactor_trio"
        self.target = rest.partition(".")[0] if self.ours else top


def imports() -> list[Import]:
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        if "templates" in file.parts:  # what authors are given, which is not ours to import
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}:{node.lineno}: a relative import"
                found.append(Import(file, node.lineno, node.module or ""))
            elif isinstance(node, ast.Import):
                found += [Import(file, node.lineno, name.name) for name in node.names]
    return found


IMPORTS = imports()


def test_every_part_has_a_layer():
    parts = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert parts | {"errors", "moved", "telemetry"} == set(LAYERS)


def test_the_table_has_no_cycle():
    """Each row names only rows above it."""
    above: set[str] = set()
    for part, (ours, _) in LAYERS.items():
        assert set(ours.split()) <= above, part
        above.add(part)


@pytest.mark.parametrize("part", LAYERS)
def test_a_part_imports_only_what_its_row_allows(part):
    ours, others = (set(names.split()) for names in LAYERS[part])
    wrong = []
    for entry in IMPORTS:
        if entry.part != part or entry.module == "__future__":
            continue
        allowed = entry.target in ours | {part} if entry.ours else entry.target in others | sys.stdlib_module_names
        if not allowed:
            wrong.append(f"{entry.where} imports {entry.module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("part", LAYERS)
def test_a_row_allows_nothing_that_is_not_used(part):
    ours, others = (set(names.split()) for names in LAYERS[part])
    used = {entry.target for entry in IMPORTS if entry.part == part}
    assert ours | others <= used


@pytest.mark.parametrize("file", ROOT)
def test_the_root_only_re_exports(file):
    targets = {entry.target for entry in IMPORTS if entry.part == file and entry.ours}
    assert targets == set(ROOT[file].split())


def test_nothing_imports_the_package_itself():
    """`from reactor_trio import x` would make every part depend on all of them."""
    assert [entry.where for entry in IMPORTS if entry.module == "reactor_trio"] == []


def test_the_design_shows_this_table():
    text = (DOCS / "design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|", text, re.MULTILINE)
    shown = {part: tuple(" ".join(cell.replace("–", "").split()) for cell in cells) for part, *cells in rows}
    assert shown == LAYERS
    assert list(shown) == list(LAYERS)
