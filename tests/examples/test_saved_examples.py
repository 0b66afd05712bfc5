"""Each example that has `Saves` goes on from its saved worlds."""

from __future__ import annotations

import pytest

from reactor_trio.testing import assert_restores

SMALL = {
    "dream": ["scale=1", "threads=1"],
    "pools": ["height=24", "width=32", "scale=1"],
    "flight": ["width=40", "height=24", "map=64", "batch=1"],
}
COMMANDS = {
    "dream": [
        (0, "set_let_it_dream", {"let_it_dream": True}), (2, "set_temperature", {"temperature": 0.3}), (5, "key_left", {}),
    ],
    "pools": [(3, "drop", {"x": 0.3, "y": 0.6}), (12, "set_calm", {"calm": 0.1})],
    "flight": [(3, "key_left", {"down": True}), (12, "set_speed", {"speed": 90.0})],
}


@pytest.mark.parametrize("name", SMALL)
def test_an_example_goes_on_from_its_saved_world(example, name):
    manifest = example(name, *SMALL[name])
    assert_restores(manifest.model, commands=COMMANDS[name], config=manifest.config, at=(1, 9), steps=30)
