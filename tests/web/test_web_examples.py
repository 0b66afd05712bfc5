"""`examples/web` as they are printed at an origin of their own, with the package where npm puts it, and a model at 8080."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.support.real_server import ENVIRONMENT, REACTOR, real_server
from tests.support.web_client import node_program
from tests.support.web_pages import MEAN_IS_BETWEEN, REACT_PACKAGES, build_by_vite, install, watched

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, each with the package that npm would install."""
    folder = tmp_path_factory.mktemp("web")
    for example in (EXAMPLES / "web").iterdir():
        if example.is_dir():
            shutil.copytree(example, folder / example.name)
            install(folder / example.name, *(REACT_PACKAGES if example.name == "react" else ()))
    return folder


@pytest.fixture(scope="module")
def model(applications: str) -> Iterator[str]:
    with real_server(EXAMPLES / "gradient", "--origin", applications, "--set", "width=64", "--set", "height=48") as url:
        yield url


@pytest.mark.parametrize("example", ["vanilla", "element", "react"])
def test_a_page_shows_the_model_and_its_slider_works(example: str, applications: str, folder: Path, port_8080: Page) -> None:
    place = example
    if example == "react":
        build_by_vite(folder / "react", "--base", "./")
        place = "react/dist"
    with watched(port_8080, f"{applications}/{place}/"):
        expect(port_8080.get_by_text("live")).to_be_visible()
        port_8080.wait_for_function(MEAN_IS_BETWEEN, arg=[60, 110])
        slider = port_8080.locator("input[type=range]")
        expect(slider).to_have_value("1")
        slider.fill("0")
        port_8080.wait_for_function(MEAN_IS_BETWEEN, arg=[-1, 2])
        slider.fill("2")
        port_8080.wait_for_function(MEAN_IS_BETWEEN, arg=[130, 255])


def test_the_types_of_the_react_example_are_the_models() -> None:
    types = EXAMPLES / "web" / "react" / "src" / "gradient.ts"
    command = [*REACTOR, "types", "--out", str(types), "--check"]
    subprocess.run(command, cwd=EXAMPLES / "gradient", env=ENVIRONMENT, check=True)


def test_a_program_drives_the_model_without_a_browser(folder: Path, model: str) -> None:
    done = subprocess.run(
        [node_program(), "drive.mjs", model], cwd=folder / "node", capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("gradient is darker from step ")
    picture = Image.open(BytesIO((folder / "node" / "picture.jpg").read_bytes()))
    assert picture.size == (64, 48)


@pytest.mark.parametrize("program", ["vanilla/index.html", "element/index.html", "node/drive.mjs", "react/src/main.tsx"])
def test_a_program_has_no_more_than_15_lines(program: str) -> None:
    text = (EXAMPLES / "web" / program).read_text()
    if program.endswith(".html"):
        text = text.partition('<script type="module">')[2].partition("</script>")[0]
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("//")]
    assert 0 < len(lines) <= 15
