"""The benchmark of what the runtime takes from the model: its model measures itself, and its bare spine sends frames."""

from __future__ import annotations

import pytest
from benchmarks.peers import RawClient, bare_server

from benchmarks import gap


@pytest.mark.parametrize("shape", [(8, 8, 3), (3, 8, 8, 3)])
def test_the_model_measures_each_way_of_yielding(shape):
    taken = gap.timed(shape, gap.WAYS, steps=4, seconds=0.001)
    assert {key: len(samples) for key, samples in taken.items()} == {
        (way, what): 2 for way in gap.WAYS for what in ("gap", "copy")
    }
    assert all(wall > 0 for samples in taken.values() for wall, _ in samples)


def test_the_bare_spine_sends_pictures():
    with bare_server(gap.__name__) as (_, port), RawClient(port) as client:
        for number in range(3):
            packet = client.picture()
            assert (packet.seq, packet.payload.nbytes) == (number, gap.WIDTH * gap.HEIGHT * 3)
