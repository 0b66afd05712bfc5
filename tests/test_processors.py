"""How many processors a server may use: what affinity and control groups leave of the machine's."""

from __future__ import annotations

import os

import pytest

from reactor_trio.processors import usable_processors


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Control groups that a test writes, on a machine of 64 processors."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)

    def write(files, own="0::/\n"):
        for name, text in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "own").write_text(own)
        return usable_processors(tmp_path / "cgroup", tmp_path / "own")

    return write


@pytest.mark.parametrize(("files", "own", "expected"), [
    ({}, "0::/\n", 64),
    ({"cpu.max": "max 100000\n"}, "0::/\n", 64),
    ({"cpu.max": "200000 100000\n"}, "0::/\n", 2),
    ({"cpu.max": "150000 100000\n"}, "0::/\n", 2),
    ({"cpu.max": "10000 100000\n"}, "0::/\n", 1),
    ({"pod/cpu.max": "400000 100000\n", "pod/own/cpu.max": "max 100000\n"}, "0::/pod/own\n", 4),
    ({"pod/cpu.max": "400000 100000\n", "pod/own/cpu.max": "300000 100000\n"}, "1:cpu:/\n0::/pod/own\n", 3),
    ({"cpu/cpu.cfs_quota_us": "500000\n", "cpu/cpu.cfs_period_us": "100000\n"}, "1:cpu:/\n", 5),
    ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, "1:cpu:/\n", 64),
    ({"cpu.max": "nonsense"}, "0::/../../..\n", 64),
])  # fmt: skip
def test_the_narrowest_control_group_counts(groups, files, own, expected):
    assert groups(files, own) == expected


def test_affinity_counts_and_where_there_is_none_the_machine(groups, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {3, 5})
    assert groups({"cpu.max": "400000 100000\n"}) == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert groups({"cpu.max": "400000 100000\n"}) == 4
    assert groups({"cpu.max": "max 100000\n"}) == 64
