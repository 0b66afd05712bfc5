"""Films the page in use, for the README: `python -m tests.browser.film FILE.webp`, or `scripts/film`.

`reactor run` serves an example, Chromium shows its page, and a scripted visitor walks through a dream, goes back in time,
shows the true game beside it, opens the stats and changes the colours. The pictures become an animated WebP, with the times
at which they were taken.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import FLAGS, chromium
from tests.support.real_server import real_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "dream"
SIZE = {"width": 1120, "height": 640}
INTERVAL = 0.1  # seconds between pictures
QUALITY = 62
LARGEST = 3_000_000  # bytes
CLOCK = Fraction(1, 1000)


def visit(page: Page) -> Iterator[None]:
    """What the visitor does. Each `yield` is a picture."""

    def watch(seconds: float) -> Iterator[None]:
        for _ in range(round(seconds / INTERVAL)):
            yield

    stage = page.locator("#hero")
    stage.hover()
    yield from watch(1)
    walk = (("ArrowUp", 1.2), ("ArrowRight", 0.8), ("ArrowUp", 1.0), ("ArrowLeft", 1.2), ("ArrowUp", 0.8))
    for key, seconds in walk:
        page.keyboard.down(key)
        yield from watch(seconds)
        page.keyboard.up(key)
    page.keyboard.down("Backspace")  # back to a corner before, and another way from there
    yield from watch(1.6)
    page.keyboard.up("Backspace")
    yield from watch(0.8)
    page.keyboard.down("ArrowLeft")
    yield from watch(0.8)
    page.keyboard.up("ArrowLeft")
    page.get_by_role("button", name="Beside the game").click()
    yield from watch(0.6)
    for key, seconds in (("ArrowRight", 0.8), ("ArrowUp", 1.2)):
        page.keyboard.down(key)
        yield from watch(seconds)
        page.keyboard.up(key)
    page.locator("#stats summary").first.click()
    yield from watch(1.5)
    page.keyboard.press("Escape")
    page.locator("#theme").click()
    yield from watch(1.2)
    page.locator("#panel-toggle").click()
    yield from watch(1.5)


def film(url: str) -> list[tuple[float, bytes]]:
    """The pictures of a visit, as PNG, each with its time in seconds."""
    pictures = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(viewport=SIZE, color_scheme="dark")
        page.goto(url)
        page.wait_for_selector('body[data-state="live"][data-picture="shown"]')
        page.wait_for_timeout(2500)
        began = due = time.perf_counter()
        for _ in visit(page):
            page.wait_for_timeout(max(0, (due - time.perf_counter()) * 1000))
            pictures.append((time.perf_counter() - began, page.screenshot()))
            due = max(due + INTERVAL, time.perf_counter())
        browser.close()
    return pictures


def animation(pictures: list[tuple[float, bytes]]) -> bytes:
    """An animated WebP of the pictures."""
    file = io.BytesIO()
    with av.open(file, "w", format="webp", options={"loop": "0"}) as container:
        stream = container.add_stream("libwebp_anim", rate=Fraction(1, 1) / Fraction(INTERVAL).limit_denominator(1000))
        stream.width, stream.height, stream.pix_fmt = SIZE["width"], SIZE["height"], "yuv420p"
        stream.options = {"quality": str(QUALITY), "compression_level": "5"}
        stream.codec_context.time_base = CLOCK
        for seconds, png in pictures:
            with av.open(io.BytesIO(png)) as source:
                (frame,) = source.decode(video=0)
            frame = frame.reformat(format="yuv420p")
            frame.pts, frame.time_base = round(seconds * 1000), CLOCK
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file.getvalue()


def main() -> None:
    """Film the page into the file that the command line names."""
    (out,) = sys.argv[1:]
    with real_server(EXAMPLE) as url:
        pictures = film(url)
    made = animation(pictures)
    if len(made) > LARGEST:
        sys.exit(f"{out}: {len(made)} bytes are more than {LARGEST}; lower QUALITY or SIZE")
    Path(out).write_bytes(made)
    sys.stdout.write(f"{out}: {len(pictures)} pictures, {pictures[-1][0]:.1f} s, {len(made)} bytes\n")


if __name__ == "__main__":
    main()
