"""Time in which the whole process stands still is charged to no client, no codec and no peer.

In virtual time each deadline moves by exactly the pause. Then `reactor run` itself is stopped for longer than all of them.
"""

from __future__ import annotations

import re
import signal
import time
from contextlib import ExitStack
from functools import partial

import pytest
import trio
import trio.testing
from tests.support.fault_checks import MODEL, wait_for_encoders
from tests.support.fault_peers import RawClient, reactor_run
from tests.support.fault_peers import opening as opening_on_a_socket
from tests.support.gate_kit import open_gate
from tests.support.lost_time import stoppable
from tests.support.transport_peers import TinySite, answers, conversing, opening, read_all, serving

from reactor_trio.admission import Admission, NotAdmitted
from reactor_trio.interface import ReactorPipeline
from reactor_trio.server.waiting_room import WaitingRoom
from reactor_trio.testing import open_server
from reactor_trio.transport import Limits, PortRules, serve_http

#: longer than every limit of these tests
PAUSE = 100.0


@pytest.fixture
def clock(autojump_clock):
    return autojump_clock


# ---- a connection -----------------------------------------------------------------------------------------------------

HEAD = b"POST /stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "limits", "statuses", "end"),
    [
        (b"", Limits(), [], 10.0),
        (HEAD[:20], Limits(), [408], 10.0),
        (HEAD + b"1", Limits(), [408], 15.0),
        (HEAD + b"1", Limits(body_time=12), [408], 12.0),
    ],
    ids=["before the first byte", "half a head", "half a body", "a slow body"],
)
async def test_a_request_may_take_its_time_beside_the_pause(sent, limits, statuses, end, clock):
    async with stoppable(clock) as stop, serving(limits=limits, methods=("POST",)) as stream:
        stop(3.2, PAUSE)
        await stream.send_all(sent)
        found = answers(await read_all(stream))
        assert ([answer.status for answer in found], trio.current_time()) == (statuses, end + PAUSE)


async def test_bytes_that_came_while_the_process_was_paused_complete_a_request(clock):
    async with stoppable(clock) as stop, serving(methods=("POST",)) as stream:
        await stream.send_all(HEAD + b"1")
        stop(3.2, PAUSE)
        await trio.sleep(3.3)
        await stream.send_all(b"2")
        (answer,) = answers(await read_all(stream))
        assert (answer.status, answer.body) == (200, b"2\n")


async def test_an_admission_may_take_its_time_beside_the_pause(clock):
    async with stoppable(clock) as stop, serving() as stream:
        stop(3.2, PAUSE)
        await stream.send_all(opening(path="/ws?admission=9"))
        assert bytes(await stream.receive_some()).startswith(b"HTTP/1.1 101")


async def test_an_opening_that_the_client_does_not_read_ends_at_its_time_beside_the_pause(clock):
    async with stoppable(clock) as stop:
        ours, theirs = trio.testing.lockstep_stream_pair()
        stop(3.2, PAUSE)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(serve_http, ours, TinySite().serve, PortRules(Limits()), closing=trio.Event()))
            await theirs.send_all(opening())
            await theirs.receive_some(1)
        assert trio.current_time() == PAUSE + 10


async def test_a_silent_client_may_be_silent_for_its_time_from_the_end_of_the_pause(clock):
    async with stoppable(clock) as stop, conversing() as (peer, _):
        stop(3.2, PAUSE)
        while await peer.event() is not None:
            pass
        assert trio.current_time() == 3.2 + PAUSE + 20


# ---- a session --------------------------------------------------------------------------------------------------------


class Nothing(ReactorPipeline):
    def inference(self):
        while True:
            yield


async def test_a_lost_client_keeps_its_window(clock):
    async with stoppable(clock) as stop, open_server(Nothing, step_cost=0.1, resume_window=5) as server:
        async with server.connect() as client:
            await client.vanish()
            lost = trio.current_time()
        stop(3.2, PAUSE)
        await trio.sleep(PAUSE + 4.9)
        assert not server.sessions[0].ended.is_set()
        await server.sessions[0].ended.wait()
        assert trio.current_time() == lost + PAUSE + 5


async def test_a_client_is_idle_only_while_its_messages_are_read(clock):
    limits = {"session_idle": 30, "silence": 1000, "ping_interval": 900}
    async with stoppable(clock) as stop, open_server(Nothing, step_cost=0.5, limits=limits) as server:
        async with server.connect():
            stop(3.2, PAUSE)
            await server.sessions[0].ended.wait()
            assert trio.current_time() == 3.2 + PAUSE + 30


async def test_the_length_of_a_session_is_not_prolonged(clock):
    limits = {"session_length": 30, "silence": 1000, "ping_interval": 900}
    async with stoppable(clock) as stop, open_server(Nothing, step_cost=0.5, limits=limits) as server:
        async with server.connect():
            stop(3.2, 20)
            await server.sessions[0].ended.wait()
            assert trio.current_time() == 30


async def test_a_reserved_place_waits_for_its_client(clock):
    admission = Admission(1, 16, claim_ttl=10.0)
    back = []
    room = WaitingRoom(admission, slot_free=lambda sid, _reason: back.append((sid, trio.current_time())))
    async with stoppable(clock) as stop, trio.open_nursery() as nursery:
        nursery.start_soon(room.run)
        room.start_admitting()
        room.reserve("early")
        stop(3.2, PAUSE)
        await trio.sleep(PAUSE + 9.9)
        with pytest.raises(NotAdmitted):
            room.reserve("next")
        assert back == []
        await trio.sleep(0.2)
        room.reserve("next")
        assert back == [("early", PAUSE + 10)]
        nursery.cancel_scope.cancel()


async def test_a_gate_does_not_take_its_own_pause_for_the_silence_of_a_replica(clock):
    async with stoppable(clock) as stop, open_gate(replicas=1) as gate:
        await (await gate.call()).until("reactor.admitted")
        stop(0.7, PAUSE)
        await trio.sleep(PAUSE + 1.5)
        assert (gate.allocation.leased, gate.replicas.looked_after) == (1, [])


# ---- the whole server -------------------------------------------------------------------------------------------------

#: Its encoder is nearly always at work, so the pause meets it there.
SLOW = MODEL + """
import time
from reactor_trio.media.jpeg import JpegEncoder

def encode(self, frame, encode=JpegEncoder.encode):
    time.sleep(0.4)
    return encode(self, frame)

JpegEncoder.encode = encode
"""


def test_a_server_that_is_stopped_longer_than_all_its_limits_goes_on_where_it_was(tmp_path):
    """What each peer does next it does while the server stands still, so no test depends on who is quick."""
    limits = {"handshake": 2.0, "stall": 2.0}
    runtime = {"limits": limits, "resume_window": 2.0, "codec": {"timeout": 1.5}, "watchdog": 1.0}
    with reactor_run(tmp_path, SLOW, **runtime) as server, ExitStack() as clients:
        wait_for_encoders(server)

        def client(*args, **options):
            return clients.enter_context(RawClient(server.port, *args, **options))

        controls = client(pongs=True)
        welcome = controls.text("reactor.welcome")["data"]
        watches = client("/ws?role=viewer&video=jpeg", pongs=True)
        watches.picture()
        head, body = client(upgrade=False), client(upgrade=False)
        token = welcome["upload_token"]
        upload = f"POST /uploads HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-length: 2\r\n\r\n"
        half = opening_on_a_socket("/ws?role=viewer&video=raw")
        head.send(half[:30])
        body.send(upload.encode(), b"1")
        controls.vanish()
        server.wait_log("has lost its client")
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(4.0)
        returns = client(upgrade=False)
        returns.send(opening_on_a_socket(f"/ws?video=raw&resume={welcome['resume_token']}"))
        head.send(half[30:])
        body.send(b"2")
        server.process.send_signal(signal.SIGCONT)
        assert head.response(body=False)[0] == 101
        assert body.response(body=False)[0] == 201
        assert returns.response(body=False)[0] == 101
        assert returns.text("reactor.welcome")["data"]["resumed"]
        for _ in range(3):
            watches.picture()
        assert not re.search("WARNING|ERROR", server.log, re.IGNORECASE), server.log
