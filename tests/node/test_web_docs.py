"""The TypeScript on the pages about the web client compiles against the npm package as an application finds it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.docs.blocks.page import blocks_of
from tests.support.language_server import editor
from tests.support.web_client import WEB, build_package, node_program

DOCS = WEB.parents[1] / "docs"
#: all that have a `ts` or `tsx` block, also one in a list
PAGES = [WEB / "README.md", *sorted(page for page in DOCS.rglob("*.md") if "```ts" in page.read_text(encoding="utf-8"))]

#: Names that the pages use without declaring them. A block that declares one has its own.
AMBIENT = """
declare const connect: typeof import("reactor-trio").connect;
declare const Replay: typeof import("reactor-trio").Replay;
declare const client: import("reactor-trio").Client<import("./painter").Painter>;
declare const canvas: HTMLCanvasElement;
declare const video: HTMLVideoElement;
declare const button: HTMLButtonElement;
declare const slider: HTMLInputElement;
declare const file: import("reactor-trio").UploadRef & Blob;
declare const jpegFile: Uint8Array<ArrayBuffer>;
declare function show(text: string): void;
declare function texture(image: VideoFrame | ImageBitmap): void;
declare function save(payload: Uint8Array, codec: string, keyframe: boolean): void;
"""
OPTIONS = {
    "target": "ES2022", "lib": ["ES2022", "DOM", "DOM.Iterable", "DOM.AsyncIterable", "ESNext.Disposable"],
    "module": "preserve", "moduleResolution": "bundler", "moduleDetection": "force", "jsx": "react-jsx", "types": ["node"],
    "strict": True, "exactOptionalPropertyTypes": True, "noUncheckedIndexedAccess": True, "noEmit": True,
}  # fmt: skip


def name_of(page: Path) -> str:
    """What the page's programs are called, and its test."""
    return "_".join(page.relative_to(WEB if page.is_relative_to(WEB) else DOCS).with_suffix("").parts)


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An application with the package, the types of the pages' model, and the names that the pages take for granted."""
    build_package()
    folder = tmp_path_factory.mktemp("application")
    packages = folder / "node_modules"
    packages.mkdir()
    (packages / "reactor-trio").symlink_to(WEB)
    for name in ("@types", "react", "undici-types", "csstype"):
        (packages / name).symlink_to(WEB / "node_modules" / name)
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copy(WEB / "test" / "types" / "painter.ts", folder)
    (folder / "ambient.d.ts").write_text(AMBIENT)
    return folder


@pytest.fixture(scope="module")
def errors(application: Path) -> dict[str, list[str]]:
    """What the compiler says of each page, and of a program that is wrong, all in one run."""
    files = {"wrong-0.ts": 'void client.command("set_brightnes", { brightness: 1 });'}
    for page in PAGES:
        for number, block in enumerate(blocks_of(page)):
            if block.language in ("ts", "tsx"):
                files[f"{name_of(page)}-{number}.{block.language}"] = block.text
    for name, text in files.items():
        (application / name).write_text(text, encoding="utf-8")
    config = {"compilerOptions": OPTIONS, "files": ["ambient.d.ts", *files]}
    (application / "tsconfig.json").write_text(json.dumps(config), encoding="utf-8")
    compiled = subprocess.run(
        [node_program(), WEB / "node_modules" / "typescript" / "bin" / "tsc", "-p", application, "--pretty", "false"],
        cwd=application, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
    )  # fmt: skip
    found: dict[str, list[str]] = {file.rpartition("-")[0]: [] for file in files}
    for line in compiled.stdout.splitlines():
        if line.startswith(" "):
            continue  # it explains the line above
        place = re.match(r"([^\s(]+)-\d+\.tsx?\(", line)
        assert place, compiled.stdout  # an error of the compiler's own, or of the package's declarations
        found[place[1]].append(line)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_typescript_of_a_page_compiles(page: Path, errors: dict[str, list[str]]) -> None:
    assert errors[name_of(page)] == []


def test_a_wrong_program_of_the_docs_fails_the_type_check(errors: dict[str, list[str]]) -> None:
    (error,) = errors["wrong"]
    assert "set_brightnes" in error


def test_an_editor_completes_a_models_commands_arguments_and_tracks(application: Path) -> None:
    files = ["ambient.d.ts", "commands.ts", "arguments.ts", "settings.ts", "tracks.ts"]
    config = {"compilerOptions": OPTIONS, "files": files}
    (application / "tsconfig.json").write_text(json.dumps(config), encoding="utf-8")
    with editor(application) as edit:
        commands = edit.completions("commands.ts", 'client.command("|");')
        arguments = edit.completions("arguments.ts", 'client.command("set_brightness", { | });')
        settings = edit.completions("settings.ts", 'client.setting("|");')
        tracks = edit.completions("tracks.ts", 'client.attach(canvas, { track: "|" });')
    assert set(commands) == {"set_brightness", "set_mood", "reset", "size", "draw", "grow", "stop"}
    assert set(settings) == {"brightness", "mood"}
    assert set(tracks) == {"main_video", "depth"}
    assert set(arguments) == {"brightness"}
    assert "How bright" in arguments["brightness"]
    assert "maximum" in arguments["brightness"]
