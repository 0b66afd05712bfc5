"""The local variables of a suspended generator that its code reads again before it sets them: what a rewind loses."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import FrameType
from typing import Final

_ALWAYS: Final = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE")
_ENDS: Final = ("RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "RAISE_VARARGS", "RERAISE")
_JUMPS: Final = frozenset((*dis.hasjrel, *dis.hasjabs))


def live_locals(frame: FrameType) -> dict[str, int]:
    """Return the names of the local variables that are read after the yield, or call, as they are now, with their lines."""
    code = list(dis.get_instructions(frame.f_code))
    places = {each.offset: index for index, each in enumerate(code)}
    begin = places[max(offset for offset in places if offset <= frame.f_lasti)] + 1  # in a call it may point behind that
    return {name: _first_line(code, name, frame) for name in frame.f_locals if _is_read(code, places, begin, name)}


def _is_read(code: list[dis.Instruction], places: dict[int, int], begin: int, name: str) -> bool:
    waiting, seen = [begin], set()
    while waiting:
        index = waiting.pop()
        if index in seen or index >= len(code):
            continue
        seen.add(index)
        each = code[index]
        done = False
        for use, used in _uses(each):
            if used == name and not done:
                if use == "LOAD":
                    return True
                done = True
        if done:
            continue
        if each.opcode in _JUMPS:
            waiting.append(places[each.argval])
        if each.opname not in _ALWAYS and each.opname not in _ENDS:
            waiting.append(index + 1)
    return False


def _uses(each: dis.Instruction) -> Iterator[tuple[str, str]]:
    """What an instruction does to local variables, in order: `LOAD` or `STORE`, and the name."""
    if "_FAST" in each.opname and each.opname != "LOAD_FAST_AND_CLEAR":
        names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        kinds = [part for part in each.opname.split("_") if part in ("LOAD", "STORE", "DELETE")]
        yield from ((("LOAD" if kind == "LOAD" else "STORE"), name) for kind, name in zip(kinds, names, strict=True))
    elif each.opname in ("LOAD_DEREF", "LOAD_CLOSURE"):
        yield "LOAD", each.argval
    elif each.opname == "STORE_DEREF":
        yield "STORE", each.argval


def _first_line(code: list[dis.Instruction], name: str, frame: FrameType) -> int:
    for each in code:
        if ("STORE", name) in _uses(each) and each.positions is not None and each.positions.lineno is not None:
            return each.positions.lineno
    return frame.f_code.co_firstlineno
