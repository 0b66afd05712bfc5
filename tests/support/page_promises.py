"""What a page gives later, with an end: `page.evaluate` waits for a promise as long as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page


def promised(page: Page, script: str, arg: Any = None) -> Any:
    """What the async function `script` gives. After the page's time limit it fails, and says what it waited for."""
    from playwright.sync_api import TimeoutError as TooLong

    try:
        given = page.wait_for_function(f"async (arg) => ({{ given: await ({script})(arg) }})", arg=arg)
    except TooLong as error:
        raise AssertionError(f"The page does not give what it promises: {script}") from error
    return given.json_value()["given"]
