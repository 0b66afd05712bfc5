"""Step times of models through the whole pacer, in virtual time, compared with the plain rules of `benchmarks traces`."""

from itertools import pairwise

import pytest
from benchmarks.pacing_rules import AXES, Played, Trace, at_once, comparable, dominates, fixed, last_step, scores, smoothed
from benchmarks.traces import ours, recorded, scoreboard, traces

GROUPS = ["no fps, batch 1", "fps 30, faster, batch 1", "fps 30, slower, batch 1", "no fps, batch 4"]
#: a steady model with one stall
STALL = [0.05] * 20 + [1.0] + [0.05] * 40


def gaps(played: Played) -> list[float]:
    return [after - before for before, after in pairwise(played.shown)]


# ---- the rules --------------------------------------------------------------------------------------------------------


def test_at_once_shows_each_frame_when_its_step_ends() -> None:
    played = at_once(Trace("", [0.5, 0.25], batch=2, between=0.125))
    assert played.began == [0, 0, 0.625, 0.625]
    assert played.ready == played.shown == [0.5, 0.5, 0.875, 0.875]


def test_a_fixed_rate_ticks_on_and_the_model_waits_while_the_queue_is_full() -> None:
    played = fixed(2)(Trace("", [0.125] * 6, fps=4))
    assert played.shown == [0.25, 0.5, 0.75, 1.0, 1.25, 1.5]
    # The fourth is ready at 0.5 and finds room then; the fifth at 0.625 and waits until 0.75.
    assert played.ready == [0.125, 0.25, 0.375, 0.5, 0.625, 0.875]
    assert played.began == [0.0, 0.125, 0.25, 0.375, 0.5, 0.75]


def test_a_tick_that_finds_no_frame_shows_nothing() -> None:
    assert fixed(10)(Trace("", [0.3, 0.3, 0.3], fps=4)).shown == [0.5, 0.75, 1.0]
    assert fixed(10)(Trace("", [0.375] * 3, fps=4)).shown == [0.5, 0.75, 1.25]


def test_the_time_between_ticks_follows_the_steps() -> None:
    trace = Trace("", [0.5, 0.5, 0.25, 0.25, 0.25], batch=2)
    assert gaps(last_step(10)(trace))[1:5] == pytest.approx([0.25, 0.25, 0.125, 0.125])
    assert gaps(smoothed(10)(trace))[-1] > 0.125
    assert gaps(last_step(10)(Trace("", [0.001] * 5)))[-1] == pytest.approx(1 / 60)


def test_the_scores_of_what_is_shown() -> None:
    trace = Trace("", [0.1] * 5)
    row = scores(trace, Played([0.0, 0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4, 0.5], [0.1, 0.2, 0.3, 0.4, 1.4]))
    assert (row["freezes"], row["frozen"]) == (1, pytest.approx(1000))
    assert (row["delay p50"], row["command p50"]) == pytest.approx((0, 100))
    assert row["gap sd"] == pytest.approx(389.7, abs=0.1)
    assert row["rate %"] == pytest.approx(100 * (4 / 1.3) / 10)


# ---- ours -------------------------------------------------------------------------------------------------------------


def test_frames_of_a_steady_model_do_not_wait() -> None:
    for batch in (1, 4):
        played = ours(Trace("", [0.125 * batch] * 20, batch))
        assert gaps(played) == pytest.approx([0.125] * (20 * batch - 1), abs=2e-6)
        assert played.shown[::batch] == pytest.approx(played.ready[::batch], abs=2e-6)


def test_the_second_step_replaces_a_slow_first_one() -> None:
    played = ours(Trace("", [4.0, 0.125, 0.0625, 0.0625, 0.0625]))
    assert played.shown == pytest.approx([4.0, 4.125, 4.1875, 4.25, 4.3125], abs=2e-6)
    first = ours(Trace("", [8.0, 0.5, 0.5], batch=4)).shown
    # The first frame lasts until the second step shows how fast the model is; then the rest of the first batch is due.
    assert first == pytest.approx([8.0, 8.5, 8.625, 8.75, 8.875, 9.0, 9.125, 9.25, 9.375, 9.5, 9.625, 9.75], abs=2e-6)


def test_one_stall_is_one_gap_and_does_not_slow_later_frames() -> None:
    played = ours(Trace("", STALL))
    seen = gaps(played)
    assert seen[:19] == pytest.approx([0.05] * 19, abs=2e-6)
    assert seen[19] == pytest.approx(1.0, abs=2e-6)
    assert max(seen[20:]) <= 0.055 + 2e-6
    assert scores(Trace("", STALL), played)["freezes"] == 1
    assert scores(Trace("", STALL), last_step(10)(Trace("", STALL)))["freezes"] == 2


def test_the_time_between_two_steps_counts_for_the_rate() -> None:
    trace = Trace("", recorded("sleep")[:300], between=0.002)
    own, peer, model = (scores(trace, played) for played in (ours(trace), last_step(10)(trace), at_once(trace)))
    assert own["gap sd"] < 0.5 * model["gap sd"]
    assert own["gap sd"] < 0.1 * peer["gap sd"]
    assert own["delay p95"] < 6
    assert own["rate %"] > 99.9


def test_a_jittery_model_that_never_rests_is_shown_evenly_and_loses_no_frames() -> None:
    (trace,) = [trace for group, trace in traces(300) if (group, trace.name) == ("no fps, batch 1", "jittery")]
    own, model = scores(trace, ours(trace)), scores(trace, at_once(trace))
    assert own["gap sd"] < 0.55 * model["gap sd"]
    assert own["gap change"] < 0.35 * model["gap change"]
    assert own["delay p50"] < 12
    assert own["rate %"] > 99


@pytest.mark.parametrize("group", GROUPS)
def test_no_rule_beats_ours_in_one_score_without_losing_in_another(group: str) -> None:
    for _, trace in (entry for entry in traces(300) if entry[0] == group):
        rows = scoreboard(trace)
        better = [rule for rule, row in rows.items() if comparable(trace, row) and dominates(row, rows["ours"], AXES)]
        assert better == [], trace.name
