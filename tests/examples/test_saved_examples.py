"""Each example that has `Saves` goes on from its saved worlds."""

from __future__ import annotations

import pytest

from reactor_trio.testing import assert_restores

SMALL = {
    "dream": ["scale=1", "threads=1"],
    "pools": ["height=24", "width=32", "scale=1"],
    "gradient": ["width=32", "height=24"],
    "neural_ca": ["cells=16", "size=32"],
    "run_loop": ["size=24", "scale=1", "rounds=2"],
    "two_ranks": ["height=16", "width=24"],
    "flight": ["width=40", "height=24", "map=64", "batch=1"],
}
COMMANDS = {
    "dream": [
        (0, "set_let_it_dream", {"let_it_dream": True}), (2, "set_temperature", {"temperature": 0.3}), (5, "key_left", {}),
    ],
    "pools": [(3, "drop", {"x": 0.3, "y": 0.6}), (12, "set_calm", {"calm": 0.1})],
    "gradient": [(0, "set_tone", {"tone": 0.5}), (12, "set_brightness", {"brightness": 0.4})],
    "neural_ca": [
        (0, "set_speed", {"speed": 1.5}), (4, "pointer_down", {"x": 0.3, "y": 0.3}),
        (11, "pointer_move", {"x": 0.7, "y": 0.6}),
    ],
    "run_loop": [
        (0, "key_space", {}), (3, "set_pattern", {"pattern": "spots"}), (7, "key_space", {}),
        (12, "set_speed", {"speed": 2}),
    ],
    "two_ranks": [(0, "pointer_down", {"x": 0.5, "y": 0.3}), (12, "set_calm", {"calm": 0.1})],
    "flight": [(3, "key_left", {"down": True}), (12, "set_speed", {"speed": 90.0})],
}


@pytest.mark.parametrize("name", SMALL)
def test_an_example_goes_on_from_its_saved_world(example, name):
    manifest = example(name, *SMALL[name])
    assert_restores(manifest.model, commands=COMMANDS[name], config=manifest.config, at=(1, 9), steps=30)
