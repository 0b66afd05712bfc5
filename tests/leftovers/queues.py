"""Where the program keeps what grows: each attribute that is a container and that our code puts something into.

By reading the source: an attribute counts as a container if its annotation or a value that it gets says so. Memory channels
and thread queues count too, and each `deque`, also if the code puts something into it through a local variable. Containers
that only a local variable has are not seen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import reactor_trio

SOURCE = Path(reactor_trio.__file__).parent
GROWS = {"append", "appendleft", "add", "extend", "extendleft", "insert", "put", "setdefault", "update"}
QUEUE = re.compile(r"\b(deque|Queue|SimpleQueue|open_memory_channel)\b")
CONTAINER = re.compile(
    r"\b(list|dict|set|deque|bytearray|Counter|OrderedDict|defaultdict|WeakSet|WeakKeyDictionary|WeakValueDictionary"
    r"|Queue|SimpleQueue|open_memory_channel)\b"
)


def containers(tree: ast.Module) -> dict[str, set[str]]:
    """Class -> its attributes that are containers; a queue has a `!` before its name."""
    found: dict[str, set[str]] = {}
    for owner in ast.walk(tree):
        if not isinstance(owner, ast.ClassDef):
            continue
        attributes = found.setdefault(owner.name, set())
        for node in ast.walk(owner):
            for target, says in _given(node):
                if (name := _own(target, owner)) and CONTAINER.search(says):
                    attributes |= {name, f"!{name}"} if QUEUE.search(says) else {name}
    return found


def _given(node: ast.AST) -> list[tuple[ast.expr, str]]:
    """What a statement assigns to, and what it says of that."""
    match node:
        case ast.AnnAssign(target, annotation, value):
            return [(target, f"{ast.unparse(annotation)} {_made(value)}")]
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
            return [(target, _made(value)) for target, value in zip(targets, values, strict=False)]
        case ast.Assign(targets, value):
            each = [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
            return [(target, _made(value)) for target in each]
    return []


def _made(value: ast.expr | None) -> str:
    """What kind of container an expression makes; empty if it makes none."""
    match value:
        case ast.List() | ast.ListComp():
            return "list"
        case ast.Dict() | ast.DictComp():
            return "dict"
        case ast.Set() | ast.SetComp():
            return "set"
        case ast.Call(func) if isinstance(func, ast.Name | ast.Attribute | ast.Subscript):
            return " ".join([ast.unparse(func), *(ast.unparse(word.value) for word in value.keywords)])
        case ast.Tuple(items):
            return " ".join(map(_made, items))
        case ast.BoolOp(values=items):
            return " ".join(map(_made, items))
        case ast.IfExp(body=body, orelse=other):
            return f"{_made(body)} {_made(other)}"
    return ""


def _own(target: ast.expr, owner: ast.ClassDef) -> str:
    """The name of an attribute that is assigned to `self`, or in the body of the class."""
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        return target.attr
    in_body = any(target in (getattr(node, "target", None), *getattr(node, "targets", ())) for node in owner.body)
    return target.id if isinstance(target, ast.Name) and in_body else ""


def grown(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.Attribute]]:
    """Each attribute that the code puts something into, with the class around that code."""
    for node in ast.iter_child_nodes(tree):
        target: ast.expr | None = None
        match node:
            case ast.Call(ast.Attribute(value, attr)) if attr in GROWS:
                target = value
            case ast.Call(ast.Attribute(attr="heappush"), [heap, *_]):
                target = heap
            case ast.AugAssign(into):
                target = into
            case ast.Assign(targets):
                target = next((each.value for each in targets if isinstance(each, ast.Subscript)), None)
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute):
            yield owner, target
        yield from grown(node, node.name if isinstance(node, ast.ClassDef) else owner)


def queues() -> set[str]:
    """`module:Class.attribute` of each container that grows."""
    trees = {_module(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    known = {
        f"{module}:{owner}.{name}" for module, tree in trees.items() for owner, names in containers(tree).items()
        for name in names
    }  # fmt: skip
    found = {name.replace("!", "") for name in known if "!" in name}
    by_attribute: dict[str, set[str]] = {}
    for name in known:
        by_attribute.setdefault(name.rpartition(".")[2], set()).add(name)
    for module, tree in trees.items():
        for owner, target in grown(tree):
            own = f"{module}:{owner}.{target.attr}"
            if isinstance(target.value, ast.Name) and target.value.id == "self" and own in known:
                found.add(own)
                continue
            named = by_attribute.get(target.attr, set())
            near = {name for name in named if name.startswith(f"{module}:")}
            found |= near or (named if len(named) == 1 else set())  # a name that many classes have says nothing
    return found


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)
