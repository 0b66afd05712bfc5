"""`docs/contribute/design.md` begins with the tasks of a client. A served client has just these, in these nurseries."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import trio
from tests.docs.blocks.page import blocks_of
from tests.support.models import Camera

from reactor_trio.interface import Output, ReactorPipeline, Saves, Video
from reactor_trio.session import Session
from reactor_trio.testing import open_server

PAGE = Path(__file__).parents[2] / "docs" / "contribute" / "design.md"
ROW = re.compile(r"^\| ([a-z ]+) \| (connection|session) \| `([\w.]+):([\w.]+)` \|", re.MULTILINE)


class Picture(Output):
    main: Video


class Echo(ReactorPipeline):
    eye: Camera
    output: Picture
    saves = Saves()

    async def inference(self):
        while True:
            (frame,) = await self.eye.camera.read()
            yield frame.data


def nurseries() -> Iterator[set[str]]:
    """The names of the tasks of each nursery."""
    waiting = [trio.lowlevel.current_root_task()]
    while waiting:
        for nursery in waiting.pop().child_nurseries:
            yield {task.name for task in nursery.child_tasks}
            waiting += nursery.child_tasks


def first_section() -> str:
    return PAGE.read_text(encoding="utf-8").split("\n## ")[1]


async def test_the_page_has_the_tasks_of_each_nursery(autojump_clock):
    said: dict[str, set[str]] = {"connection": set(), "session": set()}
    for task, nursery, module, function in ROW.findall(first_section()):
        owner, name = function.split(".")
        assert inspect.iscoroutinefunction(getattr(getattr(importlib.import_module(f"reactor_trio.{module}"), owner), name))
        said[nursery].add(task)
    async with open_server(Echo) as server, server.connect():
        await trio.sleep(1)
        found = list(nurseries())
    assert [tasks for tasks in found if "transport" in tasks] == [said["connection"]]
    assert [tasks for tasks in found if "pacer" in tasks] == [said["session"]]


def test_the_page_shows_the_nursery_of_a_session():
    block = next(block for block in blocks_of(PAGE) if block.text.startswith("async with trio.open_nursery() as tasks:"))
    assert len(block.text.splitlines()) == 9
    assert textwrap.indent(block.text.rstrip(), " " * 12) in inspect.getsource(Session.run)
