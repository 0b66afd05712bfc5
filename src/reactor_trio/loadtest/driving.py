"""Clients that come, wait, watch, command and go as planned: a task for each, in one nursery.

A client that is refused with 429 or 503 comes again when the server says. It asks, and waits in the queue, as long as its
patience lasts; then it gives up. Its commands go when they are planned, whether the one before was answered or not: a slow
server is not spared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import anyio.abc

from reactor_trio.client import Client, MessageStream, observe
from reactor_trio.client.session_protocol import Commanded, Received, TextEvent
from reactor_trio.errors import CommandError, ConnectionRefused, ProtocolError, SessionEnded
from reactor_trio.loadtest.load_records import Ledger, Pictures, Record
from reactor_trio.loadtest.plan import Shape, Visit, choices, moments, visits
from reactor_trio.loadtest.random_commands import Repertoire

#: A client whose session has begun, during a block: `reactor_trio.client.connect` with its URL, or the same of a test.
Connect = Callable[..., AbstractAsyncContextManager[Client]]

#: what a server answers that may let a client in later
LATER = (429, 503)
#: seconds after which to ask again if the server does not say
ASK_AGAIN = 1.0
#: commands of one session that may be without an answer; one more is not sent, and counted
UNANSWERED = 32


class Load:
    """One load.

    Args:
        shape: who comes, when, and what each does.
        connect: opens a session, with `on_queued=`; with `role="viewer"` and `token=` another view of it.
        at_once: clients, viewers included, that are connected or ask at a time; who comes then comes later, and the delay
            is a figure.
        patience: seconds that a client asks and waits before it gives up.
        decode: decode every picture, as a client with a screen does; else it is received and acknowledged only.
        only: names of the commands to choose from; by default all that the server takes.
    """

    def __init__(
        self,
        shape: Shape,
        connect: Connect,
        *,
        at_once: int = 500,
        patience: float = 300.0,
        decode: bool = False,
        only: Collection[str] = (),
    ) -> None:
        if at_once < 1 + shape.viewers:
            raise ValueError(f"at_once: a session with its viewers is {1 + shape.viewers} clients, more than {at_once}")
        self.shape = shape
        self.ledger = Ledger()
        self._connect = connect
        self._sessions_at_once = at_once // (1 + shape.viewers)
        self._patience = patience
        self._decode = decode
        self._only = only

    async def run(self) -> None:
        """Return when the last client has gone. Cancelled, all go at once; `ledger` has the figures in either case."""
        room = anyio.Semaphore(self._sessions_at_once)
        began = anyio.current_time()
        try:
            async with anyio.create_task_group() as clients:
                for visit in visits(self.shape):
                    await anyio.sleep_until(began + visit.at)
                    await room.acquire()
                    record = self.ledger.begin(visit, anyio.current_time() - began - visit.at)
                    clients.start_soon(self._come_and_go, record, room)
        finally:
            self.ledger.interrupt()

    async def _come_and_go(self, record: Record, room: anyio.Semaphore) -> None:
        ask_at: float | None = record.asked_at
        try:
            while ask_at is not None:
                await anyio.sleep_until(ask_at)
                ask_at = await self._visit(record)
        finally:
            room.release()

    async def _visit(self, record: Record) -> float | None:
        """Ask, and stay if there is room; when to ask again, or None if the visit is over."""
        until = record.asked_at + self._patience
        try:
            with anyio.CancelScope(deadline=until) as waiting:
                async with self._connect(on_queued=record.queued) as client:
                    waiting.deadline = math.inf
                    record.let_in()
                    await self._stay(client, record)
            if waiting.cancelled_caught:
                record.end("gave_up")
        except ConnectionRefused as refused:
            return self._refused(record, refused, until)
        except SessionEnded as ended:
            if ended.reason == "no_room":  # another was sooner, after both had been told that there is room
                return self._refused(record, ended, until)
            record.end("ended", ended.reason)
        except (OSError, ProtocolError) as error:
            record.end("failed", _kind(error))
        return None

    def _refused(self, record: Record, refused: ConnectionRefused | SessionEnded, until: float) -> float | None:
        record.refused(refused)
        again_in = ASK_AGAIN
        if isinstance(refused, ConnectionRefused):
            if refused.status not in LATER:
                record.end("refused", f"HTTP {refused.status}")
                self.ledger.fail(f"HTTP {refused.status}")
                return None
            if refused.retry_after is not None:
                again_in = refused.retry_after
        again_at = anyio.current_time() + again_in
        if again_at < until:
            return again_at
        record.end("gave_up")
        return None

    async def _stay(self, client: Client, record: Record) -> None:
        """Watch for as long as planned, or until the session ends."""
        visit = record.visit
        messages = client.messages()
        with observe(client, record.see), anyio.move_on_after(visit.length):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._command, client, visit)
                for _ in range(self.shape.viewers):
                    tasks.start_soon(self._view, client.share_token)
                for track in client.tracks if self._decode else ():
                    if track.direction == "out":
                        tasks.start_soon(self._decode_all, client, track.name)
                await _until_over(messages)
                tasks.cancel_scope.cancel()
        if client.ended is not None:
            record.end("ended", client.ended)
        elif visit.vanishes:
            record.end("vanished")
            await client.vanish()
        else:
            record.end("left")

    async def _command(self, client: Client, visit: Visit) -> None:
        repertoire = Repertoire(client.schema, self._only)
        self.ledger.left_out |= repertoire.left_out
        chance, began = choices(self.shape, visit), anyio.current_time()
        unanswered = 0

        async def send(name: str, arguments: dict[str, Any]) -> None:
            nonlocal unanswered
            unanswered += 1
            try:
                await client.command(name, **arguments)
            except (CommandError, SessionEnded):  # the first is in the ledger, the second ends the visit
                return
            finally:
                unanswered -= 1

        async with anyio.create_task_group() as sending:
            for moment in moments(self.shape, visit):
                if (chosen := repertoire.choose(chance)) is None:
                    return
                await anyio.sleep_until(began + moment)
                if unanswered < UNANSWERED:
                    sending.start_soon(send, *chosen)
                else:
                    self.ledger.commands["not sent"] += 1

    async def _decode_all(self, client: Client, track: str) -> None:
        try:
            async for _ in client.frames(track):
                pass
        except ProtocolError:
            self.ledger.fail("a frame that cannot be decoded")
        except SessionEnded:  # the visit ends, and says why
            return

    async def _view(self, share_token: str | None) -> None:
        """Watch the session until it ends."""
        ledger = self.ledger
        pictures = Pictures(ledger.viewers_intervals, ledger.counts, "viewers' ")
        try:
            async with self._connect(role="viewer", token=share_token) as client:
                ledger.counts["viewers"] += 1
                with observe(client, lambda event: _see_only(event, pictures)):
                    await _until_over(client.messages())
        except ConnectionRefused as refused:
            ledger.refuse(refused)
        except SessionEnded:  # the session's own record says why
            pass
        except (OSError, ProtocolError) as error:
            ledger.fail(f"viewer: {_kind(error)}")
        finally:
            if pictures.fps is not None:
                ledger.viewers_fps.add(pictures.fps)


def _see_only(event: TextEvent | Received | Commanded, pictures: Pictures) -> None:
    if isinstance(event, Received):
        pictures.take(event)


async def _until_over(messages: MessageStream) -> None:
    """Return when the session has ended; `Client.ended` says why."""
    try:
        async for _ in messages:
            pass
    except SessionEnded:
        return


def _kind(error: OSError | ProtocolError) -> str:
    """An error in words that are the same for all of its kind."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ProtocolError):
        return "protocol_error"
    return "no connection" if isinstance(error, ConnectionError) or error.strerror is None else error.strerror
