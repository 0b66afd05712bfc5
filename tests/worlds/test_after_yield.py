"""Which statements after a `yield` change the world, and which local variables are alive at it."""

from __future__ import annotations

from typing import Any

import pytest

from reactor_trio.worlds.after_yield import changes_after_yield
from reactor_trio.worlds.live_locals import live_locals


class Changes:
    state: Any
    lock: Any

    async def inference(self):
        state, past = self.state, self.state.past
        self.begun = 1
        while True:
            state.n += 1
            if state.n % 2:
                yield 1
                self.set_rate(10)  # found
            else:
                try:
                    yield 2
                finally:
                    state.n += 1
            last = state.n
            await self.send(last)
            self.n, last = 3, 4  # found

            def later():
                state.n = 5

            with self.lock:
                self.state.past.append(last)  # found
                del past[last]
            if last:
                yield 3
                continue
            self.state.items[last].n = later  # found


class Harmless:
    state: Any

    def inference(self):
        for n in range(3):
            self.state.n = n
            picture = n
            yield picture
            picture += 1
            print(self.state.n)
        while True:
            yield 2


class None_:
    pass


def test_the_statements_that_change_self_after_a_yield():
    found = changes_after_yield(Changes)
    assert all(change.at.startswith("test_after_yield.py:") for change in found)
    texts = [change.text for change in found]
    assert [text.partition("  # found")[0] for text in texts if text.endswith("# found")] == [
        "self.set_rate(10)", "self.n, last = 3, 4", "self.state.past.append(last)", "self.state.items[last].n = later",
    ]  # fmt: skip
    assert len(texts) == 4
    with open(__file__) as file:
        lines = [line.strip() for line in file]
    assert [lines[int(change.at.partition(":")[2]) - 1] for change in found] == texts


@pytest.mark.parametrize("cls", [Harmless, None_, dict])
def test_nothing_is_found_where_nothing_changes(cls):
    assert changes_after_yield(cls) == []


def test_the_locals_that_are_read_again_are_alive():
    def steps(limit: int):
        count, _unused, again = 0, 1, 2
        held = [3]
        while count < limit:
            picture = count + len(held)
            again = picture
            yield picture
            total = again + 1
            count += total - total + 1
        yield (lambda: held)

    generator = steps(2)
    next(generator)
    first = steps.__code__.co_firstlineno
    assert live_locals(generator.gi_frame) == {
        "limit": first, "count": first + 1, "again": first + 1, "held": first + 2,
    }  # fmt: skip
    for _ in range(2):
        next(generator)
    assert live_locals(generator.gi_frame) == {}
