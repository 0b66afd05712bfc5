"""What others see of this project, each thing as a text: files beside this module hold them, and a test compares.

    scripts/run python -m tests.golden.surface      writes them again: look at the difference before you commit it

Others are clients, scrapers of metrics, readers of logs and timelines, deployed configurations and scripts. What stands here
may grow; what changes or goes breaks somebody. Ray may be missing: the name that needs it then stays as it is.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import logging
import re
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any

import msgspec
import trio.testing

from reactor_trio.cli.command_parser import build_parser
from reactor_trio.errors import CommandError
from reactor_trio.protocol import asyncapi_document
from reactor_trio.testing import open_server
from tests.golden.golden_model import Golden

HERE = Path(__file__).parent
FILES = HERE / "files"
SOURCE = Path(sys.modules["reactor_trio"].__file__).parent

#: Modules whose names users import, by the documentation.
PUBLIC = (
    "reactor_trio", "reactor_trio.interface", "reactor_trio.client", "reactor_trio.testing", "reactor_trio.offline",
    "reactor_trio.errors", "reactor_trio.deployment", "reactor_trio.loadtest", "reactor_trio.pacing",
    "reactor_trio.adapters",
)
#: Names at places that stand in deployed configurations and users' programs.
PLACES = (
    "reactor_trio.cli:main", "reactor_trio.replicas.application:build", "reactor_trio.configuration.manifest:load_manifest",
    "reactor_trio.edge.tickets:issue_ticket", "reactor_trio.configuration.settings:Settings",
)


def surface() -> dict[str, str]:
    """Every file's name and text."""
    texts = {"modules.json": _json(module_names()), "loggers.json": _json(_loggers()), "wire.json": _json(_wire())}
    texts |= {f"help/{name}.txt": text for name, text in _helps().items()}
    trio.run(_served, texts, clock=trio.testing.MockClock(autojump_threshold=0))
    return texts


def write() -> None:
    """Write the files."""
    logging.disable()  # a handler of the model raises because it is asked to
    for name, text in surface().items():
        path = FILES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


# ---- a server of the model --------------------------------------------------------------------------------------------


async def _served(texts: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with open_server(Golden, name="golden", step_cost=0.1, record=folder) as server:
            schema = json.loads(server.http("/schema").body)
            texts["schema.json"] = _json(schema)
            texts["asyncapi.json"] = _json(asyncapi_document(schema, host="127.0.0.1", secure=False))
            async with server.connect(video=["raw"]) as client, server.connect(video=["raw"], role="viewer") as viewer:
                await client.command("set_level", level=0.5)
                await client.command("move", to={"x": 1.0})
                for wrong in ("fail", "no_such_command"):
                    with suppress(CommandError):
                        await client.command(wrong)
                await client.take(3)
                await viewer.take(1)
                texts["health.json"] = _json(_shape(json.loads(server.http("/health").body)))
            await server.settle()
            texts["metrics.txt"] = _metrics(server.http("/metrics").body.decode())
        texts["timeline.json"] = _timeline(Path(folder))


def _timeline(folder: Path) -> str:
    (timeline,) = folder.glob("*.jsonl")
    lines = [json.loads(line) for line in timeline.read_text(encoding="utf-8").splitlines()]
    return _json(sorted({json.dumps(_shape(line), sort_keys=True) for line in lines}))


def _shape(value: Any) -> Any:
    """The keys of objects, and of plain values their type; what a line of a timeline is stays as it is."""
    if isinstance(value, dict):  # `versions` are those of whatever else the process has imported
        kept = {key: inner for key, inner in value.items() if key != "versions"}
        return {key: inner if key in ("type", "what") else _shape(inner) for key, inner in kept.items()}
    return type(value).__name__


def _metrics(text: str) -> str:
    """Names, types and labels; help texts and figures may change."""
    lines = {line for line in text.splitlines() if line.startswith("# TYPE ")}
    lines |= {line.rpartition(" ")[0] for line in text.splitlines() if line and line[0] != "#"}
    stable = {re.sub(r'(version|implementation|major|minor|patchlevel)="[^"]*"', r'\1="..."', line) for line in lines}
    return "\n".join(sorted(stable)) + "\n"


# ---- the code ---------------------------------------------------------------------------------------------------------


def module_names() -> dict[str, Any]:
    """The public names of each module, and whether each place has something that can be called."""
    names: dict[str, Any] = {}
    for name in PUBLIC:
        module = importlib.import_module(name)
        own = [one for one, value in vars(module).items() if one[0] != "_" and isinstance(value, type | FunctionType)]
        names[name] = sorted(vars(module).get("__all__", own))
    for place in PLACES:
        module, _, attribute = place.partition(":")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's own
            try:
                names[place] = callable(getattr(importlib.import_module(module), attribute))
            except ModuleNotFoundError as error:
                if error.name != "ray":
                    raise
                names[place] = json.loads((FILES / "modules.json").read_text(encoding="utf-8"))[place]
                print(f"Ray is not installed, so {place} stays as it is in modules.json", file=sys.stderr)
    return names


def _loggers() -> list[str]:
    """The names by which the code logs."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "getLogger":
                found |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    return sorted(name for name in found if name)


def _wire() -> dict[str, Any]:
    """Message types and close codes, and the tags by which a gate and its replicas know each other's words."""
    from reactor_trio.leases.messages import LeaseMessage
    from reactor_trio.protocol import reasons

    examples = [msgspec.inspect.type_info(word) for word in LeaseMessage.__args__]
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    return {
        "lease words": sorted(str(info.tag) for info in examples),
        "reactor.* in the code": sorted(set(re.findall(r'"(reactor\.[a-z]+)"', text)) - set(_loggers())),
        "close codes": {reason: reasons.close_code(reason) for reason in reasons.EndReason.__args__},
    }


def _helps() -> dict[str, str]:
    parser = build_parser()
    texts = {"reactor": _help(parser)}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts |= {name: _help(command) for name, command in action.choices.items()}
    return texts


def _help(parser: argparse.ArgumentParser) -> str:
    """Options and their words; how they are laid out depends on the terminal's width and the version of Python."""
    lines = [f"{' '.join(action.option_strings) or action.dest}: {action.help}" for action in parser._actions]
    return "\n".join([parser.prog, parser.description or "", *sorted(lines)]) + "\n"


if __name__ == "__main__":
    write()
