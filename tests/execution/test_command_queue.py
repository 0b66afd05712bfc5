"""Which commands share a place in the order, and in which order the places are carried out; no loop, no session."""

from __future__ import annotations

from reactor_trio.configuration.settings import LimitSettings, Settings
from reactor_trio.crossing.messages import Answer, Command
from reactor_trio.execution.command_queue import CommandQueue
from reactor_trio.interface.declaration import Sharing
from reactor_trio.session.command_ledger import CommandLedger


def sharing(name: str) -> Sharing:
    return "consecutive" if name.startswith("set_") else "anywhere" if name.startswith("ref") else "none"


class Way:
    """A ledger and the queue behind it."""

    def __init__(self) -> None:
        limits = LimitSettings(commands_per_second=100, pending_commands=100)
        self.ledger = CommandLedger("s", 1, Settings(limits=limits), lambda _record: None)
        self.queue = CommandQueue()

    def submit(self, *names: str) -> Way:
        for name in names:
            self.queue.add(self.ledger.add(name, {}, b"", {}, None, None, sharing(name)))
        return self

    def upload(self) -> Way:
        number = self.ledger.next_number()
        self.queue.add(Command(number, 1, "upload", {}, None, group=number))
        return self

    def applied(self) -> list[tuple[str, int, list[int]]]:
        """(name, number of the command that is carried out, numbers of all that are answered) of each place, in order."""
        order = []
        while commands := self.queue.take(0):
            order.append((commands[-1].name, commands[-1].number, [command.number for command in commands]))
        return order


def applied(*names: str) -> list[tuple[str, int, list[int]]]:
    return Way().submit(*names).applied()


async def test_commands_are_carried_out_in_order_of_arrival() -> None:
    assert applied("a", "b", "a") == [("a", 1, [1]), ("b", 2, [2]), ("a", 3, [3])]


async def test_consecutive_sets_of_one_field_share_a_place() -> None:
    assert applied("set_x", "set_x", "set_x") == [("set_x", 3, [1, 2, 3])]


async def test_sets_with_something_between_do_not_share_a_place() -> None:
    assert applied("set_x", "set_y", "set_x") == [("set_x", 1, [1]), ("set_y", 2, [2]), ("set_x", 3, [3])]
    assert applied("set_x", "a", "set_x") == [("set_x", 1, [1]), ("a", 2, [2]), ("set_x", 3, [3])]


async def test_sets_with_an_upload_between_do_not_share_a_place() -> None:
    way = Way().submit("set_x").upload().submit("set_x")
    assert way.applied() == [("set_x", 1, [1]), ("upload", 2, [2]), ("set_x", 3, [3])]


async def test_a_dedupe_event_runs_the_newest_at_the_place_of_the_first() -> None:
    assert applied("ref", "o1", "ref", "o2", "ref") == [("ref", 5, [1, 3, 5]), ("o1", 2, [2]), ("o2", 4, [4])]


async def test_a_command_that_was_taken_shares_its_place_with_no_later_one() -> None:
    for name in ("set_x", "ref"):
        way = Way().submit(name)
        assert [command.number for command in way.queue.take(0)] == [1]
        way.submit(name, "a", name)  # the ledger has not seen the answer yet
        assert way.applied()[0][1:] == ((2, [2]) if name == "set_x" else (4, [2, 4]))


async def test_a_command_shares_no_place_with_an_answered_one() -> None:
    way = Way().submit("ref")
    way.queue.take(0)
    way.ledger.take(Answer((1,), 0))
    assert way.submit("ref").applied() == [("ref", 2, [2])]
