"""The gate's leases over a fake Serve deployment: the messages of its calls, and how the calls end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import trio
from tests.support.replica_kit import PATIENCE

from reactor_trio.leases.holder import LeaseLost
from reactor_trio.leases.messages import Beat, Claimed, Ended, Granted, LeaseMessage, Unavailable
from reactor_trio.replicas import serve_lessor
from reactor_trio.replicas.serve_lessor import ServeLessor

GRANTED = Granted("s1", "ws://127.0.0.1:20001/ws", "k" * 64, 10.0, "17@node")

#: In place of a message: the call waits forever.
FOREVER = None
Item = LeaseMessage | Unavailable | BaseException | None


class Call:
    """Serve's response to a streaming call: its items one by one, and a way to cancel it."""

    def __init__(self, items: list[Item]) -> None:
        self._items = items
        self.cancelled = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for item in self._items:
            if item is FOREVER:
                await asyncio.Event().wait()
            elif isinstance(item, BaseException):
                raise item
            else:
                yield msgspec.json.encode(item)

    def cancel(self) -> None:
        self.cancelled = True


class Deployment:
    """A handle whose next call has these `items`."""

    def __init__(self, *items: Item) -> None:
        self._items = [*items]
        self.calls: dict[str, Call] = {}
        self.lease = self  # `handle.lease.remote(...)`

    def options(self, *, stream: bool) -> Deployment:
        assert stream
        return self

    def remote(self, session_id: str) -> Call:
        asyncio.get_running_loop()  # on no other thread is there one
        self.calls[session_id] = Call(self._items)
        return self.calls[session_id]


async def lease(loop: asyncio.AbstractEventLoop, deployment: Deployment) -> list[LeaseMessage]:
    words: list[LeaseMessage] = []
    with trio.fail_after(PATIENCE):
        await ServeLessor(deployment, loop).lease("s1", words.append)
    return words


async def test_a_lease_has_its_messages_and_ends_with_the_last(asyncio_loop: asyncio.AbstractEventLoop) -> None:
    said: list[LeaseMessage] = [GRANTED, Claimed(), Beat(), Beat(), Ended("client_left")]
    deployment = Deployment(*said)
    assert await lease(asyncio_loop, deployment) == said
    assert [*deployment.calls] == ["s1"]
    assert not deployment.calls["s1"].cancelled


def test_the_refusal_of_a_lease_on_the_wire() -> None:
    assert msgspec.json.encode(Unavailable("draining")) == b'{"type":"Unavailable","reason":"draining"}'


async def test_a_replica_without_a_slot_after_all_is_a_lost_lease(asyncio_loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(LeaseLost, match="had no slot after all"):
        await lease(asyncio_loop, Deployment(Unavailable("draining")))


async def test_a_call_that_ends_without_the_last_message_is_a_lost_lease(asyncio_loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(LeaseLost):
        await lease(asyncio_loop, Deployment(GRANTED, Claimed()))


@pytest.mark.parametrize("before", [[], [GRANTED], [GRANTED, Claimed(), Beat()]], ids=["asked", "granted", "claimed"])
async def test_an_error_of_the_call_is_a_lost_lease_in_one_line(
    asyncio_loop: asyncio.AbstractEventLoop, before: list[LeaseMessage]
) -> None:
    died = RuntimeError("The actor died.\nTraceback: it is long\n")
    with pytest.raises(LeaseLost) as lost:
        await lease(asyncio_loop, Deployment(*before, died))
    assert str(lost.value) == "RuntimeError: The actor died."


@pytest.mark.parametrize("said", [[], [GRANTED], [GRANTED, Claimed()]], ids=["asked", "granted", "claimed"])
async def test_a_cancellation_cancels_the_call(asyncio_loop: asyncio.AbstractEventLoop, said: list[LeaseMessage]) -> None:
    deployment, words = Deployment(*said, FOREVER), []
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            heard = trio.Event()

            def tell(word: LeaseMessage) -> None:
                words.append(word)
                if words == said:
                    heard.set()

            nursery.start_soon(ServeLessor(deployment, asyncio_loop).lease, "s1", tell)
            if said:
                await heard.wait()
            else:
                await called(asyncio_loop, deployment)
            nursery.cancel_scope.cancel()
    assert words == said
    assert deployment.calls["s1"].cancelled


async def called(loop: asyncio.AbstractEventLoop, deployment: Deployment) -> None:
    """Return when the deployment has been called and the call waits."""
    while not deployment.calls:
        turn = trio.Event()
        loop.call_soon_threadsafe(trio.lowlevel.current_trio_token().run_sync_soon, turn.set)
        await turn.wait()


async def test_a_silent_replica_is_checked_by_its_name(
    asyncio_loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []

    async def end_if_stopped(name: str) -> AsyncIterator[Any]:
        looked_at.append(name)
        yield "it was stopped, and has been killed"

    monkeypatch.setattr(serve_lessor, "end_if_stopped", end_if_stopped)
    with trio.fail_after(PATIENCE):
        await ServeLessor(Deployment(), asyncio_loop).silent(GRANTED)
    assert looked_at == ["17@node"]
