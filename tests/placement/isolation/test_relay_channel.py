"""The channel in a model's process: which thread sends a message to the server, and that none overtakes another; no loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from reactor_trio.crossing.messages import RetimePlayout, StateValuesChanged
from reactor_trio.media import Bundle
from reactor_trio.media.frames import Origin
from reactor_trio.placement.isolation.relay_channel import open_relay_channel

CHANGED, WORD = StateValuesChanged({"x": b"1"}), RetimePlayout(0.5)


class OnDevice:
    """Stands for frames that a device still computes."""


def picture(frame: object) -> Bundle:
    return Bundle({"main": frame}, {"main": 0}, 0.1, True, Origin(0, ()), 0.0)  # type: ignore[dict-item]


ON_HOST, ON_DEVICE = picture(np.zeros((2, 2, 3), np.uint8)), picture(OnDevice())


class Process:
    """Both ends of a session's channel in a model's process, and the link."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], object]] = []
        self.sent: list[object] = []
        self.io, self.model = open_relay_channel(self.relay, None, self.posted.append, lambda take: None)

    def relay(self, message: object) -> None:
        if message is WORD:
            raise ValueError("it has no bytes")
        self.sent.append(message)

    def run(self) -> None:
        for post in self.posted:
            post()
        self.posted.clear()


def test_the_model_sends_frames_and_messages_itself() -> None:
    process = Process()
    process.model.send(ON_HOST)
    process.model.send(CHANGED)
    assert process.sent == [ON_HOST, CHANGED]
    assert process.posted == []


def test_a_frame_on_a_device_goes_over_the_other_loop_and_what_follows_stays_behind_it() -> None:
    process = Process()
    for message in ON_DEVICE, CHANGED, ON_HOST:
        process.model.send(message)
    assert process.sent == []
    process.run()
    assert process.sent == [ON_DEVICE, CHANGED, ON_HOST]
    process.model.send(CHANGED)
    assert process.sent[3:] == [CHANGED]


def test_what_is_sent_while_the_other_loop_sends_stays_behind_it() -> None:
    process = Process()
    relay = process.io.relay

    def while_it_is_sent(message: object) -> None:
        process.io.relay = relay
        process.model.send(CHANGED)
        relay(message)

    process.model.send(ON_DEVICE)
    process.io.relay = while_it_is_sent
    process.run()
    assert process.sent == [ON_DEVICE, CHANGED]


def test_a_message_that_cannot_be_sent_holds_up_no_other() -> None:
    process = Process()
    with pytest.raises(ValueError, match="no bytes"):
        process.io.deliver(WORD)
    process.model.send(CHANGED)
    assert process.sent == [CHANGED]


def test_ends_that_are_closed_send_nothing() -> None:
    process = Process()
    process.model.send(ON_DEVICE)
    process.io.close()
    process.run()
    process.model.send(CHANGED)
    process.model.close()
    process.model.send(ON_HOST)
    process.run()
    assert process.sent == []
