"""Fixtures: one application of two replicas on a Ray of its own, for all tests here; and an asyncio loop."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.support import needs
from tests.support.replica_kit import PATIENCE, Application, running

with suppress(ModuleNotFoundError), warnings.catch_warnings():  # Ray's own, about pydantic; an import starts nothing
    warnings.simplefilter("ignore", DeprecationWarning)
    import ray.serve  # noqa: F401


@pytest.fixture(scope="session")
def shared_application() -> Iterator[Application]:
    """One application for all tests: starting Ray takes longer than most tests."""
    needs.require("ray")
    with running(replicas=2, max_session=PATIENCE) as application:
        yield application


@pytest.fixture
async def application(shared_application: Application) -> Application:
    """The application, when both replicas serve again after the test before."""
    await shared_application.whole(replicas=2)
    return shared_application


@pytest.fixture
def asyncio_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs on a thread of its own, as Ray's does."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="asyncio")
    thread.start()
    try:
        yield loop
        assert not asyncio.all_tasks(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
