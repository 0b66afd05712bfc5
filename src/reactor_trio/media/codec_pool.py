"""The encoders and decoders of one server at work: away from the loop, and what becomes of one that never returns.

A library may hang, and nothing can end its thread. After a limit of time the coder has failed, like one that raises an
exception, and is left behind with its thread: outside the worker's places, so that the others have theirs, and untouched,
since closing it would wait for it or crash. One that returns after all is closed by its own thread.

While one hangs, no other encoder of its codec is opened in this server, and nothing more decoded where it is a decoder. So
no more threads are left behind than coders of that codec were open when the first one hung; and one that was only slow, on a
machine that stood still, takes its codec away for no longer than that.

Closing may hang as well, so it leaves the loop too, where `closing` is open.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, Literal, TypeVar
from weakref import WeakSet

import msgspec
import numpy as np
import numpy.typing as npt
import trio

from reactor_trio.media import Encoded, Encoder, FrameHandle, InputDecoder, Overrun, Undecodable, Worker

A = TypeVar("A")
R = TypeVar("R")

Kind = Literal["encoder", "decoder"]

log = logging.getLogger("reactor_trio.connection")


class _Job(Generic[A, R]):
    """A function on its way through a worker thread.

    Args:
        afterwards: called in that thread, if the function returns after it was left behind.
    """

    def __init__(self, function: Callable[[A], R], afterwards: Callable[[], object]) -> None:
        self.over = False
        #: whether it still ran when it was not waited for any more
        self.left = False
        self._lock = threading.Lock()
        self._function = function
        self._afterwards = afterwards

    def __call__(self, argument: A) -> R:
        try:
            return self._function(argument)
        finally:
            with self._lock:
                self.over = True
            if self.left:
                self._afterwards()

    def leave(self) -> None:
        """It is not waited for any more."""
        with self._lock:
            self.left = not self.over


class _Hanging(msgspec.Struct, frozen=True):
    kind: Kind
    codec: str
    job: _Job[Any, Any]


class CodecPool:
    """Runs the encoders and decoders of one server.

    Args:
        worker: runs one of them away from the loop.
        limit: seconds for one frame.
    """

    def __init__(self, worker: Worker, limit: float) -> None:
        self._worker = worker
        self._limit = limit
        self._hanging: list[_Hanging] = []
        #: those that their own thread closes, if it ever returns
        self._left: WeakSet[Encoder] = WeakSet()
        self._nursery: trio.Nursery | None = None

    def hangs(self, kind: Kind, codec: object) -> bool:
        """Whether a coder of this codec has not returned in its time, and not since."""
        self._hanging = [each for each in self._hanging if not each.job.over]
        return any(each.kind == kind and each.codec == codec for each in self._hanging)

    async def encode(self, encoder: Encoder, frame: FrameHandle) -> Encoded:
        """Encode, away from the loop if that costs anything. Raises what the encoder raises, Overrun if it hangs.

        Cancelled while it encodes, it waits for the end all the same, for as long as the limit allows.
        """
        if not encoder.blocking and isinstance(frame, np.ndarray):  # a tensor may have to come from its device
            return encoder.encode(frame)

        def returned() -> None:
            log.warning("the %s encoder (%s) that hung has returned", encoder.codec, encoder.implementation)
            _close(encoder)

        job = _Job(encoder.encode, returned)
        try:
            return await self._run("encoder", encoder.codec, job, frame)
        finally:
            if job.left:
                self._left.add(encoder)

    async def decode(self, decoder: InputDecoder, meta: Mapping[str, Any], payload: memoryview) -> npt.NDArray[Any]:
        """Decode, away from the loop. Raises Undecodable, also while another decoder of the codec hangs.

        Raises Overrun if this one does; the decoder is of no use then. Cancelled, it waits as `encode` does.
        """
        codec = meta.get("codec")
        if self.hangs("decoder", codec):
            raise Undecodable(f"the server's {codec} decoder hangs; send another codec")
        job = _Job(partial(decoder.decode, meta), lambda: log.warning("a %s decoder that hung has returned", codec))
        return await self._run("decoder", str(codec), job, payload)

    def close(self, encoder: Encoder) -> None:
        """Let go of an encoder, which encodes no more or has been left behind. Neither waits nor raises."""
        if encoder in self._left:
            return
        if self._nursery is None or not encoder.blocking:
            _close(encoder)
        else:
            self._nursery.start_soon(self._close_away, encoder)

    @asynccontextmanager
    async def closing(self) -> AsyncGenerator[None, None]:
        """In the block encoders are closed away from the loop; after it all are, or left behind."""
        try:
            async with trio.open_nursery() as self._nursery:
                yield
        finally:
            self._nursery = None

    async def _close_away(self, encoder: Encoder) -> None:
        def returned() -> None:
            log.warning("the %s encoder (%s) that hung is closed", encoder.codec, encoder.implementation)

        with trio.CancelScope(shield=True):  # or it would never be closed
            try:
                await self._run("encoder", encoder.codec, _Job(_close, returned), encoder)
            except Overrun as error:
                log.error("closing the %s encoder (%s): %s", encoder.codec, encoder.implementation, error)

    async def _run(self, kind: Kind, codec: str, job: _Job[A, R], argument: A) -> R:
        try:
            return await self._worker(job, argument, self._limit)
        except Overrun:
            job.leave()
            if job.left:
                self._hanging.append(_Hanging(kind, codec, job))
            wait = f"it has not returned in {self._limit:g} s"
            raise Overrun(f"{wait} and is left behind; until it returns this server uses no other {codec} {kind}") from None


def _close(encoder: Encoder) -> None:
    try:
        encoder.close()
    except Exception:  # nothing depends on it any more
        log.warning("closing the %s encoder %s failed", encoder.codec, encoder.implementation, exc_info=True)
