"""The TypeScript on the pages about the web client compiles against the npm package as an application finds it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.support.language_server import editor
from tests.support.web_client import WEB, build_package, node

GUIDE = WEB.parents[1] / "docs" / "guide"
PAGES = [WEB / "README.md", *sorted(page for page in GUIDE.glob("*.md") if "```ts" in page.read_text(encoding="utf-8"))]
BLOCK = re.compile(r"^```(tsx?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: Names that the pages use without declaring them. A block that declares one has its own.
AMBIENT = """
declare const connect: typeof import("reactor-trio").connect;
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
    "strict": True, "exactOptionalPropertyTypes": True, "noEmit": True,
}  # fmt: skip


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_typescript_of_a_page_compiles(page: Path, application: Path) -> None:
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    names = []
    for number, (language, text) in enumerate(blocks):
        names.append(f"{page.stem}-{number}.{language}")
        (application / names[-1]).write_text(text, encoding="utf-8")
    config = {"compilerOptions": OPTIONS, "files": ["ambient.d.ts", *names]}
    (application / "tsconfig.json").write_text(json.dumps(config), encoding="utf-8")
    node("node_modules/typescript/bin/tsc", "-p", application)


def test_what_is_wrong_is_found(application: Path) -> None:
    (application / "wrong.ts").write_text('void client.command("set_brightnes", { brightness: 1 });')
    (application / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": OPTIONS, "files": ["ambient.d.ts", "wrong.ts"]})
    )
    with pytest.raises(AssertionError, match="set_brightnes"):
        node("node_modules/typescript/bin/tsc", "-p", application)


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
