"""The parts of the reference that are made from the source (`docs/reference_pages`) have everything, and say it right."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import msgspec
from reference_pages.commands import commands
from reference_pages.docstrings import for_sphinx
from reference_pages.links import links_for_the_site
from reference_pages.manifest import comments, manifest
from reference_pages.metrics import metrics
from reference_pages.navigation import pages_below
from reference_pages.python import MODULES, meanings, python
from reference_pages.site import page_for_the_site
from reference_pages.vectors import FILE, vectors

from reactor_trio.cli.command_parser import build_parser
from reactor_trio.configuration.introduction import IntroductionKeys
from reactor_trio.configuration.settings import AuthSettings, LimitSettings, Settings, TlsSettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def rows(text: str) -> dict[str, list[str]]:
    """The other cells of each row, by its first; a sign that would end a cell is none."""
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in lines}


def section(text: str, heading: str) -> str:
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_every_command_and_option_is_there_with_what_help_says():
    text = commands()
    (parsers,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, parser in parsers.choices.items():
        shown = rows(section(text, f"`reactor {name}`"))
        actions = [action for action in parser._actions if action.dest != "help"]
        assert len(shown) == len(actions)
        assert [cells[0].replace("\\|", "|") for cells in shown.values()] == [action.help for action in actions]
    assert rows(section(text, "`reactor init`"))["--template T"] == ["gradient (default), run_loop or app"]
    assert "reactor run [-h] [--path PATH]" in section(text, "`reactor run`")


def test_every_key_of_the_manifest_is_there_with_type_default_and_meaning():
    text = manifest()
    for heading, kind in (
        ("`runtime`", Settings), ("`runtime.limits`", LimitSettings), ("`runtime.auth`", AuthSettings),
        ("`runtime.tls`", TlsSettings),
    ):  # fmt: skip
        shown = rows(section(text, heading))
        assert set(shown) == {field.name for field in msgspec.structs.fields(kind)}
        assert [key for key, (kinds, _, meaning) in shown.items() if not kinds or not meaning] == []
    top = rows(section(text, "The top level"))
    assert next(iter(top)) == "model"
    assert set(top) == {"model", "name", "config", "weights_path", "runtime", *IntroductionKeys.__struct_fields__}
    assert rows(section(text, "`runtime`"))["slow_client"] == [
        "`drop`, `hold`", '`"drop"`',
        "What happens if a client cannot keep up: drop (it misses frames, the model goes on) or hold (the model waits "
        "for it).",
    ]  # fmt: skip
    assert rows(section(text, "`runtime.limits`"))["connections"][:2] == ["integer, 1 or more", "`64`"]
    assert rows(section(text, "`runtime`"))["max_sessions"][2].startswith(
        "Sessions at the same time, which share the model's weights "
        "([many sessions](../reference/runtime/many-sessions.md))."
    )


def test_a_key_means_what_its_comment_says():
    said = comments("# The file.\n\n# First\n# line.\na: 1\nb:\n  # Inner.\n  c: 2\n  d: 3\n")
    assert said == {"a": "First line.", "b": "", "b.c": "Inner.", "b.d": ""}


def test_every_metric_of_the_golden_exposition_is_there():
    golden = (ROOT / "tests" / "golden" / "files" / "metrics.txt").read_text(encoding="utf-8")
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", golden, re.MULTILINE))
    shown = rows(section(metrics(), "Of a server"))
    assert {name: cells[0] for name, cells in shown.items()} == {
        name: kind for name, kind in kinds.items() if not name.startswith("reactor_process_")
    }
    assert shown["reactor_uploads_total"] == [
        "counter", "`outcome`: `stored`, `refused`, `incomplete`, `failed`, `session_over`",
        "Uploads that are over, by outcome",
    ]  # fmt: skip
    assert "reactor_clients_waiting" in rows(section(metrics(), "Of a gate"))


def test_every_packet_of_the_vectors_is_there():
    packets = json.loads(FILE.read_text(encoding="utf-8"))["packets"]
    for kind in ("exact", "accepted", "refused"):
        shown = {name: cells[-1] for name, cells in rows(section(vectors(), f"`{kind}`")).items()}
        assert shown == {case["name"]: f"`{case['hex']}`" for case in packets[kind]}


def test_every_public_name_has_one_entry():
    texts = {module: python(module) for module in MODULES}
    entries = {found for text in texts.values() for found in re.findall(r"^\.\. \S+:: ([\w.]+)$", text, re.MULTILINE)}
    for module in MODULES:
        for name in meanings(module):
            homes = [each for each in MODULES if f"{each}.{name}" in entries]
            assert f"{module}.{name}" in entries or (homes and f"`{name} <" in texts[module]), f"{module}.{name}"
    assert ".. autoclass:: reactor_trio.client.Client\n" in texts["reactor_trio.client"]
    idle = ".. py:data:: reactor_trio.interface.Idle\n\n   ``yield Idle``: no frame this time.\n"
    assert idle in texts["reactor_trio.interface"]
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference" / "python").glob("*.md"))
    assert [module for module in MODULES if f"```{{generated}} python {module}\n" not in pages] == []


def test_a_block_that_names_what_is_generated_becomes_it():
    page = DOCS / "reference" / "vectors.md"
    text = page_for_the_site("```{generated} vectors\nOn GitHub read it.\n```\n\n```text\nx\n```\n", page, DOCS)
    assert text == f"{vectors()}\n\n```text\nx\n```\n"
    page = DOCS / "compare" / "index.md"
    assert page_for_the_site("# Compare\n", page, DOCS) == "# Compare\n"  # no page below it
    page = DOCS / "reference" / "python.md"
    names = page_for_the_site("# P\n\n## `reactor_trio.client`\n\n| `Client` | a |\n", page, DOCS)
    assert "| {py:obj}`Client <reactor_trio.client.Client>` | a |\n" in names
    assert names.endswith("\n/reference/python/client\n```\n")


def test_a_docstring_keeps_its_code_and_its_lists():
    lines = ["Does it.", "", "    x = 1", "", "Class attributes:", "    fps: the rate,", "        a number.", ""]
    assert for_sphinx([*lines, "Args:", "    a: b."]) == [
        "Does it.", "", "::", "", "    x = 1", "", "Class attributes:", "", "* ``fps``: the rate,", "      a number.", "",
        "Args:", "    a: b.",
    ]  # fmt: skip


def test_a_link_out_of_the_site_leads_to_the_repository():
    text = "[a](state.md#x) [b](../../../examples/web) [c](../../../CONTRIBUTING.md#d) [d](https://x.org) [e](#f)"
    assert links_for_the_site(text, DOCS / "reference" / "model" / "index.md", DOCS) == (
        "[a](state.md#x) [b](https://github.com/reactor-trio/reactor-trio/tree/main/examples/web) "
        "[c](https://github.com/reactor-trio/reactor-trio/blob/main/CONTRIBUTING.md#d) [d](https://x.org) [e](#f)"
    )


def test_an_anchor_that_a_page_sets_itself_is_one_of_the_site(tmp_path):
    page, errors = tmp_path / "index.md", tmp_path / "errors.md"
    errors.write_text('# Errors\n\n<a id="no-yield"></a>\n\n## No yield\n')
    text = "[a](errors.md#no-yield) [b](errors.md#errors) [c](errors.md)"
    assert links_for_the_site(text, page, tmp_path) == "[a](#no-yield) [b](errors.md#errors) [c](errors.md)"
    assert links_for_the_site(errors.read_text(), errors, tmp_path) == "# Errors\n\n(no-yield)=\n\n## No yield\n"


def test_the_navigation_has_the_order_of_the_links_and_every_page(tmp_path):
    for name in ("index.md", "learn/b.md", "learn/a.md", "reference/index.md", "reference/x.md", "reference/x/inner.md",
                 "reference/part/index.md", "reference/new.md"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "reference/index.md").write_text("[p](part/index.md) [x](x.md#a) [p](../learn/a.md)")
    assert pages_below(tmp_path / "index.md", tmp_path) == ["learn/a", "learn/b", "reference/index"]
    assert pages_below(tmp_path / "reference/index.md", tmp_path) == ["reference/part/index", "reference/x", "reference/new"]
    assert pages_below(tmp_path / "reference/x.md", tmp_path) == ["reference/x/inner"]
    assert pages_below(tmp_path / "reference/new.md", tmp_path) == []


def test_every_page_of_the_docs_is_in_the_navigation():
    pages = {page for page in DOCS.rglob("*.md") if page != DOCS / "index.md" and not page.is_symlink()}
    below = [DOCS / f"{name}.md" for page in {DOCS / "index.md", *pages} for name in pages_below(page, DOCS)]
    assert sorted(below) == sorted(pages)
