"""One viewer's congestion window: exact steps by hand, and whole simulated paths judged by what the viewer receives."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.simulated_path import Path, Simulation, Source

from reactor_trio.pacing import CongestionWindow
from reactor_trio.pacing.bandwidth_estimator import BandwidthEstimator

FULL = 2_000_000.0
FPS = 25.0
INTERVAL = 0.04
MEGABIT = 1e6
MAX_AGE = 0.150


def warm(delay: float, frames: int = 60) -> tuple[CongestionWindow, int, float]:
    """A link after so many frames, one each interval and each acknowledged after `delay`."""
    link = CongestionWindow(FULL, FPS, expected=True)
    events = [(i * INTERVAL, 1, i) for i in range(frames)] + [(i * INTERVAL + delay, 0, i) for i in range(frames)]
    for at, sends, seq in sorted(events):
        if sends:
            link.sent(seq, 10_000, at)
        else:
            link.acknowledged(seq, at)
    return link, frames, max(at for at, _, _ in events)


# ---- the window ---------------------------------------------------------------------------------------------------------


def test_without_feedback_there_is_no_window() -> None:
    link = CongestionWindow(FULL, FPS)
    for seq in range(1000):
        assert link.open(seq * INTERVAL)
        link.sent(seq, 10_000, seq * INTERVAL)
        link.skipped(seq * INTERVAL)
    assert not link.active
    assert link.quality.bitrate == FULL
    assert link.in_flight <= 64


@pytest.mark.parametrize(("delay", "frames"), [(0.005, 2), (0.039, 2), (0.041, 3), (0.1, 4), (0.5, 14), (5.0, 32)])
def test_no_more_than_one_round_trip_and_one_frame_are_in_flight(delay: float, frames: int) -> None:
    link, seq, now = warm(delay, 300)
    assert link.round_trip == pytest.approx(delay)
    sent = 0
    while link.open(now) and sent < 100:
        link.sent(seq + sent, 10_000, now)
        sent += 1
    assert sent == frames


def test_before_the_first_acknowledgement_two_frames_go_out_if_one_is_expected() -> None:
    link = CongestionWindow(FULL, FPS, expected=True)
    for seq in range(2):
        assert link.open(0.0)
        link.sent(seq, 10_000, 0.0)
    assert not link.open(0.0)


def test_one_acknowledgement_covers_all_frames_before_it() -> None:
    link, seq, now = warm(0.1)
    for i in range(4):
        link.sent(seq + i, 10_000, now)
    assert not link.open(now)
    link.acknowledged(seq + 3, now + 0.1)
    assert link.in_flight == 0
    assert link.open(now + 0.1)


def test_a_viewer_that_stops_acknowledging_gets_single_frames_at_growing_intervals() -> None:
    link, seq, now = warm(0.01)
    link.sent(seq, 10_000, now)
    link.sent(seq + 1, 10_000, now)
    probes = []
    for i in range(4):
        assert not link.open(link.reopens_at() - 0.001)
        probes.append(link.reopens_at() - now)
        now = link.reopens_at()
        assert link.open(now)
        link.sent(seq + 2 + i, 10_000, now)
    assert probes == pytest.approx([2, 4, 8, 8])
    link.acknowledged(seq + 5, now)
    assert link.open(now)
    assert link.quality.bitrate > 0


# ---- the cadence --------------------------------------------------------------------------------------------------------


class Watched:
    """A viewer with `delay` that acknowledges with the first frame after each cadence, as the clients do.

    The server handles each acknowledgement `lag` seconds after it came.
    """

    def __init__(self, delay: float, *, relaxes: bool = True, fps: float = FPS) -> None:
        self.link = CongestionWindow(FULL, fps, expected=True, relaxes=relaxes)
        self.delay, self.interval = delay, 1 / fps
        self.now, self.seq, self.skipped, self.acknowledgements = 0.0, 0, 0, 0
        self.lag = 0.0
        self._acknowledged = -math.inf
        self._coming: list[tuple[float, int]] = []

    def run(self, seconds: float) -> None:
        """Send a frame each interval, where the window is open."""
        end = self.now + seconds
        while self.now < end:
            if self.link.open(self.now):
                self.link.sent(self.seq, 10_000, self.now)
                if self.now + self.delay - self._acknowledged >= self.link.cadence:
                    self._coming.append((self.now + self.delay, self.seq))
                    self._acknowledged = self.now + self.delay
            else:
                self.link.skipped(self.now)
                self.skipped += 1
            self.seq += 1
            self.now += self.interval
            while self._coming and self._coming[0][0] + self.lag <= self.now:
                at, seq = self._coming.pop(0)
                self.link.acknowledged(seq, at + self.lag, self.lag)
                self.acknowledgements += 1


@pytest.mark.parametrize("fps", [12.0, 25.0, 30.0, 60.0])
def test_a_near_viewer_on_a_good_link_acknowledges_less_often_and_loses_nothing(fps: float) -> None:
    viewer = Watched(0.003, fps=fps)
    viewer.run(1.9)
    assert viewer.link.cadence == 0
    viewer.run(0.3)
    assert viewer.link.cadence == 0.25
    viewer.acknowledgements = 0
    viewer.run(10)
    assert viewer.skipped == 0
    assert viewer.acknowledgements <= 41
    assert viewer.link.quality.bitrate == FULL
    assert math.isinf(viewer.link._rate.limit)


@pytest.mark.parametrize(
    "viewer",
    [Watched(0.003, relaxes=False), Watched(0.03), Watched(0.003, fps=5.0), Watched(0.003, fps=100.0)],
    ids=["that does not know it", "that is far", "of a slow model", "of a model so fast that the window would be too large"],
)
def test_other_viewers_acknowledge_each_frame(viewer: Watched) -> None:
    viewer.run(10)
    assert viewer.link.cadence == 0


def test_the_first_late_acknowledgement_ends_it_and_it_comes_back_later() -> None:
    viewer = Watched(0.003)
    viewer.run(3)
    viewer.link.sent(viewer.seq, 10_000, viewer.now)
    viewer.link.acknowledged(viewer.seq, viewer.now + 0.1)
    assert viewer.link.cadence == 0
    viewer.seq, viewer.now = viewer.seq + 1, viewer.now + 0.12
    viewer.run(2)
    assert viewer.link.cadence == 0
    viewer.run(0.2)
    assert viewer.link.cadence == 0.25


@pytest.mark.parametrize("lag", [0.03, 0.1, 0.3])
def test_a_server_that_is_behind_does_not_take_that_for_a_slow_link(lag: float) -> None:
    viewer = Watched(0.003)
    viewer.run(3)
    viewer.lag = lag
    viewer.run(1)  # the first acknowledgement tells how far it is behind
    viewer.skipped = 0
    viewer.run(10)
    assert viewer.link.cadence == 0.25
    assert viewer.skipped == 0
    assert viewer.link.quality.bitrate == FULL
    assert math.isinf(viewer.link._rate.limit)
    viewer.lag = 0.0
    viewer.run(3)
    sent = 0
    while viewer.link.open(viewer.now) and sent < 100:
        viewer.link.sent(viewer.seq + sent, 10_000, viewer.now)
        sent += 1
    assert viewer.link.in_flight <= 10, "what it was behind no longer counts"


@pytest.mark.parametrize("lag", [0.0, 0.03, 0.1, 0.3])
def test_a_link_that_is_fast_again_is_trusted_as_soon_by_a_server_that_is_behind(lag: float) -> None:
    viewer = Watched(0.003)
    viewer.run(3)
    viewer.delay = 0.2
    viewer.run(3)
    assert viewer.link.quality.bitrate < FULL
    viewer.delay, viewer.lag = 0.003, lag
    viewer.run(4)
    assert viewer.link.quality.bitrate == FULL


def test_a_closed_window_ends_it() -> None:
    viewer = Watched(0.003)
    viewer.run(3)
    sent = 0
    while viewer.link.open(viewer.now):
        viewer.link.sent(viewer.seq + sent, 10_000, viewer.now)
        sent += 1
    assert viewer.link.in_flight <= 10, "what a cadence, a round trip and two frames take"
    viewer.link.skipped(viewer.now)
    assert viewer.link.cadence == 0


def test_all_frames_of_one_acknowledgement_are_measured_over_their_whole_time() -> None:
    link, seq, now = warm(0.005)
    began = now
    for number in range(8):
        link.sent(seq + number, 10_000, now + number * INTERVAL)
    now += 7 * INTERVAL + 0.005
    link.acknowledged(seq + 7, now)
    (_, bits, worked) = link._rate._acks[-1]
    assert bits == 8 * 80_000
    assert worked == pytest.approx(now - began - 0.005, abs=0.006)


# ---- further ------------------------------------------------------------------------------------------------------------


def test_two_stalls_in_a_row_are_a_link_that_carries_what_came_in_the_second() -> None:
    rate = BandwidthEstimator(8_000_000.0)
    rate.delivered(4_000_000.0, 2.0, 1.0, True, 2.0)
    rate.delivered(1_000_000.0, 2.0, 1.0, True, 4.0)
    assert rate.limit == 500_000.0


def test_what_arrives_at_the_instant_of_a_lower_limit_proves_no_rate() -> None:
    rate = BandwidthEstimator(8_000_000.0)
    rate.lower_limit(500_000.0, 4.0)
    rate.delivered(1_000_000.0, 0.0, 0.0, False, 4.0)
    assert rate.limit == 500_000.0
    rate.delivered(100_000.0, 0.5, 0.0, False, 4.5)  # 1.1 Mbit in half a second, of which the limit explains a quarter
    assert rate.limit == pytest.approx(2_200_000.0)


def test_an_open_window_does_not_wait() -> None:
    assert CongestionWindow(FULL, FPS, expected=True).reopens_at() == -math.inf


@pytest.mark.parametrize(("size", "opens"), [(2_000, True), (60_000, False)])
def test_with_a_known_limit_a_keyframe_closes_the_window(size: int, opens: bool) -> None:
    simulation = Simulation(Path([(0, MEGABIT)], delay=0.1), Source())  # carries 230 kbit in a round trip and an interval
    newest = simulation.run(20).frames[-1].seq
    link = simulation.link
    link.acknowledged(newest, 20.5)
    link.sent(newest + 1, size, 20.5)
    assert link.open(20.5) == opens


def test_a_longer_route_is_learned() -> None:
    link, seq, now = warm(0.01)
    below = []
    offered = [(now + i * INTERVAL, 1, seq + i) for i in range(600)]
    events = sorted([*offered, *((at + 0.15, 0, number) for at, _, number in offered)])
    gone: set[int] = set()
    for at, sends, number in events:
        if sends and link.open(at):
            link.sent(number, round(link.quality.bitrate / FPS / 8), at)
            gone.add(number)
        elif sends:
            link.skipped(at)
        elif number in gone:
            link.acknowledged(number, at)
        if link.quality.bitrate < FULL:
            below.append(at - now)
    assert link.round_trip == pytest.approx(0.15)
    assert link.quality.bitrate == FULL
    assert not below or max(below) < 8


def test_an_equal_description_changes_nothing() -> None:
    link, _, _ = warm(0.01)
    link.describe(4 * MEGABIT, 50.0, "h264", 1280, 720)
    quality = link.quality
    assert quality.bitrate == 4 * MEGABIT
    link.describe(4 * MEGABIT, 50.0, "h264", 1280, 720)
    assert link.quality is quality
    assert link.interval == 0.02


# ---- a viewer that lies -------------------------------------------------------------------------------------------------

LIES = st.one_of(st.integers(), st.integers(-5, 200), st.sampled_from([2**63, -(2**63), 10**30]))


@given(st.lists(st.tuples(st.sampled_from(["send", "lie", "skip"]), LIES, st.floats(0, 3)), max_size=200))
def test_a_viewer_gains_nothing_by_false_acknowledgements(moves: list[tuple[str, int, float]]) -> None:
    link = CongestionWindow(FULL, FPS)
    link.describe(FULL, FPS, "h264", 640, 480)
    now, seq, most = 0.0, 0, 0
    for move, number, pause in moves:
        now += pause
        if move == "send" and link.open(now):
            link.sent(seq, 10_000, now)
            seq += 1
        elif move == "lie":
            before = link.in_flight
            link.acknowledged(number, now)
            most = max(most, number if number < seq else 0)
            if not 0 <= number < seq:
                assert link.in_flight == before
        elif move == "skip":
            link.skipped(now)
        assert 0 < link.quality.bitrate <= FULL
        assert link.quality.scale <= 1
        assert link.quality.divisor >= 1
        assert 0 <= link.in_flight <= 64
        assert 0 <= link.round_trip <= now


def test_invalid_acknowledgements_are_no_feedback() -> None:
    link = CongestionWindow(FULL, FPS)
    for lie in (-1, 0, 5, 2**70):
        link.acknowledged(lie, 0.0)
    assert not link.active
    link.sent(7, 10_000, 0.0)
    for lie in (-1, 6, 8, 2**70):
        link.acknowledged(lie, 0.1)
    assert not link.active
    assert link.open(0.1)


# ---- whole paths --------------------------------------------------------------------------------------------------------


def assert_in_time(simulation: Simulation, rate: float, start: float, end: float) -> None:
    """95 of 100 pictures arrive within the age that is promised: `max_age`, a round trip, their own transmission."""
    path = simulation.path
    frames = [f for f in simulation.outcome.frames if start <= f.pts < end and not math.isnan(f.arrived)]
    over = sorted(f.arrived - f.pts - (MAX_AGE + 2 * path.delay + f.bits / rate) for f in frames)
    assert len(over) > 5 * (end - start)
    assert over[int(0.95 * len(over))] < 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("round_trip", [0.001, 0.04, 0.1])
def test_a_good_link_keeps_full_quality(round_trip: float, seed: int) -> None:
    path = Path([(0, 100 * MEGABIT)], delay=round_trip / 2, decode=(0.0, 0.012))
    simulation = Simulation(path, Source(fps=60, full=4 * MEGABIT), seed)
    outcome = simulation.run(30)
    assert [quality.bitrate for _, quality in outcome.qualities] == [4 * MEGABIT]
    assert len(outcome.frames) >= 0.99 * len(outcome.offered)
    assert outcome.most_in_flight <= math.ceil((round_trip + 0.012) * 60) + 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("burst", "buffer"), [(4, 16), (32, 1024), (32, 16)])
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("rate", [MEGABIT, 0.3 * MEGABIT])
def test_a_slow_link_carries_fresh_pictures(rate: float, delay: float, burst: int, buffer: int, seed: int) -> None:
    path = Path([(0, rate)], delay=delay, burst=burst * 1024, buffer=buffer * 1024)
    simulation = Simulation(path, Source(), seed)
    outcome = simulation.run(40)
    assert_in_time(simulation, rate, 3, 40)
    assert outcome.sizes(3, 40) == 0
    assert outcome.bitrate(3, 40) > 0.8 * rate
    divisor = outcome.qualities[-1][1].divisor
    assert outcome.fps(3, 40) > 0.85 * 30 / divisor


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("delay", "burst", "buffer"), [(0.0, 4, 16), (0.02, 32, 1024), (0.1, 16, 64)])
@pytest.mark.parametrize("rate", [MEGABIT, 0.3 * MEGABIT])
def test_a_link_that_narrows_and_opens_again(rate: float, delay: float, burst: int, buffer: int, seed: int) -> None:
    rates = [(0, 100 * MEGABIT), (10.0, rate), (30.0, 100 * MEGABIT)]
    simulation = Simulation(Path(rates, burst=burst * 1024, buffer=buffer * 1024, delay=delay), Source(), seed)
    outcome = simulation.run(45)
    assert_in_time(simulation, rate, 13, 30)
    assert outcome.sizes(13, 30) == 0
    assert outcome.full_since() < 35


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("rate", "fps"), [(0.3 * MEGABIT, 30.0), (MEGABIT, 60.0)])
def test_a_large_picture_on_a_link_that_is_slow_from_the_start(rate: float, fps: float, seed: int) -> None:
    source = Source(fps=fps, width=1280, height=720, full=5 * MEGABIT)
    simulation = Simulation(Path([(0, rate), (30.0, 100 * MEGABIT)], delay=0.02, burst=32 * 1024), source, seed)
    outcome = simulation.run(45)
    first = outcome.frames[0].bits / rate  # the first keyframe's transmission, before anything can be known
    assert_in_time(simulation, rate, 3 + first, 30)
    assert outcome.sizes(3 + first, 30) <= 2
    assert outcome.full_since() < 35


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("rate", [100 * MEGABIT, 5 * MEGABIT])
def test_a_stall_of_three_seconds(rate: float, delay: float, seed: int) -> None:
    simulation = Simulation(Path([(0, rate), (10.0, 0.0), (13.0, rate)], delay=delay), Source(), seed)
    outcome = simulation.run(25)
    assert_in_time(simulation, rate, 13.2, 25)
    assert outcome.full_since() < 15
    assert outcome.sizes(0, 25) == 0
    assert len([f for f in outcome.frames if 10.5 < f.pts < 12.9]) <= 2


@pytest.mark.parametrize("seed", range(3))
def test_full_quality_returns_although_the_encoder_produces_less_than_its_target(seed: int) -> None:
    path = Path([(0, 0.3 * MEGABIT), (20.0, 100 * MEGABIT)], delay=0.02)
    outcome = Simulation(path, Source(share=0.5), seed).run(40)
    assert outcome.full_since() < 26


@pytest.mark.parametrize("seed", range(3))
def test_buffers_that_filled_before_the_first_acknowledgement_drain(seed: int) -> None:
    """A client that is not known to acknowledge has no window before its first acknowledgement."""
    path = Path([(0, 0.3 * MEGABIT)], delay=0.02, buffer=1 << 20)
    simulation = Simulation(path, Source(), seed, expected=False)
    outcome = simulation.run(40)
    assert outcome.most_buffered > 2 * MEGABIT
    assert_in_time(simulation, 0.3 * MEGABIT, 3 + outcome.most_buffered / (0.3 * MEGABIT), 40)


def test_a_viewer_that_never_acknowledges_is_sent_everything() -> None:
    outcome = Simulation(Path([(0, 100 * MEGABIT)]), Source(), expected=False, acks=False).run(10)
    assert len(outcome.frames) >= len(outcome.offered) - 1
    assert len(outcome.qualities) == 1


def test_without_its_window_a_slow_link_would_be_seconds_behind() -> None:
    """The simulation of a server without a window shows that the tests above can fail."""
    outcome = Simulation(Path([(0, 0.3 * MEGABIT)], buffer=1 << 20), Source(), expected=False, acks=False).run(40)
    assert outcome.age(0.5, 10, 40) > 10
