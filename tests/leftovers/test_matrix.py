"""Nothing is left of a session that is over, with the collector off: every kind of model, every ending, in virtual time.

CI runs few sessions of each cell, since the counts are exact. The soak tests run fifty.
"""

from __future__ import annotations

import pytest

from tests.leftovers.growth import kept_by
from tests.leftovers.happenings import HAPPENINGS, Talking, moderated
from tests.leftovers.happenings import SETTINGS as HAPPENING_SETTINGS
from tests.leftovers.kinds import KINDS
from tests.leftovers.matrix import ENDINGS, IMPOSSIBLE, Cell, cell_of

CELLS = [(kind, ending) for kind in KINDS for ending in ENDINGS if (kind, ending) not in IMPOSSIBLE]
every_cell = pytest.mark.parametrize(("kind", "ending"), CELLS, ids=[f"{kind}, {ending}" for kind, ending in CELLS])
#: Bytes that fifty sessions may keep. They keep up to 0.4 MB, most of it once (free lists). A frame of each would be 7.4 MB.
MAY_KEEP = 2**19


@every_cell
async def test_nothing_is_left_of_a_session(autojump_clock, monkeypatch, tmp_path, kind, ending):
    left = await cell_of(kind, ending, sessions=3, warm=3).run(monkeypatch, tmp_path)
    assert not left.lines, left


@pytest.mark.parametrize("happening", HAPPENINGS)
async def test_nothing_is_left_of_the_events_of_a_session(autojump_clock, monkeypatch, tmp_path, happening):
    visit = HAPPENINGS[happening]
    settings = HAPPENING_SETTINGS.get(happening, {}) | {"moderate": moderated, "fps": 20}
    recorded = tmp_path / "recorded"
    if happening == "is recorded":
        settings |= {"record": str(recorded)}
    (tmp_path / "temporary").mkdir()
    left = await Cell(Talking, visit, settings, 3, 3, visit).run(monkeypatch, tmp_path / "temporary")
    assert not left.lines, left
    assert recorded.exists() == (happening == "is recorded")


@pytest.mark.parametrize("kind", KINDS)
def test_fifty_sessions_keep_no_memory(tmp_path, kind):
    assert kept_by(kind, tmp_path) < MAY_KEEP


@pytest.mark.soak
@every_cell
async def test_nothing_is_left_of_fifty_sessions(autojump_clock, monkeypatch, tmp_path, kind, ending):
    left = await cell_of(kind, ending, sessions=50, warm=8).run(monkeypatch, tmp_path)
    assert not left.lines, left


def test_impossible_cells_are_named_by_kind_and_ending():
    assert {kind for kind, _ in IMPOSSIBLE} <= set(KINDS)
    assert {ending for _, ending in IMPOSSIBLE} <= set(ENDINGS)
