"""The counts themselves: a thing that is left is found, named and explained; what is not left is not."""

from __future__ import annotations

import gc
import os
import threading

import msgspec
import numpy as np

from reactor_trio.crossing.local_channel import LocalEnd
from reactor_trio.crossing.messages import RetimePlayout
from reactor_trio.interface import ReactorPipeline
from reactor_trio.testing import open_server
from tests.leftovers.held import BIG, Held, let_go, standing_still, why
from tests.leftovers.held_commands import HeldCommands, held_of
from tests.support.models import Picture

END = "reactor_trio.crossing.local_channel.LocalEnd"


KEPT: dict[str, object] = {}


def a_knot() -> None:
    """An end of a channel that holds itself by a bound method."""
    end = LocalEnd(print, asleep=False)
    end.connect({int: end.take})


def test_reference_counting_frees_all_objects_of_a_session():
    with standing_still():
        before = Held.now()
        LocalEnd(print, asleep=True).connect({int: print})
        assert Held.now().beyond(before) == []


def test_a_knot_is_counted_and_its_circle_named():
    with standing_still():
        before = Held.now()
        for _ in range(3):
            a_knot()
        left = Held.now().beyond(before)
        assert f"+3 {END}" in left
        told = why(before)
    assert "3 knots of" in told
    assert "(1 LocalEnd, 1 method LocalEnd.take)" in told
    assert "LocalEnd._handlers -> dict[<class 'int'>] -> method LocalEnd.take" in told
    assert "in use" not in told


def test_an_object_in_use_is_named_with_the_chain_that_holds_it():
    with standing_still():
        before = Held.now()
        KEPT["key"] = [LocalEnd(print, asleep=True)]
        try:
            assert f"+1 {END}" in Held.now().beyond(before)
            told = why(before)
        finally:
            KEPT.clear()
    assert f"+1 {END} in use: module tests.leftovers.test_held['KEPT'] -> dict['key'] -> list[0] -> LocalEnd" in told


def test_a_frame_that_a_traceback_keeps_is_counted():
    with standing_still():
        before = Held.now()
        try:
            end = LocalEnd(print, asleep=False)
            end.peer = LocalEnd(_raising, asleep=True)
            end.send(RetimePlayout(0.5))
        except ValueError as error:
            kept = error
        assert "+1 frame of LocalEnd.send" in Held.now().beyond(before)
        del kept, end
        assert Held.now().beyond(before) == []


def _raising(_deliver: object) -> None:
    raise ValueError


def test_big_values_and_resources_of_the_system_are_counted(tmp_path):
    with standing_still():
        before = Held.now(tmp_path)
        frame = BIG.empty((2, 2, 3), np.uint8)
        view = frame[0]
        del frame
        (tmp_path / "file").write_bytes(b"1")
        memfd, (reader, writer) = os.memfd_create("test"), os.pipe()
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        lines = Held.now(tmp_path).beyond(before)
        assert {"+1 frame (big)", "+1 temporary files (system)", "+1 descriptor of memfd (system)",
                "+2 descriptor of pipe (system)", "+1 threads of Python (system)"} <= set(lines)  # fmt: skip
        assert "+1 frame (big)" not in Held.now(tmp_path).beyond(before, big=1)
        stop.set()
        thread.join()
        for number in (memfd, reader, writer):
            os.close(number)
        (tmp_path / "file").unlink()
        del view
        assert Held.now(tmp_path).beyond(before) == []


def test_the_collector_is_off_in_a_block_and_on_after_it():
    assert gc.isenabled()
    with standing_still():
        assert not gc.isenabled()
    assert gc.isenabled()


class Asked(HeldCommands, ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


async def test_a_model_says_what_its_own_process_holds(autojump_clock):
    async with open_server(Asked, isolation="process") as server, server.connect() as client:
        await client.command("hold_still")
        try:
            before = held_of(await client.command("held"))
            a_knot()  # in a test both run in one process
            left = held_of(await client.command("held")).beyond(before)
            assert any(END in line for line in left)
            assert "1 LocalEnd" in await client.command("why", before=msgspec.to_builtins(before))
        finally:
            let_go()
