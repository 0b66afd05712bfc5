"""The lines of `inference()` that change the world after a `yield`: a moment is taken at the yield, so it lacks them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

#: calls on `self` that change nothing of the world
_HARMLESS: Final = frozenset(("send", "emit", "output", "output_buffer", "connected"))
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Change(msgspec.Struct, frozen=True):
    """A statement after a `yield` that changes the model: its place, `model.py:12`, and its first line."""

    at: str
    text: str


def changes_after_yield(cls: type) -> list[Change]:
    """Return the statements that change `self` after a `yield` of `inference()`; [] if its source cannot be read."""
    function = getattr(cls, "inference", None)
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(function))  # type: ignore[arg-type]
        file = Path(inspect.getsourcefile(inspect.unwrap(function)) or "").name  # type: ignore[arg-type]
        (definition,) = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return []
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)) or not definition.args.args:
        return []
    names = _names_of_self(definition)
    found = {each.lineno: each for each in _after(definition.body, [])}
    return [
        Change(f"{file}:{first + number - 1}", lines[number - 1].strip())
        for number, each in sorted(found.items())
        if _changes(each, names)
    ]


def _after(body: list[ast.stmt], following: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the simple statements that may run after a yield in this body, before its next one.

    `following` are those that run when the body has ended: of a loop only what follows it, since what a round begins with
    runs again in a new generator, too.
    """
    for index, each in enumerate(body):
        rest = [*body[index + 1 :], *following]
        if not _yields(each):
            continue
        if not (inner := _bodies(each)):
            yield from _until_yield(rest)
        for one in inner:
            yield from _after(one, rest)


def _until_yield(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the simple statements that may run before the next yield."""
    for each in statements:
        inner = _bodies(each)
        if not inner and not _yields(each):
            yield each
        for one in inner:
            yield from _until_yield(one)
        if _ends(each):
            return


def _ends(statement: ast.stmt) -> bool:
    """Whether what follows a statement is not reached without a yield, or not at all."""
    if isinstance(statement, ast.If):
        return bool(statement.orelse) and all(any(map(_ends, block)) for block in (statement.body, statement.orelse))
    return _yields(statement) or isinstance(statement, (ast.Continue, ast.Break, ast.Return, ast.Raise))


def _bodies(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a compound statement, but for `finally`, which a rewind runs."""
    if isinstance(statement, _FUNCTIONS):
        return []
    blocks = [getattr(statement, name, []) for name in ("body", "orelse")]
    blocks += [handler.body for handler in getattr(statement, "handlers", [])]
    blocks += [case.body for case in getattr(statement, "cases", [])]
    return [block for block in blocks if block]


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement that run with it, so none of a function that it defines."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _FUNCTIONS):
            yield from _own(child)


def _yields(statement: ast.stmt) -> bool:
    own = () if isinstance(statement, _FUNCTIONS) else _own(statement)
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own)


def _names_of_self(definition: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """`self`, and the local names of its parts, such as `state` after `state = self.state`."""
    names = {definition.args.args[0].arg}
    for node in _own(definition):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute) and _root(node.value)[0] in names:
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _root(node: Any) -> tuple[str, str]:
    """The name that `a.b[c].d` begins with, and the attribute after it."""
    attribute = ""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        attribute = node.attr if isinstance(node, ast.Attribute) else attribute
        node = node.value
    return (node.id, attribute) if isinstance(node, ast.Name) else ("", attribute)


def _changes(statement: ast.stmt, names: set[str]) -> bool:
    if isinstance(statement, ast.Expr):
        call = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return False
        name, attribute = _root(call.func)
        return name in names and attribute not in _HARMLESS
    if isinstance(statement, (ast.Assign, ast.Delete)):
        targets: list[ast.expr] = list(statement.targets)
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        targets = [statement.target]
    else:
        return False
    flat = [part for each in targets for part in (each.elts if isinstance(each, (ast.Tuple, ast.List)) else [each])]
    return any(isinstance(each, (ast.Attribute, ast.Subscript)) and _root(each)[0] in names for each in flat)
