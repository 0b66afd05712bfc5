"""A checkpoint for a task that another task may shield while it yields."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from reactor_trio.concurrency import raise_if_cancelled


class Shields(trio.abc.Instrument):
    """Shields a scope before any task goes on."""

    def __init__(self, scope: trio.CancelScope) -> None:
        self.scope = scope

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.scope.shield = True


@pytest.mark.parametrize("shielded", [True, False])
async def test_a_cancelled_task_goes_on_if_it_is_shielded_meanwhile(shielded):
    after = False
    with trio.CancelScope() as cancelled, trio.CancelScope() as guard:
        cancelled.cancel()
        shields = Shields(guard)
        if shielded:
            trio.lowlevel.add_instrument(shields)
        await raise_if_cancelled()
        trio.lowlevel.remove_instrument(shields)
        after = True
    assert after == shielded


async def test_a_task_that_is_not_cancelled_does_not_yield():
    with trio.testing.assert_no_checkpoints():
        await raise_if_cancelled()
