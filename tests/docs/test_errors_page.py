"""`docs/reference/errors.md` against the source, in both directions."""

from __future__ import annotations

import re

import pytest
from tests.docs.errors_page import PAGE, SECTION_OF_MODULE, SECTIONS, files, logged, module_of, page, raised

from reactor_trio.errors import CommandError, DeclarationError, ManifestError, OutputError, ReactorError


def test_the_page_is_that_of_the_source():
    """Write it with `python -m tests.docs.errors_page`."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_each_error_and_each_line_of_the_log_names_a_section_and_each_section_is_named():
    named = {anchor for each in raised() for anchor in each.anchors}
    assert named | logged() == set(SECTIONS)
    assert set(re.findall(r'<a id="(.*?)"></a>', PAGE.read_text(encoding="utf-8"))) == set(SECTIONS)


def test_the_modules_of_the_table_are_there():
    assert set(SECTION_OF_MODULE) <= {module_of(file) for file in files()}


@pytest.mark.parametrize("error", [DeclarationError("a"), ManifestError("a"), OutputError("a"), ReactorError("a")])
def test_a_traceback_ends_with_the_place_of_the_remedy(error):
    assert error.__notes__ == [f"docs/reference/errors.md#{type(error).anchor}"]
    assert str(error) == "a"


def test_an_error_names_the_section_that_the_code_gives_before_that_of_its_class():
    assert DeclarationError("a", anchor="no-yield").__notes__ == ["docs/reference/errors.md#no-yield"]


def test_an_answer_of_another_program_has_a_section_and_no_note():
    error = CommandError("busy", "later")
    assert error.link == "docs/reference/errors.md#command-refused"
    assert not hasattr(error, "__notes__")
