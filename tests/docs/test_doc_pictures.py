"""The pictures of docs/start and docs/learn are those that `scripts/pictures` takes."""

from __future__ import annotations

import re

from tests.browser.doc_pictures import DOCS, LARGEST, SHOTS

PICTURE = re.compile(r"\]\((?:\.\./)*pictures/((?:start|learn)/[\w-]+)\.webp\)")


def test_a_page_shows_the_pictures_that_are_taken_of_it():
    pages = [page for part in ("start", "learn") for page in (DOCS / part).glob("*.md")]
    shown = [(name, str(page.relative_to(DOCS))) for page in pages for name in PICTURE.findall(page.read_text("utf-8"))]
    assert set(shown) == {(name, shot.page) for name, shot in SHOTS.items()}


def test_pictures_are_small_and_none_is_left_over():
    pictures = [path for part in ("start", "learn") for path in (DOCS / "pictures" / part).iterdir()]
    assert {str(path.relative_to(DOCS / "pictures").with_suffix("")) for path in pictures} == set(SHOTS)
    assert [path for path in pictures if path.stat().st_size > LARGEST] == []


def test_a_picture_names_a_model_of_its_page():
    for name, shot in SHOTS.items():
        models = (DOCS / shot.page).read_text(encoding="utf-8").count("```python\n# model.py\n")
        assert 0 <= shot.model <= models, (name, models)
