"""The sections of `docs/reference/errors.md`: each mistake of an error or a warning, and its remedy.

An error has the section that the code names (`anchor=`), else that of the module that makes it, else that of its class.
`python -m tests.docs.errors_page` writes the page from this table, with the texts of the errors from the source.
"""

from __future__ import annotations

from typing import Final

from reactor_trio.error_catalog.model_sections import MODEL_SECTIONS
from reactor_trio.error_catalog.section import Section
from reactor_trio.error_catalog.serving_sections import SERVING_SECTIONS

SECTIONS: Final[dict[str, Section]] = {**MODEL_SECTIONS, **SERVING_SECTIONS}

#: module -> anchor
SECTION_OF_MODULE: Final = {
    f"reactor_trio.{module}": anchor for anchor, section in SECTIONS.items() for module in section.modules
}
