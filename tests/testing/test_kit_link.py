"""The test kit's link: when each message arrives, when the server's send returns, and how either end learns of the end."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import trio
import trio.testing
from tests.support.models import Picture

from reactor_trio.client.client_transport import TransportClosed
from reactor_trio.errors import SessionEnded
from reactor_trio.interface import InputState, ReactorPipeline
from reactor_trio.protocol import packet_head
from reactor_trio.testing import Link, open_server, open_session
from reactor_trio.testing.link_direction import Pipe
from reactor_trio.transport import PeerGone, PeerTooSlow

# 8192 bit/s: 1024 bytes pass in exactly a second.
RATE = 8192
KILOBYTE = b"x" * 1024


def pipe(rate=RATE, delay=0.0, buffer=1024, jitter=None):
    return Pipe(rate, delay, buffer, jitter)


def arrivals(pipe):
    found = []
    while (at := pipe.arrives_at()) < math.inf:
        found.append((pipe.take(at), at))
    return found


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def test_messages_pass_one_after_another_and_arrive_a_delay_later():
    line = pipe(delay=0.25)
    for name, size in (("a", 1024), ("b", 2048), ("c", 512)):
        line.put(name, size, 1.0)
    line.put("d", 1024, 10.0)
    assert arrivals(line) == [("a", 2.25), ("b", 4.25), ("c", 4.75), ("d", 11.25)]


def test_nothing_is_taken_before_it_has_arrived():
    line = pipe(delay=0.25)
    line.put("a", 1024, 0.0)
    assert line.take(1.0) is None
    assert line.take(1.249) is None
    assert line.take(1.25) == "a"
    assert line.take(1.25) is None


@pytest.mark.parametrize(
    ("sizes", "enters"),
    [
        ([1024], -math.inf),  # has room at once
        ([1025], 1 / 1024),
        ([1024, 1024], 1.0),  # when the first has passed
        ([1024, 512], 0.5),
        ([4096], 3.0),  # in parts: the last one enters when three have passed
        ([512, 4096], 3.5),
    ],
)
def test_the_last_byte_enters_when_the_buffer_has_room_for_it(sizes, enters):
    line = pipe(buffer=1024)
    for size in sizes:
        line.put("x", size, 0.0)
    assert line.enters_at() == enters


def test_room_comes_back_while_a_message_passes():
    line = pipe(buffer=1024)
    line.put("a", 1024, 0.0)
    line.advance(0.75)
    line.put("b", 1024, 0.75)
    assert line.enters_at() == 1.0  # 256 bytes of a are still there
    line.advance(1.0)
    assert line.enters_at() == -math.inf
    assert arrivals(line) == [("a", 1.0), ("b", 2.0)]


def test_a_rate_that_changes_in_mid_message_counts_for_the_rest():
    line = pipe()
    line.put("a", 2048, 0.0)
    line.set_rate(RATE * 2, 1.0)
    assert line.arrives_at() == 1.5
    line.set_rate(RATE / 2, 1.25)
    assert line.arrives_at() == 2.25
    line.set_rate(None, 1.5)
    assert line.arrives_at() == 1.5


def test_a_held_link_passes_nothing_and_delivers_bytes_that_had_passed():
    line = pipe(delay=1.0, buffer=0)
    line.put("a", 1024, 0.0)
    line.put("b", 1024, 0.0)
    line.hold(1.25)
    line.hold(1.5)
    assert line.held_since == 1.25
    assert line.enters_at() == math.inf
    assert line.take(2.0) == "a"
    assert line.arrives_at() == math.inf
    line.release(5.0)
    line.release(6.0)
    assert line.arrives_at() == 5.75 + 1.0
    assert line.take(6.75) == "b"


def test_bytes_sent_while_the_link_is_held_wait():
    line = pipe()
    line.hold(0.0)
    line.put("a", 1024, 1.0)
    assert (line.arrives_at(), line.enters_at()) == (math.inf, -math.inf)
    line.put("b", 1, 2.0)
    assert line.enters_at() == math.inf
    line.release(4.0)
    assert arrivals(line)[0] == ("a", 5.0)


def test_jitter_delays_by_the_number_of_the_message_and_keeps_the_order():
    line = pipe(rate=None, jitter=[0.5, 0.0, 0.25].__getitem__)
    for name, at in (("a", 0.0), ("b", 0.25), ("c", 1.0)):
        line.put(name, 1, at)
    assert arrivals(line) == [("a", 0.5), ("b", 0.5), ("c", 1.25)]


# ---- both ends -------------------------------------------------------------------------------------------------------


async def sends(messages, *sizes):
    """The times at which each send returned."""
    times = []
    for size in sizes:
        await messages.send_text("x" * size)
        times.append(trio.current_time())
    return times


async def hears(transport, count):
    """Sizes and times of what arrives."""
    return [(len(await transport.receive()), trio.current_time()) for _ in range(count)]


async def test_a_send_returns_when_its_last_byte_is_in_the_buffer(autojump_clock):
    messages, transport = Link(RATE, delay=0.25, buffer=1024)._open(15, "test")
    heard = []

    async def hear():
        heard.extend(await hears(transport, 4))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hear)
        assert await sends(messages, 1024, 4096, 512, 2) == [0, 4.0, 4.5, 4.5 + 2 / 1024]
    assert heard == [(1024, 1.25), (4096, 5.25), (512, 5.75), (2, 5.75 + 2 / 1024)]


async def test_the_clients_bytes_are_delayed_and_have_no_rate_limit(autojump_clock):
    messages, transport = Link(1, delay=0.25)._open(15, "test")
    await transport.send("x" * 100_000)
    await trio.sleep(0.125)
    await transport.send_bytes(b"yy")
    assert await hears(messages, 2) == [(100_000, 0.25), (2, 0.375)]


async def test_a_link_without_a_rate_only_delays(autojump_clock):
    messages, transport = Link(delay=0.25, buffer=1)._open(15, "test")
    await messages.send_packet(b"head", memoryview(KILOBYTE))
    assert trio.current_time() == 0
    assert await transport.receive() == b"head" + KILOBYTE
    assert trio.current_time() == 0.25


async def test_a_link_changed_in_mid_message_wakes_both_ends(autojump_clock):
    link = Link(RATE, buffer=0)
    messages, transport = link._open(15, "test")
    async with trio.open_nursery() as nursery:
        heard = []

        async def hear():
            heard.extend(await hears(transport, 2))

        nursery.start_soon(hear)

        async def change():
            await trio.sleep(1)
            link.set(bits_per_second=RATE * 2)
            await trio.sleep(0.5)
            link.set(delay=0.5)

        nursery.start_soon(change)
        assert await sends(messages, 2048, 1024) == [1.5, 2.0]
    assert [at for _, at in heard] == [1.5, 2.5]


async def test_a_stalled_link_holds_both_directions_until_it_resumes(autojump_clock):
    link = Link(RATE, delay=0.25)
    messages, transport = link._open(15, "test")
    link.stall()
    await messages.send_text("x" * 1024)
    await transport.send("y")
    await trio.sleep(7)
    link.resume()
    async with trio.open_nursery() as nursery:
        results = {}

        async def hear(name, end):
            results[name] = await hears(end, 1)

        nursery.start_soon(hear, "client", transport)
        nursery.start_soon(hear, "server", messages)
    assert results == {"client": [(1024, 8.25)], "server": [(1, 7.25)]}


@pytest.mark.parametrize("who", ["link", "client"])
async def test_a_server_whose_bytes_are_not_taken_gives_the_client_up(autojump_clock, who):
    link = Link(RATE, buffer=1024)
    (messages, transport), reading = link._open(15, "test"), link._reader
    await messages.send_text("x" * 1024)
    await trio.sleep(0.5)
    (link if who == "link" else reading).stall()
    await trio.sleep(2)
    with pytest.raises(PeerTooSlow):
        await messages.send_text("x" * 1024)
    assert trio.current_time() == 0.5 + 2 + 15
    for end, gone in ((transport, TransportClosed), (messages, PeerGone)):
        with pytest.raises(gone) as closed:
            await end.receive()
        assert closed.value.code == 1006


async def test_a_slow_link_on_which_bytes_pass_is_not_given_up(autojump_clock):
    messages, _ = Link(80, buffer=0)._open(15, "test")
    assert await sends(messages, 1000) == [100]


async def test_a_client_that_does_not_read_loses_nothing(autojump_clock):
    link = Link(RATE)
    (messages, transport), reading = link._open(15, "test"), link._reader
    reading.stall()
    await sends(messages, 1024, 1024)
    with trio.move_on_after(5):
        await transport.receive()
        pytest.fail("it does not read")
    reading.resume()
    assert await hears(transport, 2) == [(1024, 6), (1024, 7)]


@pytest.mark.parametrize("leaves", ["server", "client"])
async def test_a_close_arrives_after_what_was_sent_before(autojump_clock, leaves):
    messages, transport = Link(RATE, delay=0.25)._open(15, "test")
    ours, theirs = (messages, transport) if leaves == "server" else (transport, messages)
    say = messages.send_text if leaves == "server" else transport.send
    gone = TransportClosed if leaves == "server" else PeerGone
    await say("x" * 1024)
    await ours.aclose(1000, "done")
    await messages.abort()  # too late to tear what is under way
    assert len(await theirs.receive()) == 1024
    with pytest.raises(gone) as closed:
        await theirs.receive()
    assert (closed.value.code, closed.value.reason) == (1000, "done")
    assert trio.current_time() == (1.25 + 6 / 1024 if leaves == "server" else 0.25)
    with pytest.raises(PeerGone):
        await messages.receive()
    with pytest.raises(PeerGone):
        await messages.send_text("more")


async def test_a_broken_link_is_known_to_both_ends_at_once_and_loses_what_was_under_way(autojump_clock):
    messages, transport = Link(RATE, delay=0.25)._open(15, "test")
    await messages.send_text("x")
    await transport.aclose(1006)
    for end, gone in ((transport, TransportClosed), (messages, PeerGone)):
        with pytest.raises(gone) as closed:
            await end.receive()
        assert closed.value.code == 1006
    with pytest.raises(TransportClosed):
        await transport.send("more")
    assert trio.current_time() == 0


async def test_a_message_cut_short_by_cancellation_breaks_the_link(autojump_clock):
    messages, transport = Link(RATE, buffer=0)._open(15, "test")
    with trio.move_on_after(1):
        await messages.send_text("x" * 2048)
    with pytest.raises(TransportClosed):
        await transport.receive()
    with pytest.raises(PeerGone):
        await messages.send_text("more")


@pytest.mark.parametrize("wrong", [{"bits_per_second": 0}, {"bits_per_second": -1}, {"delay": -1}, {"delay": math.inf}])
def test_a_link_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Link(**wrong)


def test_a_link_serves_one_client():
    link = Link()
    link._open(15, "test")
    with pytest.raises(TypeError, match="one for each"):
        link._open(15, "test")


# ---- with a server ---------------------------------------------------------------------------------------------------


class Level(InputState):
    level: int = 0


class Wide(ReactorPipeline):
    """Pictures of 10 000 bytes, ten a second."""

    output: Picture
    state: Level
    fps = 10

    def inference(self):
        while True:
            yield np.full((50, 66, 3), self.state.level, np.uint8)


PACKET = 50 * 66 * 3 + 20  # its head has 17 to 25 bytes


@pytest.mark.parametrize("thread", [False, True])
async def test_frames_come_at_the_rate_of_the_link_and_commands_are_delayed_by_it(autojump_clock, thread):
    async with open_server(Wide, step_cost=0.01, thread=thread) as server, server.connect() as control:
        link = Link(bits_per_second=8 * PACKET * 4, delay=0.25)
        async with server.connect(role="viewer", link=link) as viewer:
            frames = await viewer.take(20)
            began = trio.current_time()
            await viewer.take(8)
            assert trio.current_time() - began == pytest.approx(2, abs=0.02), "four a second"
            assert {b.seq - a.seq for a, b in pairwise(frames[3:])} == {2, 3}
            assert [f.seq for f in await control.take(30)] == list(range(30)), "the other client notices nothing"
    async with open_session(Wide, step_cost=0.01, link=Link(delay=0.25)) as client:
        began = trio.current_time()
        await client.command("set_level", level=1)
        assert 0.5 <= trio.current_time() - began <= 0.62, "there and back, and at most a frame until it is applied"


async def test_a_link_that_stalls_for_three_seconds_comes_back_with_the_newest(autojump_clock):
    async with open_server(Wide, step_cost=0.01) as server, server.connect(link=Link(delay=0.125)) as client:
        await client.take(5)
        client.link.stall()
        await trio.sleep(3)
        client.link.resume()
        began = trio.current_time()
        frames = await client.take(25)
        assert max(b.seq - a.seq for a, b in pairwise(frames)) >= 25
        assert trio.current_time() - began <= 2.5
        assert server.sessions[0].reason is None


async def test_a_link_that_stays_dead_ends_the_session(autojump_clock):
    async with open_server(Wide, step_cost=0.01) as server, server.connect(link=Link()) as client:
        await client.take(1)
        client.link.stall()
        with pytest.raises(SessionEnded):
            await client.take(10_000)
        await server.sessions[0].ended.wait()
        assert server.sessions[0].reason == "too_slow"


async def test_leaving_and_vanishing_over_a_link_leave_nothing(autojump_clock):
    async with open_server(Wide, step_cost=0.01) as server:
        async with server.connect(link=Link(100_000, delay=0.5)) as client:
            await client.take(2)
            began = trio.current_time()
            await client.close()
            assert trio.current_time() - began == pytest.approx(0.5, abs=0.011)
        async with server.connect(link=Link(100_000, delay=0.5)) as client:
            await client.take(2)
            await client.vanish()
            await server.wait_left(client)
        async with server.connect(link=Link(100_000, delay=0.5)) as client:
            await client.take(2)
            await server.drain()
            with pytest.raises(SessionEnded) as ended:
                await client.take(1000)
            assert ended.value.reason == "draining"


async def test_a_client_without_a_link_says_so(autojump_clock):
    async with open_session(Wide) as client:
        with pytest.raises(TypeError, match="link=Link"):
            client.link.stall()
    async with open_server(Wide, websocket=True) as server:
        with pytest.raises(TypeError, match="websocket=True"):
            async with server.connect(link=Link()):
                pass


class Exact(Wide):
    fps = 8  # all its times are exact in binary, so that ties are ties


def exact_packet():
    """Bytes of each packet of `Exact` from the second to the 127th."""
    payload = memoryview(bytes(50 * 66 * 3))
    return len(payload) + len(packet_head(0, 1, 1_000_000, 1, None, 2, {}, payload))


async def trace(thread):
    """All that a scenario with ties tells: equal rates of model and link, changes and stalls when a frame is due."""
    seen = []
    async with open_server(Exact, step_cost=1 / 32, thread=thread) as server, server.connect() as control:
        size = exact_packet()
        # Without a buffer the first is ready to send again just when the next frame is due.
        links = Link(8 * size * 8, delay=0.125, buffer=0), Link(8 * PACKET * 4, delay=0.25, jitter=lambda n: n % 3 / 16)
        async with trio.open_nursery() as nursery:

            async def watch(name, link):
                async with server.connect(role="viewer", link=link) as viewer:
                    for _ in range(60):
                        (frame,) = await viewer.take(1)
                        seen.append((name, frame.seq, round(trio.current_time(), 6)))

            async def change():
                for number in range(4):
                    await trio.sleep_until(1 + number * 0.5)
                    await control.command("set_level", level=number)
                await trio.sleep_until(3)
                links[0].stall()
                links[1].set(bits_per_second=8 * PACKET * 2)
                await trio.sleep_until(4)
                links[0].resume()
                for number in range(10):
                    links[1].set(bits_per_second=8 * PACKET)
                    await trio.sleep_until(server.sessions[0].began + 6 + 1 / 32 + number / 2)
                    links[1].set(bits_per_second=None)  # the sending ends just when a frame is due

            for name, link in enumerate(links):
                nursery.start_soon(watch, name, link)
            nursery.start_soon(change)
        drops = dict(server.runtime.metrics.drops())
    return sorted(seen), drops


@pytest.mark.parametrize("thread", [False, True])
def test_the_same_trace_every_run(thread):
    def once():
        return trio.run(trace, thread, clock=trio.testing.MockClock(autojump_threshold=0))

    first = once()
    for _ in range(10):
        assert once() == first
