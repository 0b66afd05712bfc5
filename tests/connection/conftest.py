import pytest
import trio
from tests.support.rendition_stage import Stage


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery) -> Stage:
    return Stage(nursery, monkeypatch)
