"""The clients of a load test: one task for each, in one nursery. They arrive, wait, watch, send commands and leave as
planned.

A client that the server refuses for now, as when it is full, asks again when the server says. It gives up when its patience
is over, which covers asking and the wait in the queue. It sends its commands at their planned times, whether or not the one
before was answered: a slow server gets no relief.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any

import anyio
import anyio.abc

from reactor_trio.client import Client, MessageStream, observe
from reactor_trio.client.refusals import retry_of
from reactor_trio.errors import CommandError, ConnectionRefused, ProtocolError, SessionEnded
from reactor_trio.loadtest.load_records import Ledger, PictureMeter, VisitRecord
from reactor_trio.loadtest.plan import Shape, Visit, choices, moments, visits
from reactor_trio.loadtest.random_commands import Repertoire

#: Opens a session for a block: `reactor_trio.client.connect` with its URL filled in, or a test's equivalent.
Connect = Callable[..., AbstractAsyncContextManager[Client]]

#: HTTP statuses of a proxy, which gives no code, after which a client asks again
RETRY_STATUSES = (429, 503)
#: seconds before asking again if the server does not say
RETRY_AFTER = 1.0
#: most unanswered commands of one session; a command beyond is not sent, but counted
MOST_UNANSWERED = 32


@dataclass(eq=False)
class Load:
    """One load test.

    Args:
        shape: when clients arrive, and what each does.
        connect: opens a session. It takes `on_queued=`; for a viewer also `role="viewer"` and `token=`.
        at_once: most clients, viewers included, that are connected or ask at the same time. A client above that limit
            arrives later; the delay is one of the figures.
        patience: seconds that a client asks and waits before it gives up.
        decode: decode every picture, as a client with a display does; otherwise pictures are only received and acknowledged.
        only: names of the commands to choose from; by default all of the server's commands.
    """

    shape: Shape
    connect: Connect
    _: KW_ONLY
    at_once: int = 500
    patience: float = 300.0
    decode: bool = False
    only: Collection[str] = ()

    def __post_init__(self) -> None:
        self._clients_each = 1 + self.shape.viewers
        if self.at_once < self._clients_each:
            raise ValueError(f"a session with its viewers is {self._clients_each} clients, more than {self.at_once}")
        self.ledger = Ledger()

    async def run(self) -> None:
        """Run until the last client has left. Cancellation stops all clients; `ledger` has the figures in either case."""
        slots = anyio.Semaphore(self.at_once // self._clients_each)
        began = anyio.current_time()
        try:
            async with anyio.create_task_group() as clients:
                for visit in visits(self.shape):
                    await anyio.sleep_until(began + visit.at)
                    await slots.acquire()
                    record = self.ledger.begin(visit, anyio.current_time() - began - visit.at)
                    clients.start_soon(self._run_visit, record, slots)
        finally:
            self.ledger.interrupt()

    async def _run_visit(self, record: VisitRecord, slots: anyio.Semaphore) -> None:
        ask_at: float | None = record.asked_at
        try:
            while ask_at is not None:
                await anyio.sleep_until(ask_at)
                ask_at = await self._visit(record)
        finally:
            slots.release()

    async def _visit(self, record: VisitRecord) -> float | None:
        """Ask for a session and stay in it. Return when to ask again, or None if the visit is over."""
        until = record.asked_at + self.patience
        try:
            with anyio.CancelScope(deadline=until) as waiting:
                async with self.connect(on_queued=record.queued) as client:
                    waiting.deadline = math.inf
                    record.admitted()
                    await self._watch(client, record)
            if waiting.cancelled_caught:
                record.end("gave_up")
        except ConnectionRefused as refused:
            return self._refused(record, refused, until)
        except SessionEnded as ended:
            if ended.reason == "no_room":  # two clients were offered the same place
                return self._refused(record, ended, until)
            record.end("ended", ended.reason)
        except (OSError, ProtocolError) as error:
            record.end("failed", _kind(error))
        return None

    def _refused(self, record: VisitRecord, refused: ConnectionRefused | SessionEnded, until: float) -> float | None:
        record.refused(refused)
        wait = None
        if isinstance(refused, ConnectionRefused):
            again = refused.status in RETRY_STATUSES if refused.code is None else retry_of(refused) == "later"
            if not again:
                record.end("refused", f"HTTP {refused.status}")
                return None
            wait = refused.retry_after
        again_at = anyio.current_time() + (RETRY_AFTER if wait is None else wait)
        if again_at < until:
            return again_at
        record.end("gave_up")
        return None

    async def _watch(self, client: Client, record: VisitRecord) -> None:
        """Watch for the planned time, or until the session ends."""
        visit = record.visit
        messages = client.messages()
        with observe(client, record.see), anyio.move_on_after(visit.length):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._command, client, visit)
                for _ in range(self.shape.viewers):
                    tasks.start_soon(self._run_viewer, client.share_token)
                for track in client.tracks if self.decode else ():
                    if track.direction == "out":
                        tasks.start_soon(self._decode_all, client, track.name)
                await _wait_end(messages)
                tasks.cancel_scope.cancel()
        if client.ended is not None:
            record.end("ended", client.ended)
        elif visit.vanishes:
            record.end("vanished")
            await client.vanish()
        else:
            record.end("left")

    async def _command(self, client: Client, visit: Visit) -> None:
        repertoire = Repertoire(client.schema, self.only)
        self.ledger.left_out |= repertoire.left_out
        chance, began = choices(self.shape, visit), anyio.current_time()
        unanswered = anyio.Semaphore(MOST_UNANSWERED)

        async def send(name: str, arguments: dict[str, Any]) -> None:
            async with unanswered:
                with suppress(CommandError, SessionEnded):  # the ledger counts the first; the second ends the visit
                    await client.command(name, **arguments)

        async with anyio.create_task_group() as sending:
            for moment in moments(self.shape, visit):
                if (chosen := repertoire.choose(chance)) is None:
                    return
                await anyio.sleep_until(began + moment)
                if unanswered.value:
                    sending.start_soon(send, *chosen)
                else:
                    self.ledger.commands["not sent"] += 1

    async def _decode_all(self, client: Client, track: str) -> None:
        try:
            async for _ in client.frames(track):
                pass
        except ProtocolError:
            self.ledger.errors["a frame that cannot be decoded"] += 1
        except SessionEnded:  # `_watch` records the reason
            return

    async def _run_viewer(self, share_token: str | None) -> None:
        """Watch the session as a viewer until it ends."""
        ledger = self.ledger
        pictures = PictureMeter(ledger.figures["viewers' between pictures"], ledger.counts, "viewers' ")
        try:
            async with self.connect(role="viewer", token=share_token) as client:
                ledger.counts["viewers"] += 1
                with observe(client, pictures.take):
                    await _wait_end(client.messages())
        except ConnectionRefused as refused:
            ledger.refuse(refused)
        except SessionEnded:  # the session's own record has the reason
            pass
        except (OSError, ProtocolError) as error:
            ledger.errors[f"viewer: {_kind(error)}"] += 1
        finally:
            if pictures.fps is not None:
                ledger.figures["viewers' fps"].add(pictures.fps)


async def _wait_end(messages: MessageStream) -> None:
    """Wait until the session has ended. `Client.ended` has the reason."""
    try:
        async for _ in messages:
            pass
    except SessionEnded:
        return


def _kind(error: OSError | ProtocolError) -> str:
    """Return a text that is the same for all errors of this kind."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ProtocolError):
        return "protocol_error"
    return "no connection" if isinstance(error, ConnectionError) or error.strerror is None else error.strerror
