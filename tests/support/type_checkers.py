"""The TypeScript compiler, mypy and pyright, as tests of generated types run them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.support import needs
from tests.support.web_client import WEB, build_package, node_packages, node_program

ROOT = Path(__file__).parents[2]
#: as strict as a program may be
OPTIONS = {
    "strict": True, "noEmit": True, "target": "es2022", "module": "nodenext", "lib": ["es2024", "dom"], "types": [],
    "exactOptionalPropertyTypes": True, "noUncheckedIndexedAccess": True, "noUnusedLocals": True, "skipLibCheck": False,
    "verbatimModuleSyntax": True, "declaration": True, "isolatedDeclarations": True,
}  # fmt: skip


def environment() -> dict[str, str]:
    """The environment of a process with the Node of the virtual environment, which the extra `web` brings."""
    folder = Path(sys.prefix) / "bin"
    if not (folder / "node").exists() and shutil.which("node") is None:
        needs.missing('Node: pip install -e ".[web]", or run scripts/test --all')
    return os.environ | {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }


def tsc_errors(folder: Path, files: dict[str, str], **options: object) -> dict[str, dict[int, str]]:
    """Compile the files, by name, in a program that has the npm package. Return each error by file and line."""
    build_package()
    (folder / "node_modules").mkdir(exist_ok=True)
    if not (package := folder / "node_modules" / "reactor-trio").exists():
        package.symlink_to(WEB)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS | options, "include": ["*.ts"]}))
    tsc = node_packages() / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        [node_program(), tsc, "-p", folder, "--pretty", "false"], cwd=folder, capture_output=True, text=True, check=False
    )
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for line in done.stdout.splitlines():
        if place := re.match(r"([^\s(]+)\((\d+),\d+\): (error .*)", line):
            found[place[1]][int(place[2])] = place[3]
    assert bool(found) == bool(done.returncode), done.stdout + done.stderr
    return dict(found)


def mypy_errors(folder: Path) -> list[str]:
    """The errors of `mypy --strict` in the Python files of the folder."""
    # With the options, paths and cache of the project's own run, which has parsed its modules and numpy already.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=pyproject.toml", *sorted(map(str, folder.glob("*.py")))],
        cwd=ROOT, env=os.environ | {"MYPYPATH": "src"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    # This project also warns of unreachable statements, which `--strict` does not.
    errors = (line for line in done.stdout.splitlines() if ": error: " in line and not line.endswith("[unreachable]"))
    # For a file that it knows by another folder mypy names that folder.
    return [f"{Path(where).name}:{what}" for where, _, what in (line.partition(":") for line in errors)]


def pyright_errors(folder: Path) -> list[str]:
    """The errors of pyright in strict mode in the Python files of the folder."""
    config = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")], "include": ["*.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py")))
    return [
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    ]
