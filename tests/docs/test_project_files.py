"""Workflows, hooks and `.ci/run` call scripts that exist, with options that these have; issue forms are well-formed."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SCRIPT = re.compile(r"(?:^|\s)((?:scripts|\.ci)/\w+)")


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs(path: Path) -> Iterator[dict[str, Any]]:
    yield from loaded(path)["jobs"].values()


def hooks() -> list[dict[str, Any]]:
    return [hook for repo in loaded(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]


def commands() -> Iterator[list[str]]:
    """Each line of a workflow that calls one of our scripts, each hook, and the last line of `.ci/run`, as words."""
    lines = [step["run"] for path in WORKFLOWS for job in jobs(path) for step in job["steps"] if "run" in step]
    lines += [hook["entry"] for hook in hooks()]
    lines += (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1:]
    for line in "\n".join(lines).splitlines():
        if found := SCRIPT.search(line):
            words = shlex.split(line[found.start(1) :])
            yield words[: words.index("</dev/null")] if "</dev/null" in words else words


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_each_command_is_a_script_with_its_options(command: list[str]):
    script, *arguments = command
    assert os.access(ROOT / script, os.X_OK)
    if script == "scripts/run":  # what follows is a program of the environment
        needed = {re.split(r"\W", name)[0] for name in PROJECT["project"]["optional-dependencies"]["test-all"]}
        assert arguments[0] in needed | {"python"}
        assert [word for word in arguments[1:] if "/" in word and not (ROOT / word).exists()] == []
    else:
        text = (ROOT / script).read_text(encoding="utf-8")
        assert [word for word in arguments if "$" not in word and word not in text] == []


def test_pushes_run_one_tier_and_main_runs_all():
    ran = {path.name: [step["run"] for job in jobs(path) for step in job["steps"] if "run" in step] for path in WORKFLOWS}
    assert ran["all.yml"] == ["scripts/test --all"]
    assert ran["test.yml"] == ["scripts/test", 'scripts/changes "origin/$GITHUB_BASE_REF"']
    when = {path.name: loaded(path)[True] for path in WORKFLOWS}  # YAML reads `on` as true
    assert set(when["test.yml"]) == {"push", "pull_request"}
    assert when["all.yml"]["push"] == {"branches": ["main"]}
    assert when["all.yml"]["schedule"]


def test_the_site_of_a_release_is_what_scripts_docs_makes():
    site = loaded(GITHUB / "workflows" / "site.yml")
    release = loaded(GITHUB / "workflows" / "release.yml")
    (tag,) = site[True]["push"]["tags"]
    assert f"{tag}*" in release[True]["push"]["tags"]  # each release but a pre-release
    assert set(site[True]) == {"push", "workflow_dispatch"}, "no push to a branch publishes"
    make, publish = site["jobs"]["make"], site["jobs"]["publish"]
    assert [step["run"] for step in make["steps"] if "run" in step] == ["scripts/docs"]
    (folder,) = [step["with"]["path"] for step in make["steps"] if "pages-artifact" in step.get("uses", "")]
    assert f"docs {folder}\n" in (ROOT / "scripts" / "docs").read_text(encoding="utf-8")
    assert make["steps"][0]["with"] == {"fetch-depth": 0}  # the tags, by which the title has its version
    assert (publish["needs"], publish["environment"]["name"]) == ("make", "github-pages")
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_and_only_a_job_without_our_code_may_write(path: Path):
    assert loaded(path)["permissions"] == {"contents": "read"}
    for job in jobs(path):
        writes = "write" in job.get("permissions", {}).values()
        assert not (writes and any(SCRIPT.search(step.get("run", "")) for step in job["steps"]))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_action_of_others_has_a_version(path: Path):
    used = [step["uses"] for job in jobs(path) for step in job["steps"] if "uses" in step]
    assert [name for name in used if not name.startswith("./") and not re.search(r"@(release/)?v\d+$", name)] == []


@pytest.mark.parametrize("path", [path for path in WORKFLOWS if path.stem != "site"], ids=lambda path: path.name)
def test_workflows_take_every_python_that_the_package_supports(path: Path):
    kinds = PROJECT["project"]["classifiers"]
    supported = [kind.rpartition(" ")[2] for kind in kinds if re.search(r"Python :: 3\.\d", kind)]
    matrices = [job["strategy"]["matrix"]["python"] for job in jobs(path) if "strategy" in job]
    assert matrices == [supported]


def test_actions_of_our_own_exist():
    used = [step["uses"] for path in WORKFLOWS for job in jobs(path) for step in job["steps"] if "uses" in step]
    own = {name for name in used if name.startswith("./")}
    assert own
    assert [name for name in own if not (ROOT / name / "action.yml").is_file()] == []


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_asks_for_something(path: Path):
    form = loaded(path)
    assert form["name"]
    assert form["description"]
    asked = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in asked} <= {"input", "textarea", "dropdown", "checkboxes"}
    assert len({field["id"] for field in asked}) == len(asked)
    assert all(field["attributes"]["label"] for field in asked)
    assert any(field.get("validations", {}).get("required") for field in asked)
