"""How Sphinx makes the site from `docs/`: `scripts/docs` runs it. No page of the site asks another host for anything."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

project = "reactor-trio"
author = "the authors of reactor-trio"
project_copyright = author
release = version = installed_version("reactor-trio").partition(".dev")[0]

extensions = [
    "myst_parser",          # pages are Markdown, as GitHub shows them
    "sphinx.ext.autodoc",   # the Python reference is the docstrings
    "sphinx.ext.napoleon",  # which have sections as Google's style has them
    "reference_pages.site",
]  # fmt: skip
exclude_patterns = ["cli.md", "protocol.md", "reference_pages", "_build", "pictures/*.md"]

# ---- Markdown as on GitHub --------------------------------------------------------------------------------------------
myst_heading_anchors = 4  # the anchors that GitHub gives headings
highlight_language = "text"  # of a block that names none
suppress_warnings = ["misc.highlighting_failure"]  # shortened JSON and the like is shown as it is, without colours

# ---- Python -----------------------------------------------------------------------------------------------------------
default_role = "py:obj"  # `name` in a docstring is a link where the reference has that name
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# ---- the look ---------------------------------------------------------------------------------------------------------
html_theme = "furo"
html_title = f"reactor-trio {release}"
html_static_path = ["reference_pages/static"]
html_css_files = ["site.css"]
html_js_files = ["search_from_files.js"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {
    "source_repository": "https://github.com/reactor-trio/reactor-trio",
    "source_branch": "main",
    "source_directory": "docs/",
    "top_of_page_buttons": ["view"],
}
