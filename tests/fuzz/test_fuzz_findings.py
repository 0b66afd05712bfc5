"""What fuzzing found, each as a test with its input."""

from __future__ import annotations

import logging
import struct

import msgspec
import numpy as np
import pytest
import simplejpeg
import trio

from reactor_trio.client.client_transport import TransportClosed
from reactor_trio.client.decoders import make_decoder
from reactor_trio.client.handshake import open_websocket
from reactor_trio.client.session_protocol import MOST_TRACKS, SessionProtocol
from reactor_trio.client.session_view import internals
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.connection.client_connection import _ClientConnection
from reactor_trio.connection.connect_request import ConnectRequest
from reactor_trio.edge import common_responses as answers
from reactor_trio.errors import CommandError, ConnectionRefused, ManifestError, ProtocolError
from reactor_trio.interface import Idle, ReactorPipeline, event
from reactor_trio.media.input_decoder import _shown
from reactor_trio.pacing import CongestionWindow
from reactor_trio.protocol import Packet, ServerText, TrackInfo, encode_server_text
from reactor_trio.protocol.close_codes import MAX_FRAGMENTS
from reactor_trio.protocol.text import MAX_LINE
from reactor_trio.testing import open_server, open_session
from tests.fuzz.fuzz_client import ACCEPTED, _Stream
from tests.fuzz.fuzz_server import GET, OPENING, Fuzzed, _Desk, exchange, frame, said
from tests.support.models import Main, Note


def answered(text: str) -> list[object]:
    session_manager = _Desk()
    conversation = _ClientConnection(session_manager, ConnectRequest("control", ("raw",)), None, None)  # type: ignore[arg-type]
    conversation._take(text)
    return said(conversation.sender)


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"set_x","data":{"\\ud800":NaN},"id":7}',  # the answer names the path, which UTF-8 cannot carry
        '{"type":"reactor.' + "a" * 200_000 + '"}',  # the answer quoted it
        '{"type":"' + "b" * 200_000 + '","id":1}',
        '{"type":"set_x","data":{"' + "c" * 200_000 + '":1},"id":1}',
    ],
    ids=["surrogate", "runtime_type", "unknown_command", "unknown_argument"],
)
async def test_a_refusal_can_be_sent_and_is_short(autojump_clock, text):
    if "c" * 9 in text or "b" * 9 in text:
        async with open_server(Fuzzed) as server, server.connect(video=["none"]) as client:
            await internals(client).connection.transport.send(text)
            await trio.sleep(0.1)
            assert client.ended is None
        return
    (answer,) = answered(text)
    assert answer.type == "reactor.error"
    assert len(answer.data["message"]) <= MAX_LINE


@pytest.mark.parametrize("origin", [b"http://[", b"http://local]host", b"http://\xe2\x84\x80.test"])
@pytest.mark.parametrize("path", ["/uploads", "/ws"])
async def test_an_origin_that_is_no_url_is_refused(autojump_clock, caplog, origin, path):
    request = (
        b"POST /uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
        if path == "/uploads"
        else OPENING % b"raw"
    )
    async with open_server(Fuzzed) as server:
        answer = await exchange(server, request.replace(b"localhost", b"localhost\r\nOrigin: " + origin))
    assert answer.startswith(b"HTTP/1.1 403")
    assert not caplog.records


async def test_names_under_page_are_looked_up_and_not_kept(autojump_clock, caplog):
    async with open_server(Fuzzed) as server:
        kept = answers._page_data.cache_info().currsize
        for name in (b"a" * 300 + b".js", b"x.js", b"..%2fsite.js", b"../site.py", b".js", b"main.js/"):
            assert (await exchange(server, GET % (b"/page/" + name))).startswith(b"HTTP/1.1 404")
        assert answers._page_data.cache_info().currsize == kept
        assert (await exchange(server, GET % b"/page/main.js")).startswith(b"HTTP/1.1 200")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("opcode", [1, 2])
async def test_a_message_of_endless_empty_fragments_ends_the_connection(autojump_clock, opcode):
    parts = frame(opcode, b"", fin=False) + frame(0, b"", fin=False) * 60_000
    async with open_server(Fuzzed) as server:
        answer = await exchange(server, OPENING % b"none" + parts)
    assert b"\x88" in answer
    assert struct.pack("!H", 1009) + b"too_big: a message of more than" in answer


async def test_the_client_takes_no_endless_message_either():
    stream = _Stream(
        ACCEPTED + frame(1, b"", fin=False, mask=None) + frame(0, b"", fin=False, mask=None) * (MAX_FRAGMENTS + 9)
    )
    transport = await open_websocket("ws://localhost/ws", stream=stream)
    with pytest.raises(TransportClosed) as closed:
        await transport.receive()
    assert closed.value.code == 1009
    await transport.aclose()


@pytest.mark.parametrize(
    "header", [b"Connection: Upgr\xc3\xa4de", b"Sec-WebSocket-Protocol: reactor.v\xbf", b"Upgrade: web\x88socket"]
)
async def test_a_handshake_answer_that_is_not_ascii_is_no_websocket_server(header):
    name = header.partition(b":")[0]
    lines = [line for line in ACCEPTED.split(b"\r\n") if not line.startswith(name)]
    with pytest.raises(ConnectionError, match="does not answer as a WebSocket server does"):
        await open_websocket("ws://localhost/ws", stream=_Stream(b"\r\n".join([lines[0], header, *lines[1:]])))


@pytest.mark.parametrize(("given", "seconds"), [(b"5", 5.0), (b"9" * 400, None), (b"tomorrow", None)])
async def test_an_endless_retry_after_is_not_believed(given, seconds):
    answer = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %s\r\nContent-Length: 4\r\n\r\nfull" % given
    with pytest.raises(ConnectionRefused) as refused:
        await open_websocket("ws://localhost/ws", stream=_Stream(answer))
    assert refused.value.retry_after == seconds


def track(**changes: object) -> dict[str, object]:
    return {"index": 0, "name": "v", "kind": "video", "direction": "out", "codec": "raw", "width": 1, "height": 1} | changes


def welcomed() -> SessionProtocol:
    data = {
        "session_id": "s",
        "protocol": 1,
        "name": "m",
        "role": "control",
        "heartbeat": 10,
        "resume_token": None,
        "upload_token": None,
        "schema": {},
        "tracks": [track()],
    }
    conversation = SessionProtocol()
    conversation.receive_text(encode_server_text(ServerText("reactor.welcome", data, None, 1)), 0.0)
    return conversation


@pytest.mark.parametrize("changes", [{"width": -1, "height": -1}, {"width": 0}, {"coded_height": -5}])
def test_a_track_of_no_size_breaks_the_protocol(changes):
    conversation = welcomed()
    with pytest.raises(ProtocolError, match="track v: no picture has the size"):
        conversation.receive_text(encode_server_text(ServerText("reactor.track", track(**changes))), 0.0)


def test_a_server_cannot_describe_tracks_without_end():
    conversation = welcomed()
    with pytest.raises(ProtocolError, match=f"more than {MOST_TRACKS} tracks"):
        for index in range(1, 1000):
            conversation.receive_text(encode_server_text(ServerText("reactor.track", track(index=index))), 0.0)
    assert len(conversation.tracks) == MOST_TRACKS


def test_a_small_jpeg_that_announces_gigabytes_is_refused():
    data = bytearray(simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8), colorspace="RGB"))
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack("!HH", 65_500, 65_500)
    decoder = make_decoder(msgspec.convert(track(codec="jpeg"), TrackInfo))
    with pytest.raises(ProtocolError, match="at most 8192x8192, got 65500x65500"):
        decoder.decode(Packet(0, 0, 0, 1, None, 0, {}, memoryview(bytes(data))))


def test_nested_values_are_not_shown_in_an_error():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert _shown(deep) == "a list"
    assert _shown("x" * 100) == "'" + "x" * 39
    while deep:  # taken apart by hand, since Python would do it recursively
        deep = deep.pop()  # type: ignore[assignment]


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 3000,
        "a: !!bool maybe",
        "a: !!int ''",
        "a: !!float ''",
        "a: !!timestamp now",
        "a: !!int '0b'",
        "config: " + "x" * 300,
    ],
)
def test_yaml_that_pyyaml_fails_on_is_a_manifest_error_of_one_line(tmp_path, text):
    (tmp_path / "reactor.yaml").write_text(f"model: a:B\n{text}\n")
    with pytest.raises(ManifestError) as error:
        load_manifest(tmp_path)
    assert "\n" not in str(error.value)


class Surrogates(ReactorPipeline):
    """Says what UTF-8 cannot carry, as a file's name may hold."""

    output: Main

    def inference(self):
        while True:
            yield Idle

    @event
    async def send_it(self):
        await self.send(Note("\udcff"))

    @event
    def reply(self):
        return {"name": "\udcff"}

    @event
    def refuse(self):
        raise CommandError("no\udcff", "\udcff is not there")


async def test_lone_surrogates_of_the_author_are_an_error_of_that_session_alone(autojump_clock):
    async with open_session(Surrogates) as client:
        for command in ("send_it", "reply"):
            with pytest.raises(CommandError) as refused:
                await client.command(command)
            assert refused.value.code == "internal_error"
        with pytest.raises(CommandError) as refused:
            await client.command("refuse")
        assert (refused.value.code, str(refused.value)) == ("no?", "? is not there")
        assert client.ended is None


class DiesInSurrogates(Surrogates):
    def inference(self):
        yield Main(np.zeros((1, 1, 3), np.uint8))
        raise OSError("no such file: \udcff")


async def test_a_model_whose_error_has_lone_surrogates_is_reported(autojump_clock, monkeypatch):
    # a runner of tests in parallel cannot carry such a log to its other half
    monkeypatch.setattr(logging.getLogger("reactor_trio.session"), "disabled", True)
    async with open_server(DiesInSurrogates, debug=True) as server, server.connect() as client:
        with pytest.raises(OSError, match="no such file"):
            await client.take(2)
        assert client.ended == "model_error"
        assert "?" in internals(client).receiver._end_message


def test_h11_bounds_the_digits_of_a_length():
    """`int()` takes 4300 digits and raises beyond; h11 before 0.16 let more through."""
    import h11

    connection = h11.Connection(h11.SERVER)
    connection.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"1" * 5000 + b"\r\n\r\n")
    with pytest.raises(h11.RemoteProtocolError):
        connection.next_event()


def test_empty_frames_do_not_change_the_estimate_of_the_link():
    link = CongestionWindow(4e6, 30)
    link.sent(0, 0, 0.0)
    link.sent(1, 0, 0.01)
    link.acknowledged(0, 0.1)
    link.acknowledged(1, 1.0)
    assert 0 < link.quality.bitrate <= 4e6
