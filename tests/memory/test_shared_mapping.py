"""Memory that two processes map, as one of them has it."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reactor_trio.memory.shared_mapping import PAGE, SharedMapping, new_shared_file, new_shared_mapping

KIND = np.dtype(np.int16)


def mapping_of(name: str) -> str:
    """What the system says of this process's mapping of that name."""
    text = Path("/proc/self/smaps").read_text()
    found = re.search(rf"/memfd:{name} .*\n((?:\w+:.*\n)+)", text)
    return "" if found is None else found[1]


def test_an_array_reports_its_last_use() -> None:
    gone: list[int] = []
    with new_shared_mapping("reactor-test", PAGE) as (memory, _):
        array = memory.array(64, (4, 5), KIND, gone.append, 7)
        assert array.shape == (4, 5)
        views: list[object] = [array[1:], array.T, memoryview(array), array.view(np.uint8).reshape(-1)[3:]]
        del array
        while views:
            assert not gone
            views.pop(0)
        assert gone == [7]


@pytest.mark.parametrize(
    ("offset", "shape"),
    [(-2, (1,)), (8 * PAGE - 6, (4,)), (0, (4 * PAGE + 1,)), (2**62, (1,)), (0, (2**40, 2**40))],
)
def test_an_array_that_would_lie_outside_is_refused(offset: int, shape: tuple[int, ...]) -> None:
    with new_shared_mapping("reactor-test", PAGE) as (memory, _):
        assert memory.array(8 * PAGE - 8, (4,), KIND, print, 0).shape == (4,)
        with pytest.raises(ValueError, match="do not lie in the memory"):
            memory.array(offset, shape, KIND, print, 0)


def test_objects_cannot_lie_in_it() -> None:
    with new_shared_mapping("reactor-test", PAGE) as (memory, _), pytest.raises(ValueError, match="object"):
        memory.array(0, (1,), np.dtype(object), print, 0)


def test_addresses_without_data_take_no_memory_and_no_core_dump_reads_them() -> None:
    with new_shared_mapping("reactor-sparse") as (memory, _):
        half = memory.half(1)
        assert len(half) > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory.write(half.start, memoryview(b"x" * PAGE))
        said = mapping_of("reactor-sparse")
        assert re.search(rf"Rss: +{PAGE // 1024} kB", said), said
        assert "dd" in said.partition("VmFlags:")[2].split()
        memory.release(half.start, PAGE)
        assert re.search(r"Rss: +0 kB", mapping_of("reactor-sparse"))
        assert memory.read(half.start, 4) == bytes(4)


def test_a_memory_takes_no_descriptor_more_however_much_lies_in_it() -> None:
    with new_shared_mapping("reactor-test", 100 * PAGE) as (memory, _):
        before = len(os.listdir("/proc/self/fd"))
        arrays = [memory.array(number * PAGE, (PAGE,), np.dtype(np.uint8), print, number) for number in range(100)]
        for array in arrays:
            array[...] = 1
        assert len(os.listdir("/proc/self/fd")) == before


def test_arrays_outlive_the_end_and_the_memory_goes_with_the_last() -> None:
    gc.collect()
    descriptor = new_shared_file("reactor-last", PAGE)
    memory = SharedMapping(descriptor)
    os.close(descriptor)
    array = memory.array(0, (3,), KIND, int, 0)
    array[...] = 5
    memory.close()
    assert (array == 5).all()
    assert mapping_of("reactor-last")
    del array
    assert not mapping_of("reactor-last")


def test_another_process_that_has_inherited_it_sees_it() -> None:
    program = """
import sys
from reactor_trio.memory.shared_mapping import SharedMapping

memory = SharedMapping(int(sys.argv[1]))
print(bytes(memory.read(memory.half(0).start, 5)).decode())
memory.write(memory.half(1).start, memoryview(b"there"))
"""
    with new_shared_mapping("reactor-test", PAGE) as (memory, descriptor):
        memory.write(memory.half(0).start, memoryview(b"hello"))
        given = [sys.executable, "-c", program, str(descriptor)]
        done = subprocess.run(given, pass_fds=[descriptor], capture_output=True, text=True, check=True)
        assert done.stdout == "hello\n"
        assert memory.read(memory.half(1).start, 5) == b"there"
