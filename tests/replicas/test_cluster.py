"""The options with which Ray is started on this machine. Ray itself is not started."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from reactor_trio.replicas import cluster


@pytest.mark.parametrize(("usable", "given"), [(1, 2), (3, 3)])
def test_ray_has_the_processors_that_this_process_may_use(
    monkeypatch: pytest.MonkeyPatch, usable: int, given: int
) -> None:
    asked: dict[str, Any] = {}
    ray = SimpleNamespace(init=lambda **options: asked.update(options), shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr("os.environ", {})
    monkeypatch.setattr("os.cpu_count", lambda: 96)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(usable)), raising=False)
    with cluster.local_cluster(0):
        assert asked["num_cpus"] == given
