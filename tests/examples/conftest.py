"""Examples are loaded as `reactor run` loads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reactor_trio.configuration.manifest import load_manifest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def torch_threads():
    """Some examples set them for the whole process."""
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def example():
    """`example("gradient")`: the manifest of an example, its model imported."""

    def load(name, *overrides):
        manifest = load_manifest(EXAMPLES / name, overrides)
        assert manifest.model is not None
        return manifest

    return load
