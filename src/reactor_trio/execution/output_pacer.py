"""The model side of a session's frames: it accepts chunks, paces the model, and sends bundles to the playout.

Two parts decide when a step begins: the `StepPermit` whether it may, the `Room` when its frames find room, so the model
computes nothing that could not be queued. No estimate counts the time of a pause. Each bundle carries its duration and the
pacer's epoch. A flush begins a new epoch; reports about bundles of an older one change only what is on screen. If the I/O
loop stands still, it shows nothing of what the room takes as shown, so the model also waits for a report when the room
`starves`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Literal

import trio
from msgspec.structs import replace

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.crossing import messages
from reactor_trio.crossing.channel import ChannelEnd
from reactor_trio.execution.sound_rhythm import SoundRhythm
from reactor_trio.interface.declaration import Declaration
from reactor_trio.lifecycle import OutputRule, StepPermit
from reactor_trio.media import Bundle, Chunk, FrameHandle, Origin, black_chunk
from reactor_trio.pacing import Cadence, PlayoutSmoother, Room, StepMargin
from reactor_trio.pacing.playout_forecast import MOST_HELD


class OutputPacer:
    """Paces one session's frames, on the model loop. Some kinds of model have a class of it (`kinds/`).

    Args:
        channel: the model's end of the session's channel; what has come is taken before each look at the room.
        room: says when the next step, and the next frame, finds room.
        wakeup: wakes whoever waits for room.
        dropped: called with place, reason and number of frames that were dropped, on any thread.
        first_frame: called once, with the first frame that the model makes.
        waits: called before a pipeline's frame waits for room.
    """

    #: of a model that makes pictures and sound
    _sound_rhythm: SoundRhythm | None = None

    #: of the frames that the model makes at once, for how many times as many there is room
    _blocks = 1

    def __init__(
        self,
        channel: ChannelEnd,
        declaration: Declaration,
        cadence: Cadence,
        room: Room,
        wakeup: RepeatedEvent,
        dropped: Callable[[str, str, int], object],
        first_frame: Callable[[], object],
        waits: Callable[[], object],
    ) -> None:
        self._channel = channel
        self._declaration = declaration
        self._cadence = cadence
        self._room = room
        self._step_margin = StepMargin()
        self._smoother = PlayoutSmoother()
        self._interval: float | None = None  # of a pipeline's newest frames
        self._wakeup = wakeup
        self.dropped = dropped
        self._first_frame: Callable[[], object] | None = first_frame
        self._waits = waits
        self._epoch = 0
        self._seqs: defaultdict[str, int] = defaultdict(int)
        self._sizes: dict[str, tuple[int, int]] = {}
        self._frames_per_step = 1
        self._predicted = 0.0  # seconds that the next step will take
        #: seconds that the next step is predicted to take, and its margin; None: to be computed, since something has changed
        self._lead: tuple[float, float] | None = None
        #: capture time of the input frame that the model read last, in microseconds of the client's clock
        self.input_pts_us: int | None = None
        self.closed = False
        self.permit = StepPermit()  # whether a step may begin

    @property
    def fps(self) -> float:
        """The target rate, in frames per second."""
        return self._cadence.fps

    @property
    def frame_duration(self) -> float:
        """For how many seconds the newest frames without sound are shown."""
        return self._interval or self._cadence.interval

    # ---- for the model's side -----------------------------------------------------------------------------------------

    def step_at(self, now: float) -> float:
        """When the next step of a pipeline may start; infinity: not before `wakeup` is set."""
        self._channel.take()
        if not self.permit.may_begin:
            return math.inf
        if self._room.crowded and self._starves():
            return math.inf
        if self._lead is None:
            step_margin = self._step_margin.seconds(self._cadence.interval)
            if self._smoother.cycle > self._cadence.shortest * self._frames_per_step:  # the model never rests
                step_margin = max(step_margin, self._smoother.ahead)
            self._lead = self._predicted, step_margin
        return self._room.step_at(now, *self._lead)

    def stepped(self, chunk: Chunk, late: float, seconds: float, between: float, now: float) -> None:
        """Learn from a pipeline's step, which has just ended, before its chunk is queued.

        Args:
            late: how long after its planned time the step began, in seconds.
            seconds: how long it took, with the wait for its turn.
            between: what passed since the step before; 0 if the model waited in between.
        """
        self.permit.ended()
        self._step_margin.observe(late + seconds - self._predicted)
        self.accept(chunk, seconds)
        if chunk.length and not chunk.audios:
            self._follow(seconds + between, chunk.length, now)
        self._lead = None

    def pause(self, number: int) -> None:
        """Let no step begin from now on: the command of this number pauses. What is made already finds room."""
        self.permit.pause(number)
        self._wakeup.set()

    def resume(self, number: int, at: float, steps: int | None = None) -> None:
        """Let the steps begin again, or `steps` of them while the session stays paused, unless a newer pause has come.

        Playout, which was held, goes on since `at`, or has done so until that pause.

        Args:
            number: of the command.
        """
        self._channel.take()
        if steps is None:
            self.permit.resume(number)
        else:
            self.permit.allow(number, steps)
        self._room.stood_still(at)
        self._wakeup.set()

    def accept(self, chunk: Chunk, seconds: float | None, *, of_model: bool = True) -> None:
        """Make room for the chunk, and learn from the seconds that it took if they are known."""
        if chunk.length == 0:
            return
        if of_model and self._first_frame is not None:
            first_frame, self._first_frame = self._first_frame, None
            first_frame()
        if self._sound_rhythm is not None and of_model:
            self._sound_rhythm.observe(bool(chunk.audios))
        elif chunk.audios and chunk.videos:
            self._sound_rhythm = SoundRhythm(next(iter(chunk.audios)))
        if seconds is not None:
            self._cadence.observe(seconds, chunk.length)
        self._frames_per_step = chunk.length
        self._predicted = self._cadence.seconds_per_frame * chunk.length
        self._lead = None
        self._room.make_room_for(chunk.length * self._blocks)
        for name, frames in chunk.videos.items():
            height, width = frames.shape[-3:-1]
            self._sizes[name] = (int(height), int(width))

    async def queue(
        self, chunk: Chunk, origin: Origin, now: float, by: Literal["step", "emit"] = "step", drop: bool = False
    ) -> float:
        """Send the chunk's bundles to the playout, each as soon as there is room for it.

        Returns the time: `now`, or that at which its last wait ended. Cancelled meanwhile, it drops and counts the rest.

        Args:
            now: when the chunk was made.
            by: whose room counts. A step that came early waits; an `emit` waits while the buffer is full.
            drop: discard what finds no room instead of waiting.
        """
        room_at = self._room.queue_at if by == "step" else self._room.emit_at
        epoch, made = self._epoch, now
        if self.input_pts_us is not None:
            origin = replace(origin, input_pts_us=self.input_pts_us)
        for index, (tracks, duration) in enumerate(chunk.split()):
            while (at := self._room_at(room_at, now)) > now and not self._stale(epoch):
                if drop and self.permit.output is not OutputRule.WAIT:
                    break
                if by == "step":
                    self._waits()
                try:
                    await self._wakeup.wait(at)
                except trio.Cancelled:
                    self._drop(tracks, chunk.length - index, "session_over" if self.closed else "cancelled")
                    raise
                now = trio.current_time()
            if self._stale(epoch):
                self._drop(tracks, chunk.length - index, "session_over" if self.closed else "flushed")
                return now
            rest = chunk.length - index
            held = by == "emit" and self.permit.output is OutputRule.HOLD
            held = held and self._room.emitted + rest * _size(tracks) > MOST_HELD
            if held or at > now:  # the rest is dropped too, even if room comes meanwhile: a batch is shown without holes
                self._drop(tracks, rest, "held" if held else "full")
                return now
            if chunk.metadata:
                origin = replace(origin, metadata={name: each[index] for name, each in chunk.metadata.items()})
            self._channel.send(self._bundle(tracks, duration, origin, made, now, by == "emit"))
        return now

    def set_fps(self, fps: float | None) -> None:
        """Replace the declared rate now, also for what is queued; None: none is declared. Raises ValueError."""
        self._cadence.set_fps(fps)
        self._lead = self._interval = None
        self._retime(self._cadence.interval)

    def flush(self, step: int, *, black: bool) -> None:
        """Drop what is queued, also the rest of a batch that waits for room; then show one black frame if `black`."""
        self._epoch += 1
        self._channel.take()
        self._room.flushed(now := trio.current_time())
        self._channel.send(messages.FlushPlayout(self._epoch))
        if black:
            for tracks, duration in black_chunk(self._declaration.tracks, self._sizes).split():
                self._channel.send(self._bundle(tracks, duration, Origin(step), now, now, False))
        self._wakeup.set()

    def rewound(self, step: int) -> dict[str, int]:
        """Drop what is queued and take back the steps that were asked for: the world is that of an earlier moment.

        Returns the number of each video track's next frame, which is left for the picture of that moment.
        """
        self.permit.take_back()
        self.flush(step, black=False)
        seqs = {name: self._seqs[name] for name in self._sizes}
        self._seqs.update({name: seq + 1 for name, seq in seqs.items()})
        return seqs

    def close(self) -> None:
        """End the session: release whoever waits for room, and queue nothing more."""
        self.closed = True
        self._wakeup.set()

    # ---- messages of the I/O side -------------------------------------------------------------------------------------

    def limit(self, message: messages.SetFpsLimit) -> None:
        """Take the message."""
        self._cadence.limit(message.fps)
        self._lead = None

    def watched(self, message: messages.SetWatched) -> None:
        """Take the message."""
        self.permit.watch(message.watched)
        self._wakeup.set()

    def handed(self, message: messages.BundleShown) -> None:
        """Take the message."""
        if message.epoch == self._epoch:
            self._room.handed(message.until)
        else:
            self._room.shown(message.until)
        if self._channel.asleep and not self._room.crowded:
            self._channel.asleep = False
        self._wakeup.set()

    def shown(self, message: messages.ShownUntil) -> None:
        """Take the message."""
        self._room.shown(message.until)
        self._wakeup.set()

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _room_at(self, at: Callable[[float], float], now: float) -> float:
        """When the next frame may be sent; infinity: not before `wakeup` is set."""
        self._channel.take()
        if (rule := self.permit.output) is not OutputRule.ROOM:
            return now if rule is OutputRule.HOLD else math.inf
        return math.inf if self._room.crowded and self._starves() else at(now)

    def _starves(self) -> bool:
        """Whether the model has to wait for a report of the playout; that then wakes this loop."""
        if self._room.starves and not self._channel.asleep:
            self._channel.asleep = True
            self._channel.take()  # a report may have come before the flag
        return self._room.starves

    def _retime(self, interval: float) -> None:
        self._room.retimed(interval)
        self._channel.send(messages.RetimePlayout(interval))

    def _follow(self, seconds: float, frames: int, now: float) -> None:
        """Set how long the frames of a step that has just ended shall be shown."""
        self._smoother.observe(seconds, frames)
        self._channel.take()
        before, anew = self._interval, self._smoother.anew
        wait = self._smoother.delay if anew else self._room.runs_dry(now) - now
        self._interval = self._cadence.clamped(self._smoother.duration(wait))
        if anew and before is not None and self._interval < before:
            self._retime(self._interval)

    def _stale(self, epoch: int) -> bool:
        return self.closed or epoch != self._epoch

    def _bundle(
        self, tracks: dict[str, FrameHandle], duration: float | None, origin: Origin, made: float, now: float, emitted: bool
    ) -> Bundle:
        """Make the next bundle and count it as queued."""
        interval = self._interval or self._cadence.interval
        seqs: dict[str, int] = {}
        for name in tracks:
            seqs[name] = self._seqs[name]
            self._seqs[name] += 1
        bundle = Bundle(
            tracks=tracks, seqs=seqs, duration=interval if duration is None else duration, paced=duration is None,
            origin=origin, made=made, epoch=self._epoch, ready=now,
        )  # fmt: skip
        size = _size(tracks)
        self._room.put(bundle.ready, bundle.duration, bundle.paced, size, size if emitted else 0)
        return bundle

    def _drop(self, tracks: dict[str, FrameHandle], bundles: int, reason: str) -> None:
        for name in tracks:  # numbers are used up, so that a viewer sees the gap
            self._seqs[name] += bundles
        self.dropped("buffer", reason, bundles)


def _size(tracks: dict[str, FrameHandle]) -> int:
    """The bytes of a bundle with what it has beside its frames, roughly."""
    size = 1024
    for frame in tracks.values():  # a loop, since `sum` would cost two calls more
        size += frame.nbytes
    return size
