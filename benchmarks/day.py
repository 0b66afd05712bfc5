"""How many replicas a day takes and what people wait: the queue and the autoscaler's rule, simulated.

`docs/reference/scaling-figures.md` has its figures.

No server runs: `day_model.py` plays 10 000 people against the server's own `Admission` and Ray Serve's rule, as a heap of
events, and checks the queue's promises after each one. Every setting meets the same people. The figures depend on the seed
and on nothing of the machine.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.day_model import Day, Figures, Fleet
from benchmarks.day_people import Person, Traffic, people
from benchmarks.day_scaling import Rule
from benchmarks.report import Report

FOUR, ONE = Fleet(slots=4), Fleet(slots=1)
#: of four slots none, and one in four, is kept free; of single ones likewise
TIGHT, ROOM = Rule(target_ongoing_requests=4, min_replicas=2), Rule(target_ongoing_requests=3, min_replicas=2)
TIGHT_ONE, ROOM_ONE = Rule(target_ongoing_requests=1, min_replicas=4), Rule(target_ongoing_requests=0.75, min_replicas=4)
FIXED = 36

#: what is compared, by a name that says what differs
SETTINGS: dict[str, tuple[Fleet, Rule]] = {
    f"fixed: {FIXED} replicas": (FOUR, replace(TIGHT, min_replicas=FIXED, max_replicas=FIXED)),
    "target 4, down 600": (FOUR, TIGHT),
    "target 4, down 300": (FOUR, replace(TIGHT, downscale_delay=300.0)),
    "target 4, down 60": (FOUR, replace(TIGHT, downscale_delay=60.0)),
    "target 4, down 600, up 5": (FOUR, replace(TIGHT, upscale_delay=5.0)),
    "target 3, down 600": (FOUR, ROOM),
    "target 3, down 300": (FOUR, replace(ROOM, downscale_delay=300.0)),
    "target 3, down 60": (FOUR, replace(ROOM, downscale_delay=60.0)),
    "target 3.5, down 300": (FOUR, replace(ROOM, target_ongoing_requests=3.5, downscale_delay=300.0)),
    "target 3, down 300, fewest": (replace(FOUR, victims="fewest"), replace(ROOM, downscale_delay=300.0)),
    "target 3, down 300, fewest, pack": (
        replace(FOUR, victims="fewest", placement="pack"), replace(ROOM, downscale_delay=300.0)
    ),
    "target 4, down 300, start 10": (replace(FOUR, start=10.0), replace(TIGHT, downscale_delay=300.0)),
    "target 4, down 300, start 300": (replace(FOUR, start=300.0), replace(TIGHT, downscale_delay=300.0)),
    "target 3, down 300, start 300": (replace(FOUR, start=300.0), replace(ROOM, downscale_delay=300.0)),
    "1 slot, target 1, down 300": (ONE, replace(TIGHT_ONE, max_replicas=250, downscale_delay=300.0)),
    "1 slot, target 0.75, down 300": (ONE, replace(ROOM_ONE, max_replicas=250, downscale_delay=300.0)),
    "1 slot, target 0.75, down 300, fewest": (
        replace(ONE, victims="fewest"), replace(ROOM_ONE, max_replicas=250, downscale_delay=300.0)
    ),
}  # fmt: skip
#: the one that is played on several days
AGAIN = "target 3, down 300"
SEEDS = (1, 2, 3, 4, 5)

COLUMNS = (
    "setting", "waited, %", "p95, s", "p99, s", "max, s", "gave up", "queue", "replica h", "busy h", "busy, %", "most",
    "started",
)  # fmt: skip


def run(report: Report, *, quick: bool) -> None:
    """Prints the tables."""
    traffic = Traffic(sessions=1000) if quick else Traffic()
    everybody = people(traffic, SEEDS[0])
    report.note(f"{len(everybody)} people, {sum(one.length for one in everybody) / 3600:.0f} hours of sessions")
    report.table("the same day, setting by setting", COLUMNS, (
        row(name, play(everybody, fleet, rule), fleet) for name, (fleet, rule) in SETTINGS.items()
    ))  # fmt: skip
    fleet, rule = SETTINGS[AGAIN]
    report.table(f"{AGAIN}: other days", COLUMNS, (
        row(f"seed {seed}", play(people(traffic, seed), fleet, rule, seed), fleet) for seed in SEEDS
    ))  # fmt: skip


def play(everybody: list[Person], fleet: Fleet, rule: Rule, seed: int = SEEDS[0]) -> Figures:
    """A day's figures; every one of them has an end, or this raises."""
    figures = Day(everybody, fleet, rule, seed=seed).run()
    assert figures.ends.total() == len(everybody)
    return figures


def row(name: str, figures: Figures, fleet: Fleet) -> list[object]:
    """One line of the table."""
    waits = np.array(figures.waits)
    p95, p99 = np.percentile(waits, (95, 99))
    gave_up = figures.ends["abandoned"] + figures.ends["no_room"]
    used, busy = figures.replica_time / 3600, figures.busy_time / 3600 / fleet.slots
    came = figures.ends.total()
    waited = (np.count_nonzero(waits > 1) + gave_up) / came
    return [
        name, 100 * waited, p95, p99, waits.max(), gave_up, figures.worst_queue, used, busy, 100 * busy / used,
        figures.most_replicas, figures.started,
    ]  # fmt: skip
