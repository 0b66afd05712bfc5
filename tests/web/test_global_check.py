"""The check that each test of this folder makes of its page: these faults would fail it."""

from __future__ import annotations

from playwright.sync_api import Page


def test_a_console_message_or_an_unhandled_rejection_is_a_fault(page: Page, troubles: list[str]) -> None:
    worker = "Promise.reject(new Error('in a worker'))"
    for script, said in {
        "Promise.reject(new Error('nobody waits'))": "nobody waits",
        "setTimeout(() => { throw new Error('uncaught'); })": "uncaught",
        "console.info('a line')": "a line",
        f'new Worker(URL.createObjectURL(new Blob(["{worker}"])))': "in a worker",
    }.items():
        with page.expect_event("console" if "console" in script else "pageerror"):
            page.evaluate(f"() => void {script}")
        assert troubles == [said]
        troubles.clear()
