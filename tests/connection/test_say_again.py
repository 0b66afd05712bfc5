"""What a client that comes back is told first does not count as a queue that it does not read."""

from __future__ import annotations

import pytest
import trio

from reactor_trio.connection import ClientSender, ConnectRequest, SenderServices
from reactor_trio.connection.message_log import MessageLog
from reactor_trio.media import CodecSettings
from reactor_trio.media.codec_pool import CodecPool


async def nowhere(function, argument, limit):
    raise AssertionError("nothing is encoded here")


def way_out(message_log: MessageLog) -> ClientSender:
    services = SenderServices((), CodecSettings(), CodecPool(nowhere, 10), 0.15, 5)
    return ClientSender(1, 0.0, ConnectRequest("control", ()), services, message_log)


@pytest.mark.parametrize("kept", [0, 20])
async def test_messages_that_come_again_leave_room_for_new_ones(kept):
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
