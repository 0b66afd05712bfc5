"""Pure arithmetic of pacing: how fast (`Cadence`, `Ceiling`), when the next frame is due (`Schedule`), how far ahead
(`Lookahead`), how long before need (`Margin`), how evenly (`Tempo`), whose step comes next (`RoundRobin`), how much of it
one viewer's link carries (`LinkControl`, `Ladder`).

Nothing here knows a loop or reads a clock; `now` is an argument, in seconds.
"""

from reactor_trio.pacing.bitrate_ladder import Ladder as Ladder
from reactor_trio.pacing.bitrate_ladder import Quality as Quality
from reactor_trio.pacing.block_cadence import BlockCadence as BlockCadence
from reactor_trio.pacing.cadence import Cadence as Cadence
from reactor_trio.pacing.congestion_window import LinkControl as LinkControl
from reactor_trio.pacing.frame_rate_cap import Ceiling as Ceiling
from reactor_trio.pacing.playout_forecast import Lookahead as Lookahead
from reactor_trio.pacing.playout_smoother import Tempo as Tempo
from reactor_trio.pacing.presentation_timeline import Schedule as Schedule
from reactor_trio.pacing.round_robin import RoundRobin as RoundRobin
from reactor_trio.pacing.step_margin import Margin as Margin
