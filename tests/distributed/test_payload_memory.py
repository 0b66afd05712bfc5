"""The memory for arrays of a group of ranks: its bound, what is read out of it, and that it leaves no descriptor."""

from __future__ import annotations

import os
from pickle import PickleBuffer

import pytest

from reactor_trio.distributed import DistributedRunner, SharedSlotAllocationFailed
from reactor_trio.distributed.shared_payloads import CALLS, RESULTS, Inherited, PayloadMemory
from reactor_trio.errors import ReactorError
from reactor_trio.memory.shared_mapping import PAGE, new_shared_file
from tests.distributed.workers import Worker


def test_a_call_has_its_bound_and_each_side_reads_what_the_other_wrote() -> None:
    before = os.listdir("/proc/self/fd")
    descriptor = new_shared_file("reactor-test", 2 * PAGE)
    caller, rank = PayloadMemory(Inherited(os.dup(descriptor)), CALLS), PayloadMemory(Inherited(descriptor), RESULTS)
    sizes = caller.write([PickleBuffer(b"a" * PAGE), PickleBuffer(b""), PickleBuffer(b"b" * PAGE)])
    assert sizes == [PAGE, 0, PAGE]
    with pytest.raises(SharedSlotAllocationFailed, match=rf"{2 * PAGE + 1} bytes of arrays: at most {2 * PAGE}"):
        caller.write([PickleBuffer(bytes(2 * PAGE + 1))])
    assert rank.read(sizes) == [b"a" * PAGE, b"", b"b" * PAGE]
    assert rank.write([PickleBuffer(b"result")]) == [6]
    assert caller.read([6]) == [b"result"]
    caller.close()
    caller.close()
    del rank  # a runner that is forgotten
    assert os.listdir("/proc/self/fd") == before


def test_without_memory_to_share_the_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(ReactorError, match="DistributedRunner needs Linux"):
        DistributedRunner(Worker).start()
