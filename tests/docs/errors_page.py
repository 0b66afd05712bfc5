"""`docs/reference/errors.md`: made of `reactor_trio.error_catalog` and of the texts of the errors in the source.

`python -m tests.docs.errors_page` writes it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import reactor_trio
from reactor_trio.error_catalog import SECTION_OF_MODULE, SECTIONS

SOURCE = Path(reactor_trio.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
#: anchors that a log line names, with how it writes them
LOGGED = re.compile(r"(?:ERRORS_PAGE\}|%s)#([a-z-]+)")
HEAD = """\
# Errors

Each error of the command line, and each traceback of an author's mistake, ends with the place of its remedy on this page:
`docs/reference/errors.md#no-yield`. Below each remedy are the texts that errors of this kind have; `…` stands for names and
values.
"""


class Kind:
    """A class of errors.

    Attributes:
        anchor: the section of its errors.
        of_author: see `ReactorError`.
    """

    def __init__(self, parent: Kind | None, body: list[ast.stmt]) -> None:
        given = {
            ast.unparse(each.targets[0] if isinstance(each, ast.Assign) else each.target): each.value
            for each in body
            if isinstance(each, ast.Assign | ast.AnnAssign)
        }
        anchor, of_author = given.get("anchor"), given.get("_of_author")
        self.anchor: str = parent.anchor if parent and anchor is None else ast.literal_eval(anchor or ast.Constant(""))
        self.of_author: bool = parent is None or (of_author is None and parent.of_author)


class Raised:
    """One place of the source that makes an error: with which text, and the sections that the error may have there."""

    def __init__(self, file: Path, call: ast.Call, kind: Kind, variables: dict[str, ast.expr]) -> None:
        named = {word.arg: word.value for word in call.keywords}.get("anchor")
        own = SECTION_OF_MODULE.get(module_of(file), kind.anchor) if kind.of_author else kind.anchor
        self.anchors = {own} if named is None else set(texts_of(named))
        # An error with a code of its own has that as the first argument, and its text as the second.
        texts = [template(each, variables) for each in reversed(call.args)]
        self.text = next((text for text in texts if re.search(r"[a-z]{3}", text.replace("(at …)", ""))), "")


def texts_of(value: ast.expr) -> Iterator[str]:
    """The constants of an expression: both of `"a" if x else "b"`."""
    return (each.value for each in ast.walk(value) if isinstance(each, ast.Constant) and isinstance(each.value, str))


def template(value: ast.expr, variables: dict[str, ast.expr], depth: int = 4) -> str:
    """The text of an expression, with `…` for what is known at run time alone, and with that of a function's `variables`."""
    if isinstance(value, ast.Constant):
        return str(value.value) if isinstance(value.value, str) else "…"
    if isinstance(value, ast.JoinedStr):
        return "".join(template(each, variables, depth) for each in value.values)
    if isinstance(value, ast.BinOp):
        return template(value.left, variables, depth) + template(value.right, variables, depth)
    if isinstance(value, ast.FormattedValue):
        return template(value.value, variables, depth)
    if isinstance(value, ast.Name) and value.id in variables and depth:
        return template(variables[value.id], variables, depth - 1)
    return "…"


def module_of(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files() -> list[Path]:
    return [file for file in sorted(SOURCE.rglob("*.py")) if "templates" not in file.parts]


def raised() -> list[Raised]:
    """Every place of the source that makes a `ReactorError` or one of its subclasses."""
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files()}
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    kinds: dict[str, Kind] = {}
    for _ in range(4):  # until subclasses of subclasses are known
        for node in classes:
            parent = next((kinds[name] for base in node.bases if (name := ast.unparse(base)) in kinds), None)
            if parent is not None or node.name == "ReactorError":
                kinds[node.name] = Kind(parent, node.body)
    return [found for file, tree in trees.items() for found in _raised_in(file, tree, kinds)]


def _raised_in(file: Path, tree: ast.Module, kinds: dict[str, Kind]) -> Iterator[Raised]:
    seen: set[ast.Call] = set()
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for scope in (*reversed(functions), tree):  # the innermost first
        variables = {
            target.id: node.value
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(scope):
            if isinstance(node, ast.Call) and node not in seen and (name := getattr(node.func, "id", "")) in kinds:
                seen.add(node)
                yield Raised(file, node, kinds[name], variables if scope is not tree else {})


def logged() -> set[str]:
    """The sections that a line of the log names."""
    return {anchor for file in files() for anchor in LOGGED.findall(file.read_text(encoding="utf-8"))}


def page() -> str:
    """The page as it should be."""
    texts: dict[str, set[str]] = defaultdict(set)
    for each in raised():
        for anchor in each.anchors:
            if each.text:
                texts[anchor].add(" ".join(each.text.split()))
    lines = [HEAD]
    for anchor, section in SECTIONS.items():
        lines += [f'<a id="{anchor}"></a>', "", f"## {section.title}", "", section.remedy, ""]
        lines += [f"- `` {text} ``" if "`" in text else f"- `{text}`" for text in sorted(texts[anchor])]
        lines += [""] if texts[anchor] else []
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
