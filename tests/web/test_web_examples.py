"""`examples/web` as they are printed at an origin of their own, with the package where npm puts it, and a model at 8080."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import FLAGS, chromium
from tests.support.package_page import WATCH
from tests.support.page_scripts import READ_BACK
from tests.support.real_server import ENVIRONMENT, REACTOR, real_server
from tests.support.web_client import WEB, build_package, bundle, node_program

EXAMPLES = Path(__file__).parents[2] / "examples"
#: whether the mean colour value of the page's picture is between two bounds
MEAN_IS_BETWEEN = """([low, high]) => {
    const roots = [document, ...[...document.querySelectorAll("reactor-view")].map(({ shadowRoot }) => shadowRoot)];
    const canvas = roots.map((root) => root.querySelector("canvas")).find(Boolean);
    if (!canvas?.width) return false;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const mean = data.reduce((sum, value, i) => i % 4 === 3 ? sum : sum + value, 0) / (data.length / 4 * 3);
    return low < mean && mean < high;
}"""


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, each with the package that npm would install."""
    build_package()
    folder = tmp_path_factory.mktemp("web")
    for example in (EXAMPLES / "web").iterdir():
        if example.is_dir():
            shutil.copytree(example, folder / example.name)
            shutil.copytree(WEB / "dist", folder / example.name / "node_modules" / "reactor-trio" / "dist")
            shutil.copy(WEB / "package.json", folder / example.name / "node_modules" / "reactor-trio")
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    """A web server for the pages, as `python3 -m http.server`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def model(site: str) -> Iterator[str]:
    with real_server(EXAMPLES / "gradient", "--origin", site, "--set", "width=64", "--set", "height=48") as url:
        yield url


@pytest.fixture(scope="module")
def port_8080(model: str) -> Iterator[Page]:
    """A page whose browser finds the model at http://localhost:8080, wherever it is."""
    rule = f"--host-resolver-rules=MAP localhost:8080 127.0.0.1:{urlsplit(model).port}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS[:-1], rule])
        page = browser.new_page()
        page.set_default_timeout(90_000)
        page.add_init_script(WATCH + READ_BACK)
        yield page
        browser.close()


@pytest.mark.parametrize("example", ["vanilla", "element", "react"])
def test_a_page_shows_the_model_and_its_slider_works(example: str, site: str, folder: Path, port_8080: Page) -> None:
    if example == "react":
        bundle_react(folder / "react")
    page, said = port_8080, []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{site}/{example}/")
    expect(page.get_by_text("live")).to_be_visible()
    page.wait_for_function(MEAN_IS_BETWEEN, arg=[60, 110])
    slider = page.locator("input[type=range]")
    expect(slider).to_have_value("1")
    slider.fill("0")
    page.wait_for_function(MEAN_IS_BETWEEN, arg=[-1, 2])
    slider.fill("2")
    page.wait_for_function(MEAN_IS_BETWEEN, arg=[130, 255])
    assert said == []
    page.goto("about:blank")  # the model has one session, which the next one waits for


def bundle_react(folder: Path) -> None:
    """What `vite build` does, with esbuild: `src/main.tsx` becomes what the page loads."""
    packages = folder / "node_modules"
    for name in ("react", "react-dom", "scheduler"):
        shutil.copytree(WEB / "node_modules" / name, packages / name)
    bundle(folder / "src", str(folder / "src" / "main.tsx"), options=["--jsx=automatic"])
    shutil.copy(WEB / "dist" / "decoder-worker.js", folder / "src")
    html = folder / "index.html"
    html.write_text(html.read_text().replace("/src/main.tsx", "src/main.js"))


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
