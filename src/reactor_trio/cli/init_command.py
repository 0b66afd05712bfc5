"""`reactor init`: write a new project that runs without changes."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from importlib.resources import as_file, files
from pathlib import Path

from reactor_trio.cli.terminal import OK, Terminal, UsageError
from reactor_trio.configuration.yaml_values import parse_value

PLACEHOLDER = "my-model"
#: files that are copied as they are
PICTURES = (".webp",)


def template_names() -> list[str]:
    """Return the names of the templates in this package."""
    with as_file(files("reactor_trio.cli") / "templates") as folder:
        return sorted(entry.name for entry in folder.iterdir() if (entry / "reactor.yaml").is_file())


def init(options: argparse.Namespace, terminal: Terminal) -> int:
    """Write a template into the new folder `options.name`. Raises UsageError before anything is written."""
    target, template = Path(options.name), options.template
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", target.name):
        raise UsageError(f"{options.name!r}: a project's name is made of letters, digits, '.', '_' and '-'")
    if template not in template_names():
        raise UsageError(f"no template {template!r}; there are: {', '.join(template_names())}")
    try:
        target.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(f"{target} exists already; nothing was written") from None
    except OSError as error:
        raise UsageError(f"cannot make {target}: {error.strerror}") from error
    written = []
    with as_file(files("reactor_trio.cli") / "templates" / template) as source:
        for file in sorted(source.iterdir()):
            if file.suffix in PICTURES:
                (target / file.name).write_bytes(file.read_bytes())
                written.append(file.name)
            elif file.is_file():
                named = _as_yaml_text(target.name) if file.suffix == ".yaml" else target.name
                text = file.read_text(encoding="utf-8").replace(PLACEHOLDER, named)
                (target / file.name).write_text(text, encoding="utf-8")
                written.append(file.name)
    program = "reactor" if shutil.which("reactor") else f"{sys.executable} -m reactor_trio"
    terminal.say(f"wrote {target}: {', '.join(written)}")
    terminal.say(f"next: cd {target} && {program} run")
    if sys.prefix != sys.base_prefix:  # a virtual environment
        terminal.say(f"in another terminal, first: source {Path(sys.prefix) / 'bin' / 'activate'}")
    return OK


def _as_yaml_text(name: str) -> str:
    """Quote a name that YAML would not read back as text, such as `2048` or `true`."""
    return name if parse_value(name) == name else f'"{name}"'
