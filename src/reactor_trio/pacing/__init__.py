"""Pure arithmetic of pacing: how fast (`Cadence`, `FrameRateCap`), when the next frame is due (`PresentationTimeline`), how
far ahead (`PlayoutForecast`), how long before need (`StepMargin`), how evenly (`PlayoutSmoother`), whose step comes next
(`RoundRobin`), how much of it one viewer's link carries (`CongestionWindow`, `BitrateLadder`).

Nothing here knows a loop or reads a clock; `now` is an argument, in seconds.
"""

from reactor_trio.pacing.bitrate_ladder import BitrateLadder as BitrateLadder
from reactor_trio.pacing.bitrate_ladder import Quality as Quality
from reactor_trio.pacing.block_cadence import BlockCadence as BlockCadence
from reactor_trio.pacing.cadence import Cadence as Cadence
from reactor_trio.pacing.congestion_window import CongestionWindow as CongestionWindow
from reactor_trio.pacing.frame_rate_cap import FrameRateCap as FrameRateCap
from reactor_trio.pacing.playout_forecast import PlayoutForecast as PlayoutForecast
from reactor_trio.pacing.playout_smoother import PlayoutSmoother as PlayoutSmoother
from reactor_trio.pacing.presentation_timeline import PresentationTimeline as PresentationTimeline
from reactor_trio.pacing.round_robin import RoundRobin as RoundRobin
from reactor_trio.pacing.step_margin import StepMargin as StepMargin
