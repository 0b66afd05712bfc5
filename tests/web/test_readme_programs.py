"""The programs of the package's README, and the guide's plain page, run as they are printed: by Vite, by esbuild, in Node.

The model is the one that the README makes, by `reactor init painter`. Next, of 400 MB, comes with scripts/soak --tests.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.request import urlopen

import pytest
from PIL import Image
from playwright.sync_api import Page, Playwright, expect

from tests.support.real_server import ENVIRONMENT, REACTOR, real_server
from tests.support.web_client import WEB, bundle, node, node_program
from tests.support.web_pages import (
    HAS_SHOWN,
    MEAN_IS_BETWEEN,
    REACT_PACKAGES,
    build_by_vite,
    dev_server,
    import_map,
    install,
    page_at_8080,
    vite,
    watched,
)

README = (WEB / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
#: the printed texts, by what they do
VANILLA_HTML, ELEMENT = [text for language, text in BLOCKS if language == "html"]
VANILLA, TYPED, NODE = [text for language, text in BLOCKS if language == "ts"]
[REACT] = [text for language, text in BLOCKS if language == "tsx"]
GUIDE = (WEB.parents[1] / "docs" / "reference" / "client" / "web-client.md").read_text(encoding="utf-8")
[PLAIN] = re.findall(r"^```html\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
#: for a page that draws by itself: a worker has to be of the page's own origin, and that of the plain page's client is not
COPY_OF_CANVAS = """
const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
window.canvasOfPage = () => {
  const shown = document.querySelector("canvas");
  Object.assign(copy.canvas, { width: shown.width, height: shown.height });
  copy.drawImage(shown, 0, 0);
  return shown.width === 64 ? copy.canvas : null;
};
"""
#: what `npm create vite` has in index.html and src/main.tsx for React
PAGE = "<!doctype html><link rel=icon href=data:,>\n"
MAIN = """
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import App from './App.tsx'

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <App />
  </StrictMode>,
)
"""
TSCONFIG = {"compilerOptions": {"jsx": "react-jsx", "module": "esnext", "moduleResolution": "bundler", "strict": True}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `reactor init painter` writes."""
    folder = tmp_path_factory.mktemp("project")
    subprocess.run([*REACTOR, "init", "painter"], cwd=folder, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    return folder / "painter"


@pytest.fixture(scope="module")
def folder(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An application for each program."""
    folder = tmp_path_factory.mktemp("applications")
    files = {
        "vanilla/index.html": PAGE + VANILLA_HTML,
        "vanilla/src/main.ts": VANILLA,
        "react/index.html": PAGE + '<div id="root"></div><script type="module" src="/src/main.tsx"></script>',
        "react/src/main.tsx": MAIN,
        "react/src/App.tsx": REACT,
        "react/tsconfig.json": json.dumps(TSCONFIG),
        "element/index.html": ELEMENT,
        "node/pictures.ts": NODE,
        "plain/index.html": "<link rel=icon href=data:,>\n" + PLAIN,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name in ("vanilla", "react", "element", "node"):
        (folder / name / "package.json").write_text('{"private": true, "type": "module"}')
        install(folder / name, *(REACT_PACKAGES if name == "react" else ()))
    types = subprocess.run(
        [*REACTOR, "types", "--path", str(project)], env=ENVIRONMENT, check=True, capture_output=True, text=True
    )
    for name in ("vanilla", "react"):
        (folder / name / "src" / "painter.ts").write_text(types.stdout, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def dev(folder: Path) -> Iterator[str]:
    with dev_server([vite(), "--host", "127.0.0.1", "--port", "0"], folder / "vanilla") as address:
        yield address


@pytest.fixture(scope="module")
def model(project: Path, applications: str, dev: str) -> Iterator[str]:
    with real_server(project, "--origin", applications, "--origin", dev, "--set", "width=64", "--set", "height=48") as url:
        yield url


@pytest.mark.parametrize("built", ["Vite's dev server", "vite build", "esbuild"])
def test_a_page_shows_30_pictures_and_its_slider_works(
    built: str, folder: Path, applications: str, port_8080: Page, request: pytest.FixtureRequest
) -> None:
    address = {
        "Vite's dev server": lambda: request.getfixturevalue("dev"),
        "vite build": lambda: react_by_vite(folder, applications),
        "esbuild": lambda: vanilla_by_esbuild(folder, applications),
    }[built]()
    with watched(port_8080, address):
        expect(port_8080.get_by_text("live")).to_be_visible()
        port_8080.wait_for_function(HAS_SHOWN, arg=30)
        assert len(port_8080.workers) == 1
        slider = port_8080.locator("input[type=range]")
        expect(slider).to_have_value("1")
        slider.fill("0")
        port_8080.wait_for_function(MEAN_IS_BETWEEN, arg=[-1, 2])
        slider.fill("2")
        port_8080.wait_for_function(MEAN_IS_BETWEEN, arg=[130, 255])


def react_by_vite(folder: Path, applications: str) -> str:
    build_by_vite(folder / "react", "--base", "./")
    return f"{applications}/react/dist/"


def vanilla_by_esbuild(folder: Path, applications: str) -> str:
    """As the guide says it for esbuild: the worker is copied beside the bundle."""
    built = folder / "vanilla" / "built"
    bundle(built, str(folder / "vanilla" / "src" / "main.ts"))
    (built / "decoder-worker.js").write_bytes((WEB / "dist" / "decoder-worker.js").read_bytes())
    (built / "index.html").write_text(PAGE + VANILLA_HTML.replace("/src/main.ts", "main.js"))
    return f"{applications}/vanilla/built/"


def test_the_element_shows_30_pictures_without_a_bundler(folder: Path, applications: str, port_8080: Page) -> None:
    text = PAGE + import_map(folder / "element") + ELEMENT
    (folder / "element" / "index.html").write_text(text, encoding="utf-8")
    with watched(port_8080, f"{applications}/element/"):
        port_8080.wait_for_function(HAS_SHOWN, arg=30)
        assert len(port_8080.workers) == 1


def test_the_guides_plain_page_shows_30_pictures_and_says_which_origin_the_server_does_not_list(
    applications: str, port_8080: Page
) -> None:
    with watched(port_8080, f"{applications}/plain/"):
        expect(port_8080.get_by_text("live")).to_be_visible()
        port_8080.evaluate(COPY_OF_CANVAS)
        port_8080.wait_for_function(HAS_SHOWN, arg=30)
        port_8080.locator("input[type=range]").fill("0")
        port_8080.wait_for_function(MEAN_IS_BETWEEN, arg=[-1, 2])
    stranger = applications.replace("127.0.0.1", "localhost")
    port_8080.goto(f"{stranger}/plain/")
    expect(port_8080.locator("output")).to_have_text(
        f"http://localhost:8080/ does not run, or was not started with --origin {stranger}"
    )
    port_8080.goto("about:blank")


def test_node_writes_the_pictures_of_a_server(folder: Path, model: str) -> None:
    done = subprocess.run(
        [node_program(), "pictures.ts", model], cwd=folder / "node", capture_output=True, text=True, timeout=60, check=False
    )
    written(folder / "node", done)
    assert Image.open(BytesIO((folder / "node" / "10.jpg").read_bytes())).size == (64, 48)


#: Before the program: a server that this script plays takes the place of the network.
SCRIPTED = """
import { scriptedServer } from "reactor-trio/testing";

const server = scriptedServer({ name: "painter" });
globalThis.WebSocket = server.WebSocket;
server.connection().then((connection) => {
  connection.welcome();
  for (let step = 1; step <= 10; step++) connection.frame({ payload: new Uint8Array([0xff, 0xd8, step]), step, seq: step });
});
"""


def test_a_scripted_server_drives_the_node_program_without_a_network(folder: Path) -> None:
    (folder / "node" / "scripted.mjs").write_text(SCRIPTED)
    done = subprocess.run(
        [node_program(), "--import", "./scripted.mjs", "pictures.ts"],
        cwd=folder / "node", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    written(folder / "node", done)
    assert (folder / "node" / "10.jpg").read_bytes() == b"\xff\xd8\x0a"


def written(folder: Path, done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert (lines[:2], lines[-1]) == (["connecting", "live"], "ended")
    assert [line.split()[0] for line in lines[2:-1]] == [f"{number}.jpg" for number in range(1, 11)]
    steps = [int(line.rpartition(" ")[2]) for line in lines[2:-1]]
    assert steps == sorted(steps)


#: A component of the server that imports the package, and renders components of its own and of the package.
NEXT_PAGE = """
import { CommandError, connect } from "reactor-trio";
import { Picture, ReactorProvider } from "reactor-trio/react";
import App from "./App";
import { painter } from "./painter";

export default function Page() {
  const away = <ReactorProvider url="http://localhost:8080" model={painter} active={false}><Picture /></ReactorProvider>;
  return <main>{[connect, CommandError].map((each) => typeof each).join()} <App />{away}</main>;
}
"""
NEXT_LAYOUT = """
export default function Layout({ children }: { children: React.ReactNode }) {
  return <html lang="en"><head><link rel="icon" href="data:," /></head><body>{children}</body></html>;
}
"""
NEXT = {
    "dependencies": {"next": "16.4.3", "react": "19.3.1", "react-dom": "19.3.1", "reactor-trio": "file:package.tgz"},
    "devDependencies": {"@types/node": "22", "@types/react": "19.3.0", "typescript": "5.9.3"},
}


@pytest.mark.soak
@pytest.mark.parametrize("command", ["dev", "start"])
def test_next_shows_30_pictures_of_a_page_that_the_server_rendered(
    command: str, next_app: Path, project: Path, playwright: Playwright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXT_TELEMETRY_DISABLED", "1")
    next_program = next_app / "node_modules" / "next" / "dist" / "bin" / "next"
    if command == "start":
        node(next_program, "build", cwd=next_app, timeout=400)
    with dev_server([next_program, command, "--port", "0"], next_app) as address:
        page = urlopen(address, timeout=120).read().decode()
        assert "function,function" in page
        assert ">connecting<" in page.replace(" ", "")
        with (
            real_server(project, "--origin", address, "--set", "width=64", "--set", "height=48") as url,
            page_at_8080(playwright, url) as browser,
            watched(browser, address),
        ):
            browser.wait_for_function(HAS_SHOWN, arg=30)
            assert len(browser.workers) == 1


@pytest.fixture(scope="module")
def next_app(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An application of Next with the README's React program, and the package as npm packs it."""
    app = tmp_path_factory.mktemp("next")
    npm = node_program().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    node(npm, "pack", "--silent", "--pack-destination", app)
    [packed] = app.glob("*.tgz")
    packed.rename(app / "package.tgz")
    (app / "package.json").write_text(json.dumps({"private": True, **NEXT}))
    (app / "app").mkdir()
    (app / "app" / "layout.tsx").write_text(NEXT_LAYOUT)
    (app / "app" / "page.tsx").write_text(NEXT_PAGE)
    (app / "app" / "App.tsx").write_text('"use client";\n' + REACT)
    shutil.copy(folder / "react" / "src" / "painter.ts", app / "app")
    node(npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", cwd=app, timeout=400)
    return app


@pytest.mark.parametrize("program", [VANILLA, REACT, ELEMENT, NODE], ids=["vanilla", "react", "element", "node"])
def test_a_program_has_no_more_than_15_lines(program: str) -> None:
    assert 0 < len([line for line in program.splitlines() if line.strip()]) <= 15
