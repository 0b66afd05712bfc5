"""`ServeLessor`: the gate's `Lessor` for a Serve deployment. Each lease is one streaming call that lasts for the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from reactor_trio.leases.holder import LeaseLost
from reactor_trio.leases.messages import Ended, Granted, LeaseMessage, Unavailable, decode
from reactor_trio.replicas.asyncio_bridge import run_stream
from reactor_trio.replicas.node_helper import end_if_stopped


class ServeLessor:
    """Gets leases from the replicas of one deployment.

    Args:
        handle: the deployment's handle.
        loop: the asyncio loop on which the handle must be used.
    """

    def __init__(self, handle: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._replicas = handle.options(stream=True)
        self._loop = loop

    async def lease(self, session_id: str, on_message: Callable[[LeaseMessage], None]) -> None:
        """Get a lease by one streaming call."""
        ended = False

        def take(data: bytes) -> None:
            nonlocal ended
            message = decode(data)
            if not isinstance(message, Unavailable):
                ended = isinstance(message, Ended)
                on_message(message)

        try:
            await run_stream(self._loop, lambda: self._call(session_id), take)
        except Exception as error:  # Ray's error: the replica died, or none can be started
            raise LeaseLost(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}") from None
        if not ended:
            raise LeaseLost("the replica had no slot after all")

    async def silent(self, granted: Granted) -> None:
        """Kill the replica's process if it is stopped."""
        await run_stream(self._loop, lambda: end_if_stopped(granted.replica), lambda _: None)

    async def _call(self, session_id: str) -> AsyncIterator[bytes]:
        response = self._replicas.lease.remote(session_id)
        try:
            async for data in response:
                yield data
        except asyncio.CancelledError:
            response.cancel()
            raise
