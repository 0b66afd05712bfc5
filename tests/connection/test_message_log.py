"""The message log: messages are numbered, and the newest are kept."""

from __future__ import annotations

import json

from reactor_trio.connection.message_log import MessageLog


def texts(message_log, after):
    return [json.loads(text) for _, text in message_log.after(after)]


def test_numbers_begin_with_the_welcome_which_is_not_kept():
    message_log = MessageLog(10, 1000)
    assert "n" not in json.loads(message_log.add("reactor.queued", {"position": 1}))
    assert json.loads(message_log.add("reactor.welcome", {}))["n"] == 1
    assert json.loads(message_log.add("hello", {}, 7)) == {"type": "hello", "data": {}, "id": 7, "n": 2}
    assert json.loads(message_log.welcome_again({"a": 1})) == {"type": "reactor.welcome", "data": {"a": 1}, "n": 1}
    assert [text["n"] for text in texts(message_log, 0)] == [2]
    assert [text["n"] for text in texts(message_log, 2)] == []
    assert json.loads(message_log.add("hello", {}))["n"] == 3
    assert [text["n"] for text in texts(message_log, 1)] == [2, 3]


def test_the_oldest_are_forgotten_by_number_and_by_size():
    many = MessageLog(3, 1_000_000)
    for number in range(10):
        many.add("reactor.welcome" if number == 0 else "m", {})
    assert [text["n"] for text in texts(many, 1)] == [8, 9, 10]
    assert [many.missed_after(n) for n in (0, 1, 2, 6, 7, 10, 99)] == [6, 6, 5, 1, 0, 0, 0]
    large = MessageLog(100, 200)
    large.add("reactor.welcome", {})
    size = len(large.add("m", {"text": "ä" * 20}).encode())
    for _ in range(20):
        large.add("m", {"text": "ä" * 20})
    assert len(large.after(0)) == 200 // (size + 1), "bytes, and n has two digits here"
    large.add("m", {"text": "x" * 300})
    assert large.after(0) == [], "one that is too large takes the place of all before it"
    assert large.missed_after(1) == 22


def test_without_room_nothing_is_kept():
    message_log = MessageLog()
    for _ in range(3):
        message_log.add("reactor.welcome", {})
    assert not message_log.keeps
    assert message_log.after(0) == []
