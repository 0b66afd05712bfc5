"""Reads the TypeScript that the generator writes, and refuses everything else. A type becomes plain Python values:

a name is a str, a constant `("constant", value)`, an object a dict, and the rest tuples that begin with what they are.
"""

from __future__ import annotations

import json
import re
from typing import Any

TOKEN = re.compile(
    r"""(?P<space>[ \n]+)|(?P<comment>/\*.*?\*/|//[^\n\r\u2028\u2029]*)|(?P<string>"(?:[^"\\\n\r]|\\.)*")"""
    r"""|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)|(?P<word>[A-Za-z_$][A-Za-z0-9_$]*)|(?P<sign>\.\.\.|[{}\[\]();:,|?<>=])""",
    re.DOTALL,
)


def read_typescript(text: str) -> dict[str, Any]:
    """The parts of a generated file: `imports`, `types`, `interface`, `constant`, `comments`. Raises AssertionError."""
    return _Reader(text).file()


class _Reader:
    def __init__(self, text: str) -> None:
        self.comments: list[str] = []
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text):
            found = TOKEN.match(text, place)
            assert found is not None, f"no token: {text[place : place + 40]!r}"
            place = found.end()
            kind, value = str(found.lastgroup), found[0]
            if kind == "comment":
                self.comments.append(value)
            elif kind != "space":
                self.tokens.append((kind, value))
        self.tokens.append(("end", ""))

    def file(self) -> dict[str, Any]:
        self.take("import", "type", "{")
        imports = [self.word()]
        while self.accept(","):
            imports.append(self.word())
        self.take("}", "from", '"reactor-trio"', ";")
        types: dict[str, Any] = {}
        while self.tokens[1][1] == "type":
            self.take("export", "type")
            name = self.word()
            assert name not in types
            self.take("=")
            types[name] = self.type()
            self.take(";")
        self.take("export", "interface")
        interface = self.word()
        body = self.type()
        self.take("export", "const")
        constant = self.word()
        self.take(":", "ModelRef", "<", interface, ">", "=", "{", "name", ":")
        name = self.string()
        self.take(",", "schemaHash", ":")
        digest = self.string()
        self.take("}", ";", "")
        return {"imports": imports, "types": types, "interface": (interface, body), "constant": (constant, name, digest),
                "comments": self.comments}  # fmt: skip

    # ---- tokens ---------------------------------------------------------------------------------------------------

    def take(self, *values: str) -> None:
        for value in values:
            assert self.tokens[0][1] == value, (value, self.tokens[:8])
            self.tokens.pop(0)

    def accept(self, value: str) -> bool:
        if self.tokens[0] != ("sign", value):
            return False
        self.tokens.pop(0)
        return True

    def word(self) -> str:
        kind, value = self.tokens.pop(0)
        assert kind == "word", value
        return value

    def string(self) -> str:
        kind, value = self.tokens.pop(0)
        assert kind == "string", value
        plain = re.sub(r"\\(u\{[0-9a-f]+\}|.)", lambda f: chr(int(f[1][2:-1], 16)) if f[1][:2] == "u{" else f[0], value)
        found = json.loads(plain)
        assert isinstance(found, str)
        return found

    # ---- types ----------------------------------------------------------------------------------------------------

    def type(self) -> Any:
        members = [self.item()]
        while self.accept("|"):
            members.append(self.item())
        return members[0] if len(members) == 1 else ("union", *members)

    def item(self) -> Any:
        kind, value = self.tokens[0]
        if kind == "string":
            found: Any = ("constant", self.string())
        elif kind == "number":
            self.tokens.pop(0)
            found = ("constant", json.loads(value))
        elif kind == "word":
            found = self.named()
        elif self.accept("("):
            found = self.type()
            self.take(")")
        elif self.accept("["):
            found = self.tuple()
        else:
            self.take("{")
            found = self.object()
        while self.tokens[0][1] == "[" and self.tokens[1][1] == "]":
            self.take("[", "]")
            found = ("list", found)
        return found

    def named(self) -> Any:
        name = self.word()
        if not self.accept("<"):
            return name
        given = [self.type()]
        while self.accept(","):
            given.append(self.type())
        self.take(">")
        return (name, *given)

    def tuple(self) -> Any:
        items: list[Any] = []
        while not self.accept("]"):
            rest = self.accept("...")
            item = self.item()
            items.append(("rest", item) if rest else ("maybe", item) if self.accept("?") else item)
            assert self.tokens[0][1] == "]" or self.accept(",")
        return ("tuple", *items)

    def object(self) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        while not self.accept("}"):
            if self.accept("["):
                self.take("key", ":", "string", "]")
                key: Any = ("index",)
            else:
                key = self.string() if self.tokens[0][0] == "string" else self.word()
                key = ("maybe", key) if self.accept("?") else key
            assert key not in found
            self.take(":")
            found[key] = self.type()
            assert self.accept(";") or self.tokens[0][1] == "}"
        return found
