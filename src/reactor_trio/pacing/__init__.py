"""Arithmetic of time and bitrate. This package uses no event loop and reads no clock: callers pass `now`, in seconds.

* `Cadence` and `BlockCadence` compute the frame rate; `FrameRateCap` limits it to what the encoders keep up with.
* `PresentationTimeline` says when each frame is shown; `PlayoutForecast` predicts that from the model's side.
* `StepMargin` says how early a step starts; `PlayoutSmoother` evens out the durations of frames.
* `RoundRobin` divides a thread among sessions.
* `CongestionWindow` and `BitrateLadder` adapt the stream to one viewer's link.
"""

from reactor_trio.pacing.bitrate_ladder import BitrateLadder as BitrateLadder
from reactor_trio.pacing.bitrate_ladder import Quality as Quality
from reactor_trio.pacing.block_cadence import BlockCadence as BlockCadence
from reactor_trio.pacing.cadence import Cadence as Cadence
from reactor_trio.pacing.congestion_window import CongestionWindow as CongestionWindow
from reactor_trio.pacing.frame_rate_cap import EncoderPace as EncoderPace
from reactor_trio.pacing.frame_rate_cap import FrameRateCap as FrameRateCap
from reactor_trio.pacing.playout_forecast import PlayoutForecast as PlayoutForecast
from reactor_trio.pacing.playout_smoother import PlayoutSmoother as PlayoutSmoother
from reactor_trio.pacing.presentation_timeline import PresentationTimeline as PresentationTimeline
from reactor_trio.pacing.room import Room as Room
from reactor_trio.pacing.round_robin import RoundRobin as RoundRobin
from reactor_trio.pacing.step_margin import StepMargin as StepMargin
