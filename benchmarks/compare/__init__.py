"""Ours beside the peers: the same body, the same client session, fresh processes, in turns on one machine.

Each system serves with its own server and is watched with its own client, each in the environment that its publisher asks
for, ours installed from this checkout, all on one Python. `floor` is a bare trio-websocket loop around the body and our
encoder; `bare writes` the same loop sending bytes that were encoded before. What a figure is, `records` says.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report import Report


def run(report: Report, *, quick: bool, workload: Sequence[str] = ()) -> None:
    """All workloads three times, then what is no steady stream; quick: two workloads once. `workload`: only these."""
    from benchmarks.compare import comparison, goals, scenarios
    from benchmarks.compare.environments import OURS, PEER, environment_of, versions
    from benchmarks.compare.systems import answer_stun

    answer_stun()
    report.note(versions(environment_of(OURS), "av", "opencv-python-headless", "numpy"))
    report.note(versions(environment_of(PEER), "reactor-runtime", "reactor-sdk", "reactor-webrtc", "numpy"))
    if unknown := set(workload) - comparison.WORKLOADS.keys():
        raise SystemExit(f"compare: no workload {', '.join(sorted(unknown))}; there are: {'; '.join(comparison.WORKLOADS)}")
    names = list(workload or (comparison.QUICK if quick else comparison.WORKLOADS))
    turns = comparison.take_turns(names, *((1, 6.0, 12) if quick else (3, 8.0, 16)))
    comparison.tell(report, turns)
    goals.judge(report, turns)
    report.data["distributions"] = goals.spreads(turns)
    if workload:
        return
    scenarios.starts(report, 2 if quick else 5)
    if not quick:
        scenarios.slow(report, 8.0)
        scenarios.second(report, 8.0)
        scenarios.killed(report, 3)
