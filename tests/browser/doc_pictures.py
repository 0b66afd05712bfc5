"""Takes the pictures of docs/start and docs/learn: `python -m tests.browser.doc_pictures [NAME ...]`, or `scripts/pictures`.

For each picture `reactor run` serves the model that the documentation's page shows, Chromium opens the viewer page, and a
scripted visitor does what the text says. The screenshot becomes a still WebP. Without names all pictures are taken.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import av
from PIL import Image

from tests.browser.conftest import FLAGS, chromium
from tests.docs.blocks.page import blocks_of
from tests.docs.blocks.run_page import save_files_of_earlier_pages
from tests.support.real_server import real_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TEMPLATE = ROOT / "src" / "reactor_trio" / "cli" / "templates" / "gradient"
WIDTH, HEIGHT = 960, 540
QUALITY = 70
LARGEST = 60_000  # bytes of a picture
PATIENCE = 90  # real seconds until pictures come evenly: on a busy machine they may not


def watch(page: Page, seconds: float = 2.0) -> None:
    """Wait for pictures to come and go. Real time: a browser shows them."""
    page.wait_for_timeout(seconds * 1000)


def set_slider(page: Page, label: str, value: float) -> None:
    page.get_by_role("slider", name=re.compile(label, re.IGNORECASE)).first.fill(str(value))


def visit_init(page: Page) -> None:
    set_slider(page, "brightness", 1.4)
    watch(page)


def visit_settings(page: Page) -> None:
    set_slider(page, "colour", -1)
    watch(page)


def visit_touch(page: Page) -> None:
    stage = page.locator("#hero")
    box = stage.bounding_box()
    assert box is not None
    stage.click(position={"x": box["width"] * 0.25, "y": box["height"] * 0.3})
    watch(page)


def visit_state(page: Page) -> None:
    set_slider(page, "tail", 0.98)
    page.get_by_role("combobox").first.select_option("Ice")
    watch(page, 3)


def open_messages(page: Page) -> None:
    page.locator("summary", has_text="Messages").click()


def visit_events(page: Page) -> None:
    page.get_by_role("button", name="throw").first.click()
    watch(page)
    open_messages(page)


def visit_keys(page: Page) -> None:
    page.locator("#hero").hover()
    page.keyboard.down("ArrowLeft")
    watch(page, 3)


def visit_messages(page: Page) -> None:
    watch(page, 6)
    open_messages(page)


def visit_sound(page: Page) -> None:
    page.get_by_role("button", name="Play sound").click()
    watch(page, 3)


def visit_two(page: Page) -> None:
    """The later of two visitors has another colour, and flies another way."""
    if page.context.pages[-1] is page:
        set_slider(page, "degrees", 210)
        page.get_by_role("button", name="throw").first.click()
        page.locator('[data-command="set_colour"]').get_by_role("combobox").select_option(label="Rose")
    watch(page, 3)


def visit_input(page: Page) -> None:
    page.get_by_role("button", name=re.compile("camera", re.IGNORECASE)).first.click()
    watch(page, 3)


@dataclass(frozen=True)
class Shot:
    """One picture: its page, which `model.py` of that page (from 1; 0: that of `reactor init`), the window's height."""

    page: str
    model: int
    visit: Callable[[Page], None]
    height: int = HEIGHT
    visitors: int = 1  # each with a window of its own, side by side


SHOTS = {
    "start/init": Shot("start/index.md", 0, visit_init),
    "start/waves": Shot("start/index.md", 1, watch),
    "start/settings": Shot("start/index.md", 2, visit_settings),
    "start/touch": Shot("start/index.md", 3, visit_touch),
    "learn/picture": Shot("learn/01-picture.md", 1, watch),
    "learn/state": Shot("learn/02-state.md", 1, visit_state),
    "learn/events": Shot("learn/03-events.md", 1, visit_events, 720),
    "learn/keys": Shot("learn/04-keys.md", 1, visit_keys, 720),
    "learn/messages": Shot("learn/05-messages.md", 1, visit_messages, 960),
    "learn/sound": Shot("learn/06-sound.md", 1, visit_sound),
    "learn/input": Shot("learn/07-input.md", 1, visit_input),
    "learn/clients": Shot("learn/08-several-clients.md", 1, visit_two, visitors=2),
}


@contextmanager
def served(shot: Shot) -> Iterator[str]:
    """The address of a server of the picture's model."""
    if shot.model == 0:
        with real_server(TEMPLATE) as url:
            yield url
        return
    page = DOCS / shot.page
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_files_of_earlier_pages(page, folder, ports={})
        models = 0
        for block in blocks_of(page):
            if block.file is None or models == shot.model:
                continue
            (folder / block.file).write_text(block.text, encoding="utf-8")
            models += block.file == "model.py"
        with real_server(folder, "model.py") as url:
            yield url


def screenshot(browser: Browser, url: str, shot: Shot) -> bytes:
    """What the visitors see at the end, as soon as pictures come evenly, as PNG."""
    window: ViewportSize = {"width": WIDTH // shot.visitors, "height": shot.height}
    context = browser.new_context(viewport=window, color_scheme="dark", locale="en-US")
    pages = [context.new_page() for _ in range(shot.visitors)]
    for page in pages:
        page.goto(url)
        page.wait_for_selector('body[data-state="live"][data-picture="shown"]')
        watch(page)
    for page in pages:
        shot.visit(page)
        page.evaluate("document.activeElement?.blur()")  # the visitor has a mouse: no ring of the keyboard's focus
    pngs = []
    for page in pages:
        page.wait_for_selector('#link[data-quality="good"]', timeout=PATIENCE * 1000)
        pngs.append(page.screenshot())
    context.close()
    return side_by_side(pngs)


def side_by_side(pngs: list[bytes]) -> bytes:
    """One PNG of several of the same size."""
    images = [Image.open(io.BytesIO(png)) for png in pngs]
    width, height = images[0].size
    joined = Image.new("RGB", (width * len(images), height))
    for number, image in enumerate(images):
        joined.paste(image, (number * width, 0))
    file = io.BytesIO()
    joined.save(file, "PNG")
    return file.getvalue()


def webp(png: bytes) -> bytes:
    """The picture as a still WebP."""
    file = io.BytesIO()
    with av.open(io.BytesIO(png)) as source, av.open(file, "w", format="webp") as container:
        (frame,) = source.decode(video=0)
        stream = container.add_stream("libwebp", rate=1)
        stream.width, stream.height, stream.pix_fmt = frame.width, frame.height, "yuv420p"
        stream.options = {"quality": str(QUALITY), "compression_level": "6"}
        container.mux(stream.encode(frame.reformat(format="yuv420p")))
        container.mux(stream.encode())
    return file.getvalue()


def main() -> None:
    """Take the pictures that the command line names, or all."""
    from playwright.sync_api import TimeoutError as TooSlow
    from playwright.sync_api import sync_playwright

    names = sys.argv[1:] or list(SHOTS)
    if unknown := set(names) - set(SHOTS):
        sys.exit(f"no such picture: {', '.join(sorted(unknown))}; there are {', '.join(SHOTS)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        for name in names:
            try:
                with served(SHOTS[name]) as url:
                    made = webp(screenshot(browser, url, SHOTS[name]))
            except TooSlow as error:
                sys.exit(f"{name}: the page did not get so far; try again when the machine is quiet. {error}")
            path = DOCS / "pictures" / f"{name}.webp"
            if len(made) > LARGEST:
                sys.exit(f"{path}: {len(made)} bytes are more than {LARGEST}; lower QUALITY")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(made)
            sys.stdout.write(f"{path.relative_to(ROOT)}: {len(made)} bytes\n")
        browser.close()


if __name__ == "__main__":
    main()
