"""The codec pool: runs the encoders and decoders of one server away from the loop, and leaves one behind that never returns.

A library may hang, and nothing can end its thread. After a limit of time its codec has failed, like one that raises an
exception. The encoder or decoder is then left behind with its thread. The thread gives its place to others. Closing the
encoder would wait for it or crash, so its own thread closes it if it ever returns.

While an encoder hangs, this server opens no other encoder of its codec: what it encodes are the model's pictures, so another
one would hang, too. At most as many threads are left behind as encoders of the codec were open when the first one hung.

What a decoder gets comes from one client, so its hanging is that client's affair: while it hangs, the server decodes nothing
more of that codec for that client. All other clients go on. At most `MOST_LEFT` decoders are left behind; then the server
decodes nothing until one of them returns.

An encoder or decoder that was only slow, because the machine stood still, is out of use only for that time.

Closing may hang as well, so it leaves the loop too, inside `closing`.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeVar
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import trio

from reactor_trio.concurrency.lost_time import patient
from reactor_trio.media.encoders import Encoded, Encoder
from reactor_trio.media.frames import FrameHandle
from reactor_trio.media.input_decoder import InputDecoder, Undecodable

A = TypeVar("A")
R = TypeVar("R")

Kind = Literal["encoder", "decoder"]

log = logging.getLogger("reactor_trio.connection")

#: decoders of all clients that may be left behind at a time
MOST_LEFT = 16


class Overrun(Exception):
    """A function has not returned in its time; it runs on, in a thread that is left behind."""


class Worker(Protocol):
    """Runs a blocking function away from the loop. Cancelled, it waits until the function has ended or its time is over."""

    async def __call__(self, function: Callable[[A], R], argument: A, /, limit: float = math.inf) -> R:
        """What `function(argument)` returns or raises. Raises Overrun if that takes longer than `limit` seconds.

        A wait for a thread does not count.
        """
        ...


def worker_threads(most: int) -> Worker:
    """A worker with `most` threads; a function that overruns its time gives its place to others."""
    places, threads = trio.CapacityLimiter(most), trio.CapacityLimiter(math.inf)

    async def work(function: Callable[[A], R], argument: A, /, limit: float = math.inf) -> R:
        async with places:
            with patient(trio.move_on_after(limit, shield=True)):
                return await trio.to_thread.run_sync(function, argument, abandon_on_cancel=True, limiter=threads)
            raise Overrun(f"{function} has not returned in {limit:g} s")

    return work


class _Job(Generic[A, R]):
    """One call of an encoder or decoder in a worker thread.

    Args:
        returned: called in that thread if `function` returns after it was left behind.
        client: whose packet it decodes; None for an encoder.
    """

    def __init__(
        self, kind: Kind, codec: str, function: Callable[[A], R], returned: Callable[[], object], client: object = None
    ) -> None:
        self.kind = kind
        self.codec = codec
        self.client = client
        self.over = False
        #: whether it was left behind
        self.left = False
        self._lock = threading.Lock()
        self._function = function
        self._returned = returned

    def __call__(self, argument: A) -> R:
        try:
            return self._function(argument)
        finally:
            with self._lock:
                self.over = True
            if self.left:
                self._returned()

    def leave(self) -> None:
        """Leave it behind, if it still runs."""
        with self._lock:
            self.left = not self.over


class CodecPool:
    """Runs the encoders and decoders of one server.

    Args:
        worker: runs one of them away from the loop.
        limit: seconds for one frame.
    """

    def __init__(self, worker: Worker, limit: float) -> None:
        self._worker = worker
        self._limit = limit
        self._hanging: list[_Job[Any, Any]] = []
        #: encoders that their own thread closes, if it ever returns
        self._left: WeakSet[Encoder] = WeakSet()
        self._nursery: trio.Nursery | None = None

    def hangs(self, kind: Kind, codec: object, client: object = None) -> bool:
        """Whether an encoder of this codec, or a decoder of this codec and client, is left behind and has not returned."""
        self._hanging = [job for job in self._hanging if not job.over]
        return any((job.kind, job.codec, job.client) == (kind, codec, client) for job in self._hanging)

    async def encode(self, encoder: Encoder, frame: FrameHandle) -> Encoded:
        """Encode, away from the loop if that costs anything. Raises what the encoder raises, Overrun if it hangs.

        Cancelled while it encodes, it still waits for the end, for as long as the limit allows.
        """
        if not encoder.blocking and isinstance(frame, np.ndarray):  # a tensor may have to come from its device
            return encoder.encode(frame)

        def returned() -> None:
            log.warning("the %s encoder (%s) that hung has returned", encoder.codec, encoder.implementation)
            _close(encoder)

        job = _Job("encoder", encoder.codec, encoder.encode, returned)
        try:
            return await self._worker(job, frame, self._limit)
        except Overrun:
            overrun = self._leave(job)
            if job.left:
                self._left.add(encoder)
            raise overrun from None

    async def decode(
        self, client: object, decoder: InputDecoder, meta: Mapping[str, Any], payload: memoryview
    ) -> npt.NDArray[Any]:
        """Decode a packet of `client` (any object that is it), away from the loop.

        Raises Undecodable, also while another decoder of the codec hangs at a packet of this client, and while too many
        decoders hang. Raises Overrun if this one hangs; the decoder is then of no use. Cancelled, it waits as `encode` does.
        """
        codec = meta.get("codec")
        if self.hangs("decoder", codec, client):
            raise Undecodable(f"the decoder hangs at an earlier {codec} packet of yours; send another codec")
        if sum(job.kind == "decoder" for job in self._hanging) >= MOST_LEFT:
            raise Undecodable(f"{MOST_LEFT} decoders of this server hang; send it later")
        returned = partial(log.warning, "a %s decoder that hung has returned", codec)
        job = _Job("decoder", str(codec), partial(decoder.decode, meta), returned, client)
        try:
            return await self._worker(job, payload, self._limit)
        except Overrun:
            raise self._leave(job) from None

    def close(self, encoder: Encoder) -> None:
        """Let go of an encoder that is not at work, or that was left behind. Neither waits nor raises."""
        if encoder in self._left:
            return
        if self._nursery is None or not encoder.blocking:
            _close(encoder)
        else:
            self._nursery.start_soon(self._close_away, encoder)

    @asynccontextmanager
    async def closing(self) -> AsyncGenerator[None, None]:
        """Close encoders away from the loop in this block; at its end wait until all are closed, or left behind."""
        try:
            async with trio.open_nursery() as self._nursery:
                yield
        finally:
            self._nursery = None

    async def _close_away(self, encoder: Encoder) -> None:
        names = encoder.codec, encoder.implementation
        job = _Job("encoder", encoder.codec, _close, partial(log.warning, "the %s encoder (%s) that hung is closed", *names))
        with trio.CancelScope(shield=True):  # or it would never be closed
            try:
                await self._worker(job, encoder, self._limit)
            except Overrun:
                log.error("closing the %s encoder (%s): %s", *names, self._leave(job))

    def _leave(self, job: _Job[A, R]) -> Overrun:
        """Leave a job behind; what is raised for it."""
        job.leave()
        if job.left:
            self._hanging.append(job)
        whose = "this client" if job.kind == "decoder" else "this server"
        return Overrun(
            f"it has not returned in {self._limit:g} s and is left behind; until it returns {whose} uses no other "
            f"{job.codec} {job.kind}"
        )


def _close(encoder: Encoder) -> None:
    try:
        encoder.close()
    except Exception:  # nothing depends on it any more
        log.warning("closing the %s encoder %s failed", encoder.codec, encoder.implementation, exc_info=True)
