"""`read_script`: reads a script, which says what commands the model gets, and when.

    - {step: 0, name: set_prompt, arguments: {prompt: rain}}      # the first frame sees it
    - {t: 2.5, name: set_prompt, arguments: {prompt: snow}}       # the first step from 2.5 s of the film on sees it

A script is a YAML list, or JSON lines (`.jsonl`). Each entry may also have the keys of the wire, `type` and `data`. The
timeline of a recorded session is a script too: it has each command at the first step that saw it.

Every mistake is a ScriptError of one line that names the file and the line.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from reactor_trio.errors import ReactorError
from reactor_trio.plain_text import one_line

_CHANGE_NOTHING = {"reactor.pause", "reactor.step", "reactor.forget", "reactor.worlds"}
_KEYS = {"step", "t", "name", "type", "arguments", "data", "id"}


class ScriptError(ReactorError):
    """A script or recording cannot be used; names the file and the line."""

    anchor = "scripts"


class ScriptCommand(msgspec.Struct, frozen=True):
    """A command of a script.

    Attributes:
        name, arguments: as a client would send them.
        where: file and line, for errors.
        step: number of the first step that sees it, from 0.
        t: seconds of the film from which on steps see it; used if `step` is None.
        id: the mark of the frames that it has changed; None for no mark.
    """

    name: str
    arguments: Mapping[str, Any]
    where: str
    step: int | None = None
    t: float | None = None
    id: int | None = None


#: A file's name, or commands in their order, or entries as in a file.
Script = str | Path | Sequence[ScriptCommand] | Sequence[Mapping[str, Any]]


def read_script(script: Script | None) -> list[ScriptCommand]:
    """Return the commands of a script in their order. Raises ScriptError."""
    if script is None:
        return []
    if isinstance(script, str | Path):
        path = Path(script)
        entries = list(_entries(path))
        if is_timeline(entries):
            return commands_of_timeline(entries)
    else:
        entries = [(f"script[{number}]", entry) for number, entry in enumerate(script)]
    return _in_order([_command(where, entry) for where, entry in entries])


def read_lines(path: Path) -> list[tuple[str, Any]]:
    """Return each JSON value of a file with its file and line. The last line of a timeline may be cut off, as after a kill.

    Raises ScriptError.
    """
    entries: list[tuple[str, Any]] = []
    lines = _text(path).split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entries.append((f"{path}:{number}", msgspec.json.decode(line)))
        except (msgspec.MsgspecError, RecursionError) as error:
            if number == len(lines) and is_timeline(entries):
                break
            raise ScriptError(f"{path}:{number}: this line is no JSON: {error}") from None
    return entries


def is_timeline(entries: Sequence[tuple[str, Any]]) -> bool:
    """Whether the entries are the lines of a recorded session."""
    first = entries[0][1] if entries else None
    return isinstance(first, dict) and first.get("type") == "session" and "protocol" in first


def commands_of_timeline(entries: Iterable[tuple[str, Any]]) -> list[ScriptCommand]:
    """Return the commands that were carried out. Refused and superseded ones changed nothing. Raises ScriptError.

    A pause and the steps in it are left out: they changed when the model computed, not what. So is what changed no world. A
    session that began at a saved world has a restore before its first step.
    """
    applied: list[ScriptCommand] = []
    saving: int | None = None  # which of them is the newest save
    for where, line in entries:
        if not isinstance(line, dict):
            continue
        if line.get("type") == "session" and (begun_from := line.get("begun_from")) is not None:
            begun_from = begun_from | {"why": "fork"} if isinstance(begun_from, dict) else begun_from
            applied.append(_command(where, {"name": "reactor.restore", "arguments": begun_from, "step": 0}))
        elif line.get("type") == "saved" and saving is not None:
            named = {**applied[saving].arguments, "digest": line.get("digest")}
            applied[saving] = msgspec.structs.replace(applied[saving], arguments=named)
        if line.get("type") != "command" or "code" in line or line.get("superseded"):
            continue
        entry = {key: line.get(key) for key in ("name", "arguments", "step", "id")}
        command = _command(where, entry)
        if command.name in ("reactor.save", "reactor.fork"):
            saving = None if "digest" in command.arguments else len(applied)  # with it, it is a fork of a saved world
        if command.name not in _CHANGE_NOTHING and (command.name != "reactor.fork" or saving is not None):
            applied.append(command)
    return _in_order(applied)


def _entries(path: Path) -> Iterable[tuple[str, Any]]:
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return read_lines(path)
    try:
        node = yaml.compose(_text(path), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}" if mark else ""
        raise ScriptError(f"{path}{where}: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ScriptError(f"{path}: this is no YAML: {one_line(str(error))}") from None
    if node is None:
        return []
    if not isinstance(node, yaml.SequenceNode):
        raise ScriptError(f"{path}:{node.start_mark.line + 1}: expected a list of commands: - {{step: 0, name: ...}}")
    loader = yaml.SafeLoader("")
    entries = []
    for item in node.value:
        where = f"{path}:{item.start_mark.line + 1}"
        try:
            entries.append((where, loader.construct_document(item)))
        except (yaml.YAMLError, ValueError, TypeError) as error:
            raise ScriptError(f"{where}: {one_line(str(error))}") from None
    return entries


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScriptError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ScriptError(f"{path}: this is no text in UTF-8") from None


def _command(where: str, entry: Any) -> ScriptCommand:
    if isinstance(entry, ScriptCommand):
        return entry
    if not isinstance(entry, Mapping):
        raise ScriptError(f"{where}: expected a command such as {{step: 0, name: set_prompt, arguments: {{prompt: rain}}}}")
    if unknown := [str(key) for key in entry if key not in _KEYS]:
        raise ScriptError(f"{where}: unknown key {unknown[0]!r}; a command has step or t, name, arguments and id")
    name = entry.get("name", entry.get("type"))
    if not isinstance(name, str) or not name:
        raise ScriptError(f"{where}: name: the command's name is missing")
    arguments = entry.get("arguments", entry.get("data"))
    if arguments is not None and not isinstance(arguments, Mapping):
        raise ScriptError(f"{where}: arguments: expected {{argument: value}}, got {arguments!r}")
    step, t, number = entry.get("step"), entry.get("t"), entry.get("id")
    if step is not None and (isinstance(step, bool) or not isinstance(step, int) or step < 0):
        raise ScriptError(f"{where}: step: expected the number of a step, from 0, got {step!r}")
    if t is not None and (isinstance(t, bool) or not isinstance(t, int | float) or not 0 <= t < math.inf):
        raise ScriptError(f"{where}: t: expected seconds of the film, from 0, got {t!r}")
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise ScriptError(f"{where}: id: expected a whole number, got {number!r}")
    return ScriptCommand(name, arguments or {}, where, step, None if step is not None or t is None else float(t), number)


def _in_order(commands: list[ScriptCommand]) -> list[ScriptCommand]:
    """Return `commands` if their steps and times are in the file's order. Raises ScriptError."""
    for word in ("step", "t"):
        timed = [(at, command.where) for command in commands if (at := getattr(command, word)) is not None]
        for (before, known), (at, where) in itertools.pairwise(timed):
            if at < before:
                raise ScriptError(f"{where}: {word}: {at:g} comes before {before:g} of {known}; put the commands in order")
    return commands
