"""A load test: many clients that arrive, wait, watch and leave by a seeded plan, and their figures
(`docs/operate/loadtest.md`).

`plan` and `random_commands` decide when clients arrive and which commands they send. `driving` runs them with the package's
own client. `load_records` measures, and `summary` sums up. No module needs a terminal.
"""

from reactor_trio.loadtest.driving import Load as Load
from reactor_trio.loadtest.plan import Shape as Shape
from reactor_trio.loadtest.plan import Visit as Visit
from reactor_trio.loadtest.plan import visits as visits
from reactor_trio.loadtest.random_commands import Repertoire as Repertoire
from reactor_trio.loadtest.summary import Bars as Bars
from reactor_trio.loadtest.summary import Summary as Summary
from reactor_trio.loadtest.summary import summarise as summarise
