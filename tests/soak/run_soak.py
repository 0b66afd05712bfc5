"""`scripts/soak`: soak one server for some minutes, and say what came of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.soak.figures import Sample, table
from tests.soak.soaking import soak


def main() -> int:
    """Exit status: 1 if a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="scripts/soak", description="Mixed clients against a real server.",
        epilog="scripts/soak --tests runs the tests marked soak instead.",
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long clients come (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="decides what each client does (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures, counts and samples here")
    parser.add_argument("--log", type=Path, metavar="FILE", help="keep the server's log here")
    asked = parser.parse_args()

    def say(sample: Sample) -> None:
        if round(sample.at) % 15 == 0:
            print(
                f"{sample.at:6.0f} s  {sample.sessions:6} sessions  {sample.resident:6.1f} MiB ({sample.anonymous:.1f} "
                f"anonymous)  {sample.threads:3} threads  {sample.descriptors:3} descriptors",
                flush=True,
            )

    with tempfile.TemporaryDirectory() as folder:
        try:
            soaked = soak(Path(folder), seed=asked.seed, seconds=asked.minutes * 60, say=say)
        finally:
            if asked.log:
                asked.log.write_bytes((Path(folder) / "log").read_bytes())
    figures = soaked.figures()
    before, after = soaked.conditions["load_before"][0], soaked.conditions["load_after"][0]
    print(f"\n{soaked.seconds:.0f} s{', interrupted' * soaked.stopped}, seed {soaked.seed}; load {before:.1f} before, "
          f"{after:.1f} at the end, {soaked.conditions['cores']} cores\n")  # fmt: skip
    print(table(figures))
    print("\nclients:", ", ".join(f"{number} {name}" for name, number in soaked.ledger.kinds.most_common()))
    print("ends:", ", ".join(f"{number} {reason}" for reason, number in soaked.server_sessions.items()))
    print("counts:", ", ".join(f"{number} {name}" for name, number in sorted(soaked.ledger.counts.items())))
    for problem, words in soaked.ledger.words.items():
        print(f"\n{soaked.ledger.problems[problem]} {problem}, the first of them:", *words, sep="\n  ")
    if asked.json:
        asked.json.write_text(soaked.as_json(figures))
    return int(any(figure.met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
