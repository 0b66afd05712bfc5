"""Which command runs in which place, and who is answered with it; no loop."""

from __future__ import annotations

from reactor_trio.execution.command_queue import Command, CommandQueue
from reactor_trio.interface.declaration import Sharing


def sharing(name: str) -> Sharing:
    return "consecutive" if name.startswith("set_") else "anywhere" if name.startswith("ref") else "none"


def applied(*names: str, client: dict[int, int] | None = None) -> list[tuple[str, int, list[int]]]:
    """(name, number that counts, all numbers answered) in order; numbers from 1."""
    pending = CommandQueue(sharing)
    for number, name in enumerate(names, 1):
        pending.add(Command(number, (client or {}).get(number, 0), name, {}, None))
    order = []
    while (place := pending.take()) is not None:
        order.append((place.command.name, place.command.number, place.numbers))
    return order


def test_in_order_of_arrival() -> None:
    assert applied("a", "b", "a") == [("a", 1, [1]), ("b", 2, [2]), ("a", 3, [3])]


def test_consecutive_sets_of_one_field_share_a_place() -> None:
    assert applied("set_x", "set_x", "set_x") == [("set_x", 3, [1, 2, 3])]


def test_sets_with_something_between_do_not() -> None:
    assert applied("set_x", "set_y", "set_x") == [("set_x", 1, [1]), ("set_y", 2, [2]), ("set_x", 3, [3])]
    assert applied("set_x", "a", "set_x") == [("set_x", 1, [1]), ("a", 2, [2]), ("set_x", 3, [3])]


def test_a_dedupe_event_runs_newest_at_the_place_of_the_first() -> None:
    assert applied("ref", "o1", "ref", "o2", "ref") == [("ref", 5, [1, 3, 5]), ("o1", 2, [2]), ("o2", 4, [4])]


def test_a_dedupe_event_runs_once_for_each_client() -> None:
    assert applied("ref", "ref", client={2: 7}) == [("ref", 1, [1]), ("ref", 2, [2])]


def test_what_was_taken_shares_no_more() -> None:
    pending = CommandQueue(sharing)
    pending.add(Command(1, 0, "set_x", {}, None))
    assert pending.take() is not None
    pending.add(Command(2, 0, "set_x", {}, None))
    assert len(pending) == 1
