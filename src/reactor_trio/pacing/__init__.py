"""Pure arithmetic of pacing: how fast (`Cadence`, `Ceiling`), when the next frame is due (`Schedule`), how far ahead
(`Lookahead`), how long before need (`Margin`), how evenly (`Tempo`), whose step comes next (`RoundRobin`), how much of it
one viewer's link carries (`LinkControl`, `Ladder`).

Nothing here knows a loop or reads a clock; `now` is an argument, in seconds.
"""

from reactor_trio.pacing.block_cadence import BlockCadence as BlockCadence
from reactor_trio.pacing.cadence import Cadence as Cadence
from reactor_trio.pacing.ceiling import Ceiling as Ceiling
from reactor_trio.pacing.ladder import Ladder as Ladder
from reactor_trio.pacing.ladder import Quality as Quality
from reactor_trio.pacing.link import LinkControl as LinkControl
from reactor_trio.pacing.lookahead import Lookahead as Lookahead
from reactor_trio.pacing.margin import Margin as Margin
from reactor_trio.pacing.round_robin import RoundRobin as RoundRobin
from reactor_trio.pacing.schedule import Schedule as Schedule
from reactor_trio.pacing.tempo import Tempo as Tempo
