"""How many commands may be without an answer, and what is told of each when it is over; no session."""

from __future__ import annotations

import pytest
import trio

from reactor_trio.configuration.settings import LimitSettings, Settings, UploadSettings
from reactor_trio.crossing.messages import Answer, Command
from reactor_trio.errors import CommandError
from reactor_trio.interface.declaration import Sharing
from reactor_trio.interface.files import UploadedFile
from reactor_trio.session import SESSION_OVER, Flood
from reactor_trio.session.command_ledger import MOST_JSON, CommandLedger
from reactor_trio.telemetry import CommandRecord


def few(over: list[CommandRecord]) -> CommandLedger:
    limits = LimitSettings(commands_per_second=4, pending_commands=2, unanswered_commands=3)
    return CommandLedger("s", 7, Settings(limits=limits), over.append)


def sharing(name: str) -> Sharing:
    return "consecutive" if name.startswith("set_") else "anywhere" if name.startswith("ref") else "none"


def add(unanswered: CommandLedger, name: str) -> int:
    return unanswered.add(name, {}, b"", {}, None, None, sharing(name)).number


async def test_sets_in_a_row_take_one_place_and_all_places_come_back(autojump_clock):
    over: list[CommandRecord] = []
    unanswered = few(over)
    assert [add(unanswered, name) for name in ("set_x", "set_x", "go")] == [1, 2, 3]
    with pytest.raises(CommandError, match="2 commands are pending"):
        add(unanswered, "set_x")
    await trio.sleep(1)
    taken = unanswered.take(Answer((1, 2), 5))
    assert [(command.number, command.group) for command in taken] == [(1, 1), (2, 1)]
    assert [(r.name, r.answered - r.at, r.step, r.code) for r in over] == [("set_x", 1, 5, None)] * 2
    assert add(unanswered, "set_x") == 4


async def test_a_dedupe_event_takes_the_place_of_the_one_that_waits_whatever_came_between(autojump_clock):
    unanswered = few([])
    assert [add(unanswered, name) for name in ("ref", "go", "ref", "ref")] == [1, 2, 3, 4]
    with pytest.raises(CommandError, match="2 commands are pending"):
        add(unanswered, "other")
    unanswered.take(Answer((1, 3, 4), 5))
    assert add(unanswered, "ref") == 5


@pytest.mark.parametrize("name", ["set_x", "ref"])
async def test_who_shares_a_place_keeps_it_when_the_first_was_carried_out_already(autojump_clock, name):
    """The session learns late that the first was taken; the model's half gave the next a place of its own."""
    unanswered = few([])
    assert [add(unanswered, named) for named in (name, name, "go")] == [1, 2, 3]
    unanswered.take(Answer((1,), 5))
    with pytest.raises(CommandError, match="2 commands are pending"):
        add(unanswered, "other")
    unanswered.take(Answer((2,), 5))
    assert add(unanswered, "other") == 4


async def test_too_many_without_an_answer_are_a_flood_until_one_is_answered(autojump_clock):
    unanswered = few([])
    for _ in range(3):
        unanswered.admit()
        add(unanswered, "set_x")
    with pytest.raises(Flood):
        unanswered.admit()
    unanswered.take(Answer((1,), 1))
    unanswered.admit()


async def test_the_allowance_of_a_second_fills_again_with_time(autojump_clock):
    unanswered = few([])
    for seconds, granted in ((0, 4), (0.5, 2), (60, 4)):
        await trio.sleep(seconds)
        for _ in range(granted):
            unanswered.admit()
        with pytest.raises(CommandError, match="more than 4 commands a second"):
            unanswered.admit()


async def test_what_was_refused_or_not_come_to_is_told_once(autojump_clock):
    over: list[CommandRecord] = []
    unanswered = few(over)
    add(unanswered, "go")
    unanswered.refused("no_such", 9, None, "unknown_command")
    unanswered.discard()
    unanswered.discard()
    assert [(r.session_id, r.client, r.name, r.id, r.step, r.code) for r in over] == [
        ("s", 7, "no_such", 9, 0, "unknown_command"),
        ("s", 7, "go", None, 0, SESSION_OVER),
    ]


def put(unanswered: CommandLedger, data: bytes = b"", *sizes: int) -> Command:
    files = {f"f{number}": UploadedFile("f", "", size, b"") for number, size in enumerate(sizes)}
    return unanswered.add("go", {}, data, files, None, None, "none")


async def test_the_json_of_unanswered_commands_is_bounded_together_and_one_alone_may_be_larger(autojump_clock):
    unanswered = CommandLedger("s", 7, Settings(), lambda _record: None)
    quarter = b" " * (MOST_JSON // 4)
    first = [put(unanswered, quarter) for _ in range(4)]
    with pytest.raises(CommandError, match="more than 16 MiB; wait for their answers") as refused:
        put(unanswered, b" ")
    assert refused.value.code == "busy"
    unanswered.take(Answer((first[0].number,), 0))
    put(unanswered, quarter)
    unanswered.take(Answer(tuple(range(2, 6)), 0))
    put(unanswered, b" " * (MOST_JSON + 1))
    with pytest.raises(CommandError, match="more than 16 MiB"):
        put(unanswered, b" ")


async def test_commands_that_share_a_place_count_each(autojump_clock):
    unanswered = CommandLedger("s", 7, Settings(), lambda _record: None)
    for _ in range(2):
        unanswered.add("set_x", {}, b" " * (MOST_JSON // 2), {}, None, None, "consecutive")
    with pytest.raises(CommandError, match="more than 16 MiB"):
        unanswered.add("set_x", {}, b" ", {}, None, None, "consecutive")


async def test_the_files_of_unanswered_commands_are_bounded_as_all_files_of_a_session_are(autojump_clock):
    settings = Settings(uploads=UploadSettings(total_size=4096))
    unanswered = CommandLedger("s", 7, settings, lambda _record: None)
    command = put(unanswered, b"", 2048, 1024)
    put(unanswered, b"", 1024)
    with pytest.raises(CommandError, match="more than 4096 bytes") as refused:
        put(unanswered, b"", 1)
    assert refused.value.code == "busy"
    put(unanswered)  # names no file
    unanswered.take(Answer((command.number,), 0))
    put(unanswered, b"", 3072)
