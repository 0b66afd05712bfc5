"""A channel that is full gives up its oldest item, and says which."""

from __future__ import annotations

import pytest
import trio

from reactor_trio.concurrency.newest_items import send_newest


async def test_the_oldest_item_makes_room_and_is_returned():
    send, receive = trio.open_memory_channel[int](2)
    assert [send_newest(send, receive, number) for number in range(4)] == [None, None, 0, 1]
    assert [receive.receive_nowait() for _ in range(2)] == [2, 3]


async def test_a_closed_end_is_news_for_the_sender():
    send, receive = trio.open_memory_channel[int](2)
    receive.close()
    with pytest.raises(trio.BrokenResourceError):
        send_newest(send, receive, 1)
