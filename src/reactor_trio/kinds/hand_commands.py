"""Commands whose names say that a key, the pointer or a gamepad presses them, and which no hand can reach.

The viewer page and the web client bind commands by name and arguments (`clients/web/src/controls/schema.ts`). A command that
they cannot bind becomes a button or a form, without a word. `unreachable` says why, and which name was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from reactor_trio.plain_text import similar

_ARROWS: Final = ("up", "down", "left", "right")
#: The names of keys in a browser's events, in small letters and without `Arrow`; the numeric pad's by their places.
KEYS: Final = frozenset((
    *"abcdefghijklmnopqrstuvwxyz0123456789", *_ARROWS, *(f"f{number}" for number in range(1, 25)),
    "space", "enter", "escape", "tab", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown", "shift",
    "capslock", "numlock", "scrolllock", "pause", "printscreen", "contextmenu", "help", "clear",
    "add", "subtract", "multiply", "divide", "decimal", "equal", "comma",
    "mediaplaypause", "mediastop", "mediatracknext", "mediatrackprevious",
))  # fmt: skip
_POSITION, _MOVEMENT = ("x", "y"), ("dx", "dy")
POINTER: Final = {"down": _POSITION, "move": _POSITION, "up": _POSITION, "look": _MOVEMENT}
BUTTONS: Final = ("a", "b", "x", "y", "lb", "rb", "lt", "rt", "back", "start", "ls", "rs", *_ARROWS, "home")
AXES: Final = ("left_x", "left_y", "right_x", "right_y", "lt", "rt")

_MEANT: Final[Mapping[str, Mapping[str, str]]] = {
    "key": {
        "esc": "escape", "return": "enter", "spacebar": "space", "del": "delete", "ins": "insert", "pgup": "pageup",
        "pgdn": "pagedown", "pgdown": "pagedown", "prior": "pageup", "next": "pagedown", "plus": "add", "minus": "subtract",
        "asterisk": "multiply", "slash": "divide", "lshift": "shift", "rshift": "shift", "leftshift": "shift",
        "rightshift": "shift", "shiftleft": "shift", "shiftright": "shift", "caps": "capslock", "menu": "contextmenu",
    },
    "pointer": {
        "click": "down", "press": "down", "start": "down", "tap": "down", "touch": "down", "drag": "move", "hover": "move",
        "position": "move", "moved": "move", "release": "up", "end": "up", "lift": "up", "cancel": "up", "delta": "look",
        "motion": "look", "turn": "look", "rotate": "look", "locked": "look",
    },
    "gamepad": {
        "cross": "a", "circle": "b", "square": "x", "triangle": "y", "l1": "lb", "r1": "rb", "l2": "lt", "r2": "rt",
        "l3": "ls", "r3": "rs", "lefttrigger": "lt", "righttrigger": "rt", "leftbumper": "lb", "rightbumper": "rb",
        "select": "back", "share": "back", "options": "start", "guide": "home", "xbox": "home", "ps": "home",
        "leftstick": "axes", "rightstick": "axes", "stick": "axes", "sticks": "axes", "axis": "axes", "triggers": "axes",
    },
}  # fmt: skip
#: Keys that change what other keys do: browsers and systems keep these combinations.
_KEPT: Final = ("ctrl", "control", "alt", "altgraph", "option", "meta", "cmd", "command", "super", "win", "windows", "fn")


class Unreachable(NamedTuple):
    """Why no hand reaches a command, and what its author can do."""

    text: str
    remedy: str


def unreachable(commands: list[dict[str, Any]]) -> Iterator[Unreachable]:
    """Yield the commands named for a hand that none reaches. `commands` is that of `Declaration.schema()`."""
    for command in commands:
        name: str = command["name"]
        device, _, rest = name.partition("_")
        if device in _MEANT and rest:
            arguments = _Arguments(command["schema"])
            found = {"key": _key, "pointer": _pointer, "gamepad": _gamepad}[device](name, rest, arguments)
            if found is not None:
                yield found


class _Arguments:
    """The arguments of a command by their kinds: `bool`, `number`, or `other`."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.kinds = {name: _kind(each) for name, each in schema.get("properties", {}).items()}
        self.required = frozenset(schema.get("required", ()))

    def needed_but(self, *given: str) -> list[str]:
        """The required arguments that a hand does not give."""
        return [name for name in self.kinds if name in self.required and name not in given]

    def are_numbers(self, *names: str) -> bool:
        return all(self.kinds.get(name, "number") == "number" for name in names)


def _key(name: str, key: str, arguments: _Arguments) -> Unreachable | None:
    if _plain(key) in _KEPT and key not in KEYS:
        text = f"no key presses {name}: browsers and systems keep Ctrl, Alt and Meta for themselves"
        return Unreachable(text, "choose another key, such as key_shift or a letter")
    if key not in KEYS:
        remedy = "name it after a key, such as key_w, key_space or key_left"
        return _unknown(name, "key", key, KEYS, "no key has this name", remedy)
    if arguments.kinds.get("down", "bool") != "bool":
        return Unreachable(f"no key presses {name}, whose argument 'down' is not a bool", "annotate it, `down: bool`")
    needed = arguments.needed_but("down")
    switches = [each for each, kind in arguments.kinds.items() if kind == "bool"]
    if needed:
        text = f"no key presses {name}, because it needs {', '.join(needed)}, and a key gives only `down: bool`"
        meant = needed[0] if needed == switches else None
    elif switches and "down" not in switches:
        text = f"a key that presses {name} never changes {switches[0]}: a key gives only `down: bool`"
        meant = switches[0]
    else:
        return None
    rename = f"call {meant} `down`: it is true when the key goes down, and false when it comes up"
    return Unreachable(text, rename if meant else "give each argument but `down` a default")


def _pointer(name: str, gesture: str, arguments: _Arguments) -> Unreachable | None:
    if gesture not in POINTER:
        remedy = "the names are pointer_down, pointer_move, pointer_up and pointer_look"
        return _unknown(name, "pointer", gesture, POINTER, "no gesture has this name", remedy)
    numbers = POINTER[gesture]
    if set(numbers) <= set(arguments.kinds) and arguments.are_numbers(*numbers) and not arguments.needed_but(*numbers):
        return None
    both = ", ".join(f"{each}: float" for each in numbers)
    remedy = f"let it take `{both}`, and give each other argument a default"
    return Unreachable(f"no pointer reaches {name}, because a pointer gives {both}", remedy)


def _gamepad(name: str, button: str, arguments: _Arguments) -> Unreachable | None:
    if button == "axes":
        known = [each for each in AXES if each in arguments.kinds]
        if known and arguments.are_numbers(*known) and not arguments.needed_but(*AXES):
            return None
        remedy = f"let it take some of {', '.join(AXES)} as float, and give each other argument a default"
        return Unreachable(f"no stick reaches {name}, because it needs what sticks do not give", remedy)
    if button not in BUTTONS:
        remedy = f"the buttons are {', '.join(BUTTONS)}; sticks are gamepad_axes"
        return _unknown(name, "gamepad", button, (*BUTTONS, "axes"), "no button has this name", remedy)
    given = [each for each, kind in (("down", "bool"), ("value", "number")) if arguments.kinds.get(each) == kind]
    if not arguments.needed_but(*given) and not {"down", "value"} <= arguments.required & set(given):
        return None
    text = f"no button presses {name}, because a button gives `down: bool` or `value: float`"
    return Unreachable(text, "let it take one of the two, and give each other argument a default")


def _unknown(name: str, device: str, rest: str, known: Any, why: str, remedy: str) -> Unreachable:
    """Of a command whose name is not known; names the one that was meant, if there is one."""
    plain = _plain(rest)
    meant = _MEANT[device].get(plain) or (plain if plain in known else None)
    if meant is None and len(plain) > 2:
        meant = similar(plain, [each for each in known if len(each) > 2], cutoff=0.84) or None
    text = f"no {device} gives the command {name}: {why}, so the page shows a button"
    return Unreachable(text, remedy if meant is None else f"name it {device}_{meant}")


def _plain(name: str) -> str:
    """`ArrowRight`, `arrow_right` and `Right` as "right", `numpad_1` as "1"."""
    small = re.sub(r"[^a-z0-9]", "", name.lower())
    return re.sub(r"^(?:arrow|dpad|numpad|digit|key|button|btn)(?=.)", "", small)


def _kind(schema: Any) -> str:
    """The kind of a JSON Schema without its null, as the page reads it."""
    if not isinstance(schema, Mapping):
        return "other"
    members = [each for each in schema.get("anyOf", ()) if not (isinstance(each, Mapping) and each.get("type") == "null")]
    if len(members) == 1:
        return _kind(members[0])
    if "enum" in schema or "const" in schema:
        return "other"
    return {"boolean": "bool", "integer": "number", "number": "number"}.get(str(schema.get("type")), "other")
