"""One application of two replicas on a Ray of its own, for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from replica_kit import Application, running


@pytest.fixture(scope="module")
def shared_application() -> Iterator[Application]:
    with running(replicas=2) as application:
        yield application


@pytest.fixture
async def application(shared_application: Application) -> Application:
    """Whole again after whatever the test before did to it."""
    await shared_application.whole(replicas=2)
    return shared_application
