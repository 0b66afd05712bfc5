"""Each refusal has a code of one table, and the table is what the documentation lists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import trio
from tests.support.black import Black

import reactor_trio
from reactor_trio.client import connect
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import ConnectionRefused
from reactor_trio.protocol.refusals import REFUSAL_CODES, REFUSALS, LimitKind
from reactor_trio.server.serve import serve

SOURCE = Path(reactor_trio.__file__).parent
PAGE = SOURCE.parents[1] / "docs/reference/protocol.md"
EDGE = ("transport", "edge", "server", "gate", "connection", "session")


def edge_calls() -> Iterator[tuple[str, ast.Call]]:
    for folder in EDGE:
        for file in (SOURCE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    yield node.func.attr, node


def test_every_code_has_a_status_and_the_page_has_the_same_table():
    assert tuple(REFUSALS) == REFUSAL_CODES
    assert {code for code, kind in REFUSALS.items() if kind.limit is not None} == set(get_args(LimitKind))
    assert all(kind.limit in (None, code) for code, kind in REFUSALS.items())
    row = r"^\| `(\w+)` \| (\d{3}) \| (.*?) \| (.*?) \| (.*?) \|$"
    rows = re.findall(row, PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    setting = {code: f"`{kind.setting}`" if kind.setting else "–" for code, kind in REFUSALS.items()}
    helps = {"later": "later", "credential": "another credential", None: "–"}
    assert rows == [
        (code, str(kind.status), kind.meaning, setting[code], helps[kind.retry]) for code, kind in REFUSALS.items()
    ]


def test_every_code_is_used_and_no_refusal_is_made_without_one():
    text = "\n".join(file.read_text(encoding="utf-8") for folder in EDGE for file in (SOURCE / folder).rglob("*.py"))
    assert [code for code in REFUSAL_CODES if f'"{code}"' not in text] == []
    for name, call in edge_calls():
        if name == "plain" and call.args and isinstance(call.args[0], ast.Constant):
            assert call.args[0].value < 400, f"line {call.lineno}: Response.refusing gives it a code"


async def test_a_client_learns_the_code_of_its_refusal():
    async with trio.open_nursery() as nursery:
        settings = Settings(port=0, queue=0)
        server = await nursery.start(lambda task_status: serve(Black, settings=settings, task_status=task_status))
        url = server.session_url("127.0.0.1")
        async with connect(url):
            for query, code in (("", "full"), ("?role=king", "bad_request"), ("?model=other", "wrong_model")):
                with pytest.raises(ConnectionRefused) as refused:
                    async with connect(url + query):
                        raise AssertionError(query)
                assert (refused.value.code, refused.value.status) == (code, REFUSALS[code].status)
        nursery.cancel_scope.cancel()
