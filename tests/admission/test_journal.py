import pytest

from reactor_trio.admission import PhaseJournal


def test_phases_are_numbered_and_read_in_parts() -> None:
    journal = PhaseJournal(1.0)
    assert journal.enter("ready", 2.0)
    assert not journal.enter("ready", 3.0)
    assert journal.enter("draining", 4.0, "SIGTERM")
    assert [(e.seq, e.phase, e.at) for e in journal.after(1)] == [(2, "ready", 2.0), (3, "draining", 4.0)]
    assert (journal.phase, journal.reason) == ("draining", "SIGTERM")


def test_a_phase_never_goes_back() -> None:
    journal = PhaseJournal(0.0)
    journal.enter("failed", 1.0, "load() raised")
    with pytest.raises(ValueError, match="cannot go from failed to ready"):
        journal.enter("ready", 2.0)
