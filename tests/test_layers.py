"""The layers of the package: which part may import which, and that no modules import each other in a circle.

`LAYERS` defines them; `docs/contribute/design.md` shows the same table. A part may import the parts that its row names,
which are above it in the table, and the foreign packages that its row names. Within a part, a module may import any
other, but not in a circle. Imports under `TYPE_CHECKING` count like all others.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

import reactor_trio

SOURCE = Path(reactor_trio.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"

#: part -> (parts of ours it may import, packages of others it may import)
#:
#: The client is the one part that runs on asyncio too: it must not import trio, nor a part that does.
LAYERS: dict[str, tuple[str, str]] = {
    "error_catalog": ("", ""),
    "errors": ("error_catalog", ""),
    "lost_part": ("", ""),
    "interpreter": ("", ""),
    "descriptors": ("", ""),
    "processors": ("", ""),
    "standard_streams": ("", ""),
    "memory": ("", "numpy"),
    "plain_text": ("", ""),
    "protocol": ("errors plain_text", "msgspec"),
    "typegen": ("errors", ""),
    "telemetry": ("", "msgspec"),
    "concurrency": ("errors plain_text", "outcome sniffio trio"),
    "distributed": ("errors plain_text lost_part descriptors standard_streams memory", "torch"),
    "interface": ("errors plain_text", "msgspec numpy omegaconf torch trio"),
    "worlds": ("errors plain_text interface", "msgspec numpy"),
    "world_store": ("errors worlds", ""),
    "adapters": ("interface", "huggingface_hub torch tqdm trio"),
    "decoding": ("", "av cv2 numpy simplejpeg"),
    "pacing": ("", "msgspec"),
    "admission": ("", "msgspec"),
    "lifecycle": ("", ""),
    "media": ("errors protocol concurrency interface decoding pacing", "av msgspec numpy simplejpeg torch trio"),
    "recording": ("errors descriptors protocol", "av msgspec numpy"),
    "configuration": ("errors plain_text interface media", "msgspec yaml"),
    "crossing": ("errors plain_text descriptors concurrency interface media", "msgspec numpy trio"),
    "execution": (
        "errors plain_text lost_part protocol telemetry concurrency interface pacing lifecycle media crossing worlds",
        "msgspec outcome trio",
    ),
    "kinds": (
        "errors plain_text concurrency interface pacing media configuration execution",
        "msgspec outcome trio",
    ),
    "placement": (
        "errors plain_text interpreter processors standard_streams memory protocol telemetry concurrency interface pacing "
        "lifecycle media configuration crossing worlds execution kinds",
        "msgspec numpy outcome torch trio",
    ),
    "session": (
        "errors plain_text descriptors protocol telemetry concurrency interface pacing admission lifecycle media "
        "configuration crossing execution placement worlds world_store",
        "msgspec trio",
    ),
    "transport": ("descriptors protocol concurrency admission", "h11 msgspec trio trio_websocket wsproto"),
    "connection": (
        "errors protocol telemetry concurrency interface pacing admission media execution session transport",
        "msgspec numpy trio",
    ),
    "leases": ("protocol concurrency admission configuration", "msgspec trio"),
    "edge": ("errors descriptors protocol typegen admission configuration transport", "jwt msgspec prometheus_client trio"),
    "server": (
        "errors processors protocol telemetry concurrency interface admission media recording configuration "
        "execution placement session transport connection leases edge worlds world_store",
        "msgspec opentelemetry prometheus_client trio",
    ),
    "notebook": ("errors configuration interface server", "IPython"),
    "gate": (
        "errors protocol concurrency admission configuration transport leases edge",
        "msgspec prometheus_client trio",
    ),
    "replicas": (
        "errors processors interface configuration leases edge server gate",
        "msgspec ray trio",
    ),
    "offline": (
        "errors plain_text protocol telemetry concurrency interface pacing lifecycle media recording configuration crossing "
        "worlds world_store execution kinds placement server",
        "msgspec numpy outcome trio yaml",
    ),
    "client": ("errors plain_text protocol decoding recording", "anyio av h11 msgspec numpy simplejpeg wsproto"),
    "testing": (
        "errors memory concurrency interface lifecycle recording configuration crossing worlds execution kinds placement "
        "session transport connection edge server offline client",
        "anyio msgspec numpy trio",
    ),
    "deployment": ("errors configuration", "msgspec yaml"),
    "loadtest": ("errors protocol client", "anyio msgspec numpy"),
    "cli": (
        "errors interpreter standard_streams plain_text protocol typegen concurrency interface media recording "
        "configuration worlds world_store execution kinds edge server replicas offline client deployment loadtest",
        "msgspec numpy packaging rich structlog torch trio watchfiles",
    ),
}

#: the files of the root, which only re-export and start
ROOT = {
    "__init__": "errors interface concurrency configuration edge execution log server notebook cli",
    "__main__": "cli", "model_api": "interface", "tracks": "interface",
    "log": "", "manifest": "configuration", "paths": "interface",
}  # fmt: skip

#: The floors of a part: on each line, modules and folders that import each other and those of the lines before. So a model
#: in a process of its own knows nothing of ranks, and one module starts either.
FLOORS = {
    "placement": [
        "loading local_session_run model_run placement restarts model_instances", "isolation", "ranks", "processes",
        "model_source",
    ],
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


@cache
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


@pytest.mark.parametrize("part", FLOORS)
def test_a_floor_of_a_part_imports_none_below_it(part):
    floor = {name: number for number, names in enumerate(FLOORS[part]) for name in names.split()}
    children = [path.stem for path in (SOURCE / part).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert set(floor) == set(children) - {"__init__"}
    wrong = []
    for entry in imports():
        if entry.part == part and entry.ours and entry.target == part:
            importer = Path(entry.where.partition(":")[0]).parts[1].removesuffix(".py")
            if floor[entry.module.split(".")[2]] > floor[importer]:
                wrong.append(f"{entry.where} imports {entry.module}")
    assert not wrong, "\n".join(wrong)


def test_a_model_in_a_process_of_its_own_does_not_name_ranks():
    for file in (SOURCE / "placement" / "isolation").glob("*.py"):
        assert not re.search(r"(?<![a-z])ranks?(?![a-z])", file.read_text(encoding="utf-8"), re.IGNORECASE), file.name


def test_every_part_has_a_layer():
    parts = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    modules = {
        "error_catalog", "errors", "lost_part", "interpreter", "descriptors", "processors", "standard_streams", "plain_text",
        "telemetry",
    }  # fmt: skip
    assert parts | modules == set(LAYERS)


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
    for entry in imports():
        if entry.part != part or entry.module == "__future__":
            continue
        allowed = entry.target in ours | {part} if entry.ours else entry.target in others | sys.stdlib_module_names
        if not allowed:
            wrong.append(f"{entry.where} imports {entry.module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("part", LAYERS)
def test_a_row_allows_nothing_that_is_not_used(part):
    ours, others = (set(names.split()) for names in LAYERS[part])
    used = {entry.target for entry in imports() if entry.part == part}
    assert ours | others <= used


@pytest.mark.parametrize("file", ROOT)
def test_the_root_only_re_exports(file):
    targets = {entry.target for entry in imports() if entry.part == file and entry.ours}
    assert targets == set(ROOT[file].split())


def test_nothing_imports_the_package_itself():
    """`from reactor_trio import x` would make every part depend on all of them."""
    assert [entry.where for entry in imports() if entry.module == "reactor_trio"] == []


def module_of(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Map each module to the modules that its source imports, at any depth of the code.

    `from package import name` counts as an import of `package.name` if that is a module, else of `package`.
    """
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        targets: set[str] = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom):
                full_names = [f"{node.module}.{name.name}" for name in node.names]
                targets |= {name if name in sources else str(node.module) for name in full_names}
            elif isinstance(node, ast.Import):
                targets |= {name.name for name in node.names}
        graph[module] = (targets & sources.keys()) - {module}
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Find the groups of modules of which each one imports every other, directly or through modules of the group."""
    reached: dict[str, set[str]] = {}
    for module in graph:
        found: set[str] = set()
        waiting = [module]
        while waiting:
            for target in graph[waiting.pop()] - found:
                found.add(target)
                waiting.append(target)
        reached[module] = found
    groups = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }
    return sorted(sorted(group) for group in groups)


def test_no_modules_import_each_other_in_a_circle():
    files = [file for file in SOURCE.rglob("*.py") if "templates" not in file.parts]
    graph = import_graph({module_of(file): file.read_text(encoding="utf-8") for file in files})
    found = [
        f"{module} imports {', '.join(sorted(graph[module].intersection(circle)))}"
        for circle in circles(graph)
        for module in circle
    ]
    assert not found, "\n".join(found)


TYPE_CHECKED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import A"


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({"p.a": "import p.b", "p.b": "import p.c", "p.c": ""}, []),
        ({"p.a": "from p import b", "p.b": TYPE_CHECKED}, [["p.a", "p.b"]]),
        ({"p.a": "import p.b", "p.b": "import p.c", "p.c": "def late():\n    from p.a import A"}, [["p.a", "p.b", "p.c"]]),
        ({"p": "from p.a import A", "p.a": "from p import B"}, [["p", "p.a"]]),
        ({"p": "", "p.a": "from p import b", "p.b": "from p import c", "p.c": "import p"}, []),
    ],
    ids=["none", "under TYPE_CHECKING", "in a function", "with the package's own file", "a package that imports nothing"],
)
def test_a_circle_is_found(sources, found):
    assert circles(import_graph(sources)) == found


def test_the_design_shows_this_table():
    text = (DOCS / "contribute" / "design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|", text, re.MULTILINE)
    shown = {part: tuple(" ".join(cell.replace("–", "").split()) for cell in cells) for part, *cells in rows}
    assert shown == LAYERS
    assert list(shown) == list(LAYERS)
