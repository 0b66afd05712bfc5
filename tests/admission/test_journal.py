import re

import pytest

from reactor_trio.admission import PhaseJournal, phase_journal


def test_phases_are_numbered_and_read_in_parts() -> None:
    journal = PhaseJournal(1.0)
    journal.enter("ready", 2.0)
    journal.enter("ready", 3.0)
    journal.enter("draining", 4.0, "SIGTERM")
    assert [(e.seq, e.phase, e.at) for e in journal.after(1)] == [(2, "ready", 2.0), (3, "draining", 4.0)]
    assert (journal.phase, journal.reason) == ("draining", "SIGTERM")


def test_each_phase_is_told_when_it_is_entered_and_once() -> None:
    entered: list[str] = []
    journal = PhaseJournal(0.0, entered.append)
    for phase in ("ready", "loading", "ready", "draining", "drained", "failed", "failed", "stopped"):
        journal.enter(phase, 1.0)
    assert entered == ["loading", "ready", "loading", "ready", "draining", "drained", "failed", "stopped"]
    assert [entry.phase for entry in journal.after(0)] == entered


def test_the_table_of_the_page_is_that_of_the_code() -> None:
    rows = [line.split("|")[1:-1] for line in (phase_journal.__doc__ or "").splitlines() if line.startswith("| `")]
    assert {phase.strip(" `"): tuple(re.findall(r"`(\w+)`", after)) for phase, _means, after in rows} == phase_journal._NEXT


def test_a_phase_never_goes_back() -> None:
    journal = PhaseJournal(0.0)
    journal.enter("failed", 1.0, "load() raised")
    with pytest.raises(ValueError, match="cannot go from failed to ready"):
        journal.enter("ready", 2.0)


def test_another_thread_may_read_while_a_phase_is_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile: list[phase_journal.Phase] = []

    class Entry(phase_journal.PhaseEntry, frozen=True):
        """The server goes on while a reader looks at it."""

        def __getattribute__(self, name: str) -> object:
            if name == "seq" and meanwhile:
                journal.enter(meanwhile.pop(), 3.0)
            return super().__getattribute__(name)

    monkeypatch.setattr(phase_journal, "PhaseEntry", Entry)
    journal = PhaseJournal(1.0)
    journal.enter("ready", 2.0)
    meanwhile.append("draining")
    assert [entry.phase for entry in journal.after(0)] == ["loading", "ready"]
    assert [entry.phase for entry in journal.after(0)] == ["loading", "ready", "draining"]
