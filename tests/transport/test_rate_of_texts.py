"""Texts count against a rate before anything looks into them: above it the connection is read later, and nothing is lost."""

from __future__ import annotations

import logging
import math

import pytest
import trio
import trio.testing
from tests.support.transport_peers import conversing, endless_limits, frame
from wsproto.events import BytesMessage, CloseConnection, TextMessage

from reactor_trio.transport import Limits, MessageChannel, PeerGone

TEXT, BINARY, PING, PONG = 1, 2, 9, 10
RATE = 8192


class Reader:
    """A conversation that notes when each message came, and how it ended."""

    def __init__(self) -> None:
        self.came: list[tuple[float, str | bytes]] = []
        self.ended: tuple[float, str] = (math.nan, "")

    async def __call__(self, messages: MessageChannel) -> None:
        try:
            while True:
                message = await messages.receive()
                self.came.append((trio.current_time(), message))
        except PeerGone as gone:
            self.ended = trio.current_time(), gone.reason

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.came]


def limited(**others: float) -> Limits:
    return endless_limits(text_per_second=RATE, **others)


async def test_texts_of_one_second_come_at_once_and_then_at_their_rate(autojump_clock):
    reader = Reader()
    async with conversing(reader, limited()) as (peer, _):
        for number in range(8):
            await peer.send(TextMessage(data=str(number) * (RATE // 2)))
        await trio.sleep(10)
    # the third finds no debt, and makes one
    assert reader.times == [0, 0, 0, 0.5, 1, 1.5, 2, 2.5]
    assert [message for _, message in reader.came] == [str(number) * (RATE // 2) for number in range(8)]


async def test_a_client_within_the_rate_never_waits(autojump_clock):
    reader = Reader()
    async with conversing(reader, limited()) as (peer, _):
        for _ in range(40):
            await peer.send(TextMessage(data="x" * (RATE // 8)))
            await trio.sleep(0.125)
    assert reader.times == [number / 8 for number in range(40)]


async def test_a_short_text_counts_as_256_bytes(autojump_clock):
    reader = Reader()
    async with conversing(reader, limited()) as (peer, _):
        await peer.write(frame(TEXT, b"{}") * (RATE // 256 + 3))
        await trio.sleep(10)
    assert reader.times == [0.0] * (RATE // 256 + 1) + [1 / 32, 2 / 32]


async def test_the_longest_text_passes_whatever_the_rate(autojump_clock):
    reader = Reader()
    async with conversing(reader, limited()) as (peer, _):
        await peer.send(TextMessage(data="x" * 256 * 1024))
        await peer.send(TextMessage(data="y"))
        await trio.sleep(100)
    assert reader.times == [0, 256 * 1024 / RATE - 1]


async def test_media_does_not_count(autojump_clock):
    reader = Reader()
    async with conversing(reader, limited()) as (peer, _):
        for _ in range(20):
            await peer.send(BytesMessage(data=b"x" * RATE))
        await trio.testing.wait_all_tasks_blocked()
        assert reader.times == [0.0] * 20


async def test_a_client_that_is_held_back_is_told_in_the_log_once(autojump_clock, caplog):
    caplog.set_level(logging.WARNING)
    async with conversing(Reader(), limited()) as (peer, _):
        await peer.write(frame(TEXT, b"x" * RATE) * 9)
        await trio.sleep(10)
    (record,) = caplog.records
    assert record.getMessage() == (
        "memory sends more text than runtime.limits.text_per_second allows (8192 bytes) and is read more slowly; this is "
        "logged once for a connection"
    )


async def test_a_receiver_that_is_cancelled_while_it_waits_loses_nothing(autojump_clock):
    came: list[str | bytes] = []

    async def talk(messages: MessageChannel) -> None:
        for _ in range(40):
            with trio.move_on_after(0.25):
                came.append(await messages.receive())

    async with conversing(talk, limited()) as (peer, _):
        for number in range(6):
            await peer.send(TextMessage(data=str(number) * RATE))
        await trio.sleep(10)
    assert [message[0] for message in came] == list("012345")


async def test_the_goodbye_of_a_client_waits_with_its_texts(autojump_clock):
    reader = Reader()
    async with conversing(reader, limited()) as (peer, _):
        await peer.write(frame(TEXT, b"x" * RATE) * 5)
        await peer.send(CloseConnection(code=1000))
        await trio.sleep(10)
    assert reader.times == [0, 0, 1, 2, 3]
    assert reader.ended[0] == 4


async def test_the_end_of_a_conversation_waits_for_no_text(autojump_clock):
    async def talk(messages: MessageChannel) -> None:
        with trio.move_on_after(0.5):
            while True:
                await messages.receive()

    async with conversing(talk, limited()) as (peer, _):
        await peer.write(frame(TEXT, b"x" * RATE) * 9)
        assert await peer.event() == CloseConnection(code=1000, reason="")
        assert trio.current_time() == 0.5


@pytest.mark.parametrize("owed", [30, 45])
async def test_a_client_that_is_not_read_is_not_silent_and_a_dead_one_is_lost_in_time(autojump_clock, owed):
    """It sends at 0 what keeps the server from reading for `owed` seconds, and nothing more."""
    reader = Reader()
    limits = Limits(text_per_second=1024, ping_interval=10, silence=20)
    async with conversing(reader, limits) as (peer, _):
        await peer.send(TextMessage(data="x" * 1024 * (owed + 1)))
        await trio.sleep(owed + 30)
    assert reader.ended == (owed + 20, "silent for 20 s")


async def test_a_client_that_is_not_read_for_long_and_lives_is_kept(autojump_clock):
    reader = Reader()
    limits = Limits(text_per_second=1024, ping_interval=10, silence=20)
    async with conversing(reader, limits) as (peer, _):
        for letter in "abc":
            await peer.send(TextMessage(data=letter * 1024 * 45))
        await trio.sleep(140)
        await peer.send(TextMessage(data="end"))
        await trio.sleep(10)
        assert [(at, message[:3]) for at, message in reader.came] == [(0, "aaa"), (44, "bbb"), (89, "ccc"), (140, "end")]
        assert not reader.ended[1]


# ---- other short frames ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", [PING, PONG], ids=["ping", "pong"])
async def test_control_frames_come_at_once_and_then_at_their_rate(opcode, autojump_clock):
    """Each counts as 256 bytes; 64 are taken at once."""
    reader = Reader()
    async with conversing(reader, limited()) as (peer, _):
        await peer.write(frame(opcode, b"") * 128 + frame(TEXT, b"x"))
        await trio.sleep(10)
    assert reader.times == [3.0]  # the bucket pays for 32 of the 128, and a second for as many


async def test_short_binary_messages_count_for_what_they_are_shorter(autojump_clock):
    reader = Reader()
    async with conversing(reader, limited()) as (peer, _):
        await peer.write(frame(BINARY, b"x" * 128) * 128)  # they lack twice what the bucket has
        await trio.testing.wait_all_tasks_blocked()
        await peer.write(frame(BINARY, b"x" * 256) * 1000)
        await trio.sleep(10)
    assert reader.times == [0.0] * 128 + [1.0] * 1000


async def test_a_segment_full_of_pongs_lets_the_loop_go_on_between(autojump_clock):
    """10,922 of them are 64 KiB. Without turns between them the loop would serve no client for a quarter of a second."""
    turns = 0
    reader = Reader()
    async with conversing(reader, Limits(text_per_second=1 << 30)) as (peer, _):
        await trio.testing.wait_all_tasks_blocked()
        await peer.write(frame(PONG, b"") * 10_922 + frame(TEXT, b"x"))
        while not reader.came:
            await trio.lowlevel.checkpoint()
            turns += 1
    assert turns > 10_922 / 64


@pytest.mark.parametrize("size", [1, 7, 997])
async def test_frames_are_found_in_pieces_of_any_size(size, autojump_clock):
    """Those of one round lack 131 + 61 bytes. If the reader lost its place among them it would find others."""
    reader = Reader()
    long = [frame(BINARY, b"\x8a" * 256), frame(BINARY, b"\x8a" * 70_000)] if size > 7 else [frame(BINARY, b"\x8a" * 256)]
    sent = b"".join([frame(PONG, b"p" * 125), frame(TEXT, b"t"), frame(BINARY, b"b" * 195), *long])
    async with conversing(reader, limited()) as (peer, _):
        for _ in range(8):
            for at in range(0, len(sent), size):
                await peer.write(sent[at : at + size])
                await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() == 0
        await peer.write(frame(BINARY, b"b" * 192) * 104)  # the bucket has paid for all of these
        await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() == 0
        await peer.write(frame(BINARY, b""))
        await trio.testing.wait_all_tasks_blocked()
        await peer.write(frame(TEXT, b"x"))
        await trio.sleep(10)
    assert reader.times == [0.0] * (8 * (2 + len(long)) + 105) + [256 / RATE]
