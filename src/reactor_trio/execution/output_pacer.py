"""Frames out of the model, on its own loop: accept, pace, queue.

Room is counted here, where it is spent, and is free again when a frame is shown, which `Lookahead` knows; so nothing is
computed that could not be queued. While nobody watches there is none, and that time counts for nothing. Each bundle leaves
with its duration; after a flush, words about older ones do not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import trio
from msgspec.structs import replace

from reactor_trio.concurrency.repeated_event import Bell
from reactor_trio.execution.mailbox import Mailbox
from reactor_trio.interface.declaration import Declaration
from reactor_trio.media import Bundle, Chunk, FrameHandle, Origin, black_chunk
from reactor_trio.pacing import BlockCadence, Cadence, Lookahead, Margin, Tempo


class PlayoutSide(Protocol):
    """The other half, on the I/O loop; each method is heard from the mailbox and must not raise."""

    def put(self, bundle: Bundle, epoch: int, ready: float) -> None:
        """A bundle was made, at `ready` in `trio.current_time()` seconds."""

    def flush(self, epoch: int) -> None:
        """What was made before `epoch` is void."""

    def retime(self, interval: float) -> None:
        """The rate changed."""

    def count_drop(self, place: str, reason: str, frames: int) -> None:
        """Frames were dropped on this side."""


class Outflow:
    """Model side of a session's frames; `waits` is told before a pipeline's frame waits for room."""

    def __init__(
        self,
        mailbox: Mailbox,
        words: Mailbox,
        playout: PlayoutSide,
        declaration: Declaration,
        cadence: Cadence,
        lookahead: Lookahead,
        bell: Bell,
        waits: Callable[[], object] = lambda: None,
    ) -> None:
        self._mailbox = mailbox
        self._words = words
        self._playout = playout
        self._declaration = declaration
        self._cadence = cadence
        self._lookahead = lookahead
        self._margin = Margin()
        self._tempo = Tempo()
        self._interval: float | None = None  # of a pipeline's newest frames
        self._bell = bell
        self._waits = waits
        self._epoch = 0
        self._seqs: dict[str, int] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._frames_per_step = 1
        # A blocking model computes its next block while one is shown: there is room for both.
        self._blocks = 2 if isinstance(cadence, BlockCadence) else 1
        #: capture time of the input frame that the model read last, in microseconds of the client's clock
        self.input_pts_us: int | None = None
        self.closed = False
        self._paused_at: float | None = None

    @property
    def fps(self) -> float:
        """Target rate in frames per second."""
        return self._cadence.fps

    # ---- what the model asks ------------------------------------------------------------------------------------------

    def step_at(self, now: float) -> float:
        """When the next step of a pipeline may start."""
        self._words.deliver()
        if self._paused_at is not None:
            return math.inf
        margin = self._margin.seconds(self._cadence.interval)
        if self._tempo.cycle > self._cadence.shortest * self._frames_per_step:  # it never rests
            margin = max(margin, self._tempo.ahead)
        return self._lookahead.step_at(now, self._predicted, margin)

    async def queue(self, chunk: Chunk, late: float, seconds: float, between: float, origin: Origin) -> None:
        """Queue what a pipeline's step, begun `late` seconds after it was planned, made in `seconds`, its turn waited for.

        `between` is what passed since the step before, 0 if there was a wait. Waits for room if the step came early. Loses
        nothing.
        """
        self._margin.observe(late + seconds - self._predicted)
        self._begin(chunk, seconds)
        epoch, made = self._epoch, trio.current_time()
        if chunk.length and not chunk.audios:
            self._follow(seconds + between, chunk.length, made)
        origin = replace(origin, input_pts_us=self.input_pts_us)
        for index, (tracks, duration) in enumerate(chunk.split()):
            while (at := self._room(self._lookahead.queue_at)) > trio.current_time() and not self._stale(epoch):
                self._waits()
                await self._bell.wait(at)
            if self._stale(epoch):
                self._drop_rest(tracks, chunk.length - index)
                return
            self._put(tracks, duration, origin, made)

    async def emit(self, chunk: Chunk, seconds: float | None, origin: Origin, drop: bool) -> None:
        """Queue what a run loop emitted: wait while the buffer is full, or with `drop` discard what finds no room."""
        self._begin(chunk, seconds)
        epoch, made = self._epoch, trio.current_time()
        origin = replace(origin, input_pts_us=self.input_pts_us)
        for index, (tracks, duration) in enumerate(chunk.split()):
            while (at := self._room(self._lookahead.emit_at)) > (now := trio.current_time()) and not self._stale(epoch):
                if drop and self._paused_at is None:
                    break
                await self._bell.wait(at)
            if self._stale(epoch):
                self._drop_rest(tracks, chunk.length - index)
                return
            if at > now:  # the tail goes with it, also if room comes meanwhile: what is shown of a batch has no holes
                self._drop(tracks, chunk.length - index, "full")
                return
            self._put(tracks, duration, origin, made)

    async def push(self, chunk: Chunk, origin: Origin) -> None:
        """Queue a block of a blocking model, whose pushes are what sets the rate; waits while two blocks are queued."""
        assert isinstance(self._cadence, BlockCadence)
        self._words.deliver()
        interval, now = self._cadence.interval, trio.current_time()
        self._cadence.pushed(now, chunk.length, self._lookahead.waiting(now))
        if self._cadence.interval != interval:
            self._retime(self._cadence.interval)
        await self.emit(chunk, None, origin, drop=False)

    async def push_black(self, origin: Origin) -> None:
        """Queue one black frame of the last size behind what is queued; the rate is not told."""
        await self.emit(black_chunk(self._declaration.tracks, self._sizes), None, origin, drop=False)

    def count_drop(self, reason: str, frames: int) -> None:
        """Any thread: frames were dropped before they were accepted."""
        self._mailbox.send(self._playout.count_drop, "model", reason, frames)

    def monitor(self, enabled: bool) -> None:
        """Whether the time that passes is a blocking model's work."""
        assert isinstance(self._cadence, BlockCadence)
        if enabled:
            self._cadence.enable(trio.current_time())
        else:
            self._cadence.disable()

    def set_fps(self, fps: float) -> None:
        """Replace the declared rate now, also for what is queued. Raises ValueError."""
        self._cadence.set_fps(fps)
        self._interval = None
        self._retime(self._cadence.interval)

    def flush(self, step: int, *, black: bool) -> None:
        """Drop what is queued, also the rest of a batch that waits for room; then show one black frame if asked."""
        self._epoch += 1
        self._words.deliver()
        self._lookahead.flushed(trio.current_time())
        self._mailbox.send(self._playout.flush, self._epoch)
        if black:
            for tracks, duration in black_chunk(self._declaration.tracks, self._sizes).split():
                self._put(tracks, duration, Origin(step), trio.current_time())
        self._bell.ring()

    def close(self) -> None:
        """The session is over: what waits for room is released, nothing more is queued."""
        self.closed = True
        self._bell.ring()

    # ---- heard from the session's other half -------------------------------------------------------------------------

    def limit(self, fps: float) -> None:
        """What the viewers' encoders take, in frames per second; from the next step on."""
        self._cadence.limit(fps)

    def pause(self, paused: bool) -> None:
        """Nobody watches from now on, or somebody does again."""
        now = trio.current_time()
        if self._paused_at is not None and isinstance(self._cadence, BlockCadence):
            self._cadence.stood_still(self._paused_at, now)
        self._paused_at = now if paused else None
        self._bell.ring()

    def handed(self, until: float, epoch: int) -> None:
        """The oldest bundle is shown now, until `until`."""
        if epoch == self._epoch:
            self._lookahead.handed(until)
        else:
            self._lookahead.shown(until)
        self._bell.ring()

    def shown(self, until: float) -> None:
        """The bundle on screen now ends at `until`."""
        self._lookahead.shown(until)
        self._bell.ring()

    # ---- inside -------------------------------------------------------------------------------------------------------

    @property
    def _predicted(self) -> float:
        return self._cadence.seconds_per_frame * self._frames_per_step

    def _room(self, at: Callable[[float], float]) -> float:
        self._words.deliver()
        return at(trio.current_time()) if self._paused_at is None else math.inf

    def _retime(self, interval: float) -> None:
        self._lookahead.retimed(interval)
        self._mailbox.send(self._playout.retime, interval)

    def _follow(self, seconds: float, frames: int, made: float) -> None:
        """Set how long the frames of a step that ended at `made` shall be shown."""
        self._tempo.observe(seconds, frames)
        self._words.deliver()
        before, anew = self._interval, self._tempo.anew
        wait = self._tempo.delay if anew else self._lookahead.runs_dry(made) - made
        self._interval = self._cadence.clamped(self._tempo.duration(wait))
        if anew and before is not None and self._interval < before:
            self._retime(self._interval)

    def _begin(self, chunk: Chunk, seconds: float | None) -> None:
        if chunk.length == 0:
            return
        if seconds is not None:
            self._cadence.observe(seconds, chunk.length)
        self._frames_per_step = chunk.length
        self._lookahead.make_room_for(chunk.length * self._blocks)
        for name, frames in chunk.videos.items():
            height, width = frames.shape[-3:-1]
            self._sizes[name] = (int(height), int(width))

    def _stale(self, epoch: int) -> bool:
        return self.closed or epoch != self._epoch

    def _put(self, tracks: dict[str, FrameHandle], duration: float | None, origin: Origin, made: float) -> None:
        interval = self._interval or self._cadence.interval
        seconds = interval if duration is None else duration
        bundle = Bundle(
            tracks=tracks,
            seqs={name: self._next_seq(name) for name in tracks},
            duration=seconds, paced=duration is None, origin=origin, made=made,
        )  # fmt: skip
        ready = trio.current_time()
        self._lookahead.put(ready, seconds, bundle.paced)
        self._mailbox.leave(self._playout.put, bundle, self._epoch, ready)

    def _next_seq(self, track: str) -> int:
        seq = self._seqs.get(track, 0)
        self._seqs[track] = seq + 1
        return seq

    def _drop_rest(self, tracks: dict[str, FrameHandle], bundles: int) -> None:
        """A batch found no room before a flush or the end of the session."""
        self._drop(tracks, bundles, "session_over" if self.closed else "flushed")

    def _drop(self, tracks: dict[str, FrameHandle], bundles: int, reason: str) -> None:
        for name in tracks:  # numbers are used up, so that a viewer sees the gap
            self._seqs[name] = self._seqs.get(name, 0) + bundles
        self._mailbox.send(self._playout.count_drop, "buffer", reason, bundles)
