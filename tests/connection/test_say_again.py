"""The messages that a client gets again when it comes back do not count as a queue that it does not read."""

from __future__ import annotations

import pytest
import trio
from tests.support.rendition_stage import context

from reactor_trio.connection import ClientSender, ConnectRequest
from reactor_trio.connection.message_log import MessageLog
from reactor_trio.media.codec_pool import CodecPool


async def nowhere(function, argument, limit):
    raise AssertionError("nothing is encoded here")


def way_out(message_log: MessageLog) -> ClientSender:
    server = context((), CodecPool(nowhere, 10), message_limit=5)
    return ClientSender(1, 0.0, ConnectRequest("control", ()), server, message_log)


@pytest.mark.parametrize("kept", [0, 20])
async def test_messages_that_are_sent_again_leave_room_for_new_ones(kept):
    await trio.lowlevel.checkpoint()
    message_log = MessageLog(100, 10_000)
    message_log.add("reactor.welcome", {})
    for _ in range(kept):
        message_log.add("m", {})
    back = way_out(message_log)
    back.say_again({}, 1)
    for _ in range(4):
        back.say("m", {})
    assert back.end_reason is None
    back.say("m", {})
    assert back.end_reason == "too_slow"
