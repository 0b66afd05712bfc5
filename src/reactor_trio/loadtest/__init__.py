"""Many clients that come, wait, watch and leave as a seed says, and what they saw (`docs/guide/loadtest.md`).

`plan` and `values` decide who comes and what is sent, `driving` does it with the package's own client, `ledger` measures,
and `summary` says what came of it. None of them needs a terminal.
"""

from reactor_trio.loadtest.driving import Load as Load
from reactor_trio.loadtest.plan import Shape as Shape
from reactor_trio.loadtest.plan import Visit as Visit
from reactor_trio.loadtest.plan import visits as visits
from reactor_trio.loadtest.random_commands import Repertoire as Repertoire
from reactor_trio.loadtest.summary import Bars as Bars
from reactor_trio.loadtest.summary import Summary as Summary
from reactor_trio.loadtest.summary import summarise as summarise
