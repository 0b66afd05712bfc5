"""`reactor run --open`: open the page in the browser of this machine's user."""

from __future__ import annotations

import html
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import trio


@contextmanager
def address_for_browser(url: str) -> Iterator[str]:
    """Give an address for a browser's command line: `url`, or that of a file which leads there if `url` has a secret.

    Other users can read the command lines of all programs, but not the file. It is deleted at the end of the block.
    """
    if "#" not in url:
        yield url
        return
    descriptor, path = tempfile.mkstemp(prefix="reactor-open-", suffix=".html")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(url)}">\n')
        yield f"file://{path}"
    finally:
        with suppress(OSError):
            os.unlink(path)


async def show_page(url: str, say: Callable[[str], object]) -> None:
    """Task: open the page in a new tab, or say that there is no browser. Keep what leads there until cancelled."""
    import webbrowser  # few commands need it

    with address_for_browser(url) as address:
        if not await trio.to_thread.run_sync(webbrowser.open_new_tab, address, abandon_on_cancel=True):
            say("--open: this machine has no browser; open the page yourself")
        await trio.sleep_forever()
