"""The soak in small: the same clients and checks as `scripts/soak`, without the slope; and each check can fail."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from tests.soak import behaviours, secret_model, soaking
from tests.soak.figures import Figure, Slope, table
from tests.soak.soaking import Soaked, soak

SOURCE = Path(secret_model.__file__).read_text()


def missed(soaked: Soaked) -> list[Figure]:
    """The bars that are not met, of a soak that is too short for a slope."""
    print(f"\n{table(figures := soaked.figures(slopes=False, pace=0, rested=False))}\n{soaked.ledger.words}")
    return [figure for figure in figures if figure.met is False]


def test_sixty_mixed_clients(tmp_path):
    soaked = soak(tmp_path, sessions=60, rest=0, seed=2)
    assert missed(soaked) == []
    assert soaked.sessions > 30
    assert len(soaked.ledger.kinds) > 15
    assert soaked.ledger.counts["frames checked"] > 100


@pytest.fixture
def only(monkeypatch):
    """Nobody but clients that do this comes."""

    def choose(*kinds: behaviours.Behaviour) -> None:
        monkeypatch.setattr(soaking, "VISITS", dict.fromkeys(kinds, 1.0))

    return choose


def test_a_model_that_remembers_the_last_client_is_found(tmp_path, only):
    only(behaviours.polite)
    before, after = "self.state.secret else NONE", "self.state.secret else getattr(self, 'last', NONE)"
    leaky = SOURCE.replace(before, f"{after}\n                self.last = secret")
    assert leaky != SOURCE
    soaked = soak(tmp_path, sessions=12, rest=0, model=leaky)
    assert soaked.ledger.problems["cross-talk"] > 0
    assert {figure.name for figure in missed(soaked)} == {"cross-talk"}


def test_an_answer_that_never_comes_is_found(tmp_path, only):
    def asks_what_is_not_answered(door: behaviours.Door) -> None:
        with door.connect(video="none", audio="none") as visit:
            visit.enter()
            visit.patience = 0.3
            visit.unanswered[99] = "a command that never reached the server"
            visit.settle()

    only(asks_what_is_not_answered)
    soaked = soak(tmp_path, sessions=2, rest=0)
    assert soaked.ledger.problems["lost acknowledgements"] == 2


@pytest.mark.parametrize("size", [64, 48, 30])
def test_a_secret_outlives_lossy_codecs_and_smaller_pictures(size):
    dice = random.Random(1)
    for secret in [secret_model.NONE, *(dice.getrandbits(64) for _ in range(50))]:
        shown = secret_model.picture(secret)
        coded = simplejpeg.decode_jpeg(simplejpeg.encode_jpeg(np.ascontiguousarray(shown), quality=40))
        smaller = coded[(np.arange(size) * 64 // size)][:, np.arange(size) * 64 // size]
        assert secret_model.read_picture(smaller) == secret
    assert secret_model.read_picture(np.full((64, 64, 3), 128, np.uint8)) is None


def test_a_slope_is_that_of_the_last_four_fifths():
    points = [(sessions, 100.0 if sessions < 200 else 150 + sessions * 3e-4) for sessions in range(0, 1001, 10)]
    slope = Slope.of(points)
    assert slope is not None
    assert slope.least_squares == pytest.approx(3.0)
    assert slope.theil_sen == pytest.approx(3.0)
    assert Slope.of(points[:1]) is None
