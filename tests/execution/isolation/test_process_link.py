"""Words over a socket pair: any size, in order, each with its descriptor, until the other end is gone."""

from __future__ import annotations

import os
import socket

import pytest
import trio

from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.process_link import SocketLink


@pytest.fixture
async def ends():
    first, second = socket.socketpair()
    first.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    one, other = SocketLink(first, ipc_messages.FromModel), SocketLink(second, ipc_messages.ToModel)
    yield one, other
    one.close()
    other.close()


def said(data, number=1):
    return ipc_messages.Said("s", number, 1, "set_x", data, {}, None, 0.0, number)


async def test_words_of_all_sizes_arrive_whole_and_in_order(ends):
    one, other = ends
    sizes = [0, 1, 4091, 4092, 100_000, 3, 3_000_000, 7]
    heard = []
    async with trio.open_nursery() as nursery:

        def take(word, descriptor):
            assert descriptor is None
            heard.append((word.number, len(word.data)))
            if len(heard) == len(sizes):
                nursery.cancel_scope.cancel()

        nursery.start_soon(other.hear, take)
        nursery.start_soon(one.run)
        for number, size in enumerate(sizes):
            one.send(said(b"x" * size, number))
    assert heard == list(enumerate(sizes))


async def test_each_descriptor_comes_with_its_word(ends):
    one, other = ends
    heard = []
    pipes = [os.pipe() for _ in range(20)]
    async with trio.open_nursery() as nursery:

        def take(word, descriptor):
            if isinstance(word, ipc_messages.Segment):
                os.write(descriptor, str(word.number).encode())
                os.close(descriptor)
                heard.append(word.number)
            if len(heard) == len(pipes):
                nursery.cancel_scope.cancel()

        nursery.start_soon(other.hear, take)
        nursery.start_soon(one.run)
        for number, (_reads, writes) in enumerate(pipes):
            one.send(said(b"x" * 3000, number))
            one.send(ipc_messages.Segment(number, 1), writes)  # the link closes it
    for number, (reads, _writes) in enumerate(pipes):
        assert os.read(reads, 100) == str(number).encode()
        assert os.read(reads, 100) == b""  # nobody has the writing end any more
        os.close(reads)


async def test_hearing_ends_with_the_other_end_and_nothing_stays_open(ends):
    one, other = ends
    reads, writes = os.pipe()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other.hear, lambda word, descriptor: None)
        one.close()
    one.send(said(b"too late"))
    one.send(ipc_messages.Segment(1, 1), writes)
    other.send(said(b"nobody hears"))
    other.send(ipc_messages.Segment(1, 1), os.dup(reads))
    assert os.read(reads, 1) == b""
    os.close(reads)
