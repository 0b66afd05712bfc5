"""What the client says of a refusal by a proxy, or by any other program than a server of this project."""

from __future__ import annotations

import anyio
import pytest
from tests.support.client_doubles import ScriptedTransport, WsServer, memory_pipe, welcome
from wsproto.events import RejectConnection, RejectData

from reactor_trio.client import Client, open_websocket, running
from reactor_trio.client.refusals import LONGEST, refusal_reason
from reactor_trio.errors import ConnectionRefused, SessionEnded, UploadRefused

NGINX = b"<html>\r\n<head><title>%s</title></head>\r\n<body>\r\n<h1>%s</h1>\r\n<hr>nginx\r\n"


async def upload(status, body, *code):
    """Upload through a server that answers with this."""
    server = ScriptedTransport()
    server.say("reactor.welcome", welcome() | {"upload_token": "u"}, n=1)

    async def post(target, headers, sent):
        return status, body, *code

    try:
        async with running(Client(server, post=post)) as client:
            await client.upload(b"cat", name="cat.png")
    finally:
        server.let_go()


async def connect(status, body):
    """Connect to a server that answers with this."""
    ours, theirs = memory_pipe()
    server = WsServer(theirs)
    headers = [(b"Content-Length", b"%d" % len(body))]
    refusal = [RejectConnection(status_code=status, headers=headers, has_body=bool(body))]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.refuse, *refusal, *([RejectData(data=body)] if body else []))
        try:
            await open_websocket("ws://example.org/ws", stream=ours)
        except ConnectionRefused as refused:
            error = refused
    await theirs.aclose()
    raise error


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (413, "413: a proxy in front of the server refuses files of this size"),
        (411, "411: a proxy in front of the server takes no request without its size (Content-Length)"),
        (403, "403: a proxy in front of the server forbids this request"),
        (502, "502: a proxy in front of the server cannot reach it; does the server run?"),
        (504, "504: a proxy in front of the server got no answer from it in time"),
        (418, "418: a proxy in front of the server, or another program, answered I'm a Teapot"),
        (599, "599: a proxy in front of the server, or another program, answered an unknown status"),
    ],
)
@pytest.mark.parametrize("body", [NGINX % (b"413 Request Entity Too Large", b"Too Large"), b"\n\n<!DOCTYPE html><p>No", b""])
def test_a_proxys_page_is_one_readable_line(status, reason, body):
    with pytest.raises(UploadRefused) as upload_refused:
        anyio.run(upload, status, body)
    assert (upload_refused.value.status, str(upload_refused.value)) == (status, reason)
    with pytest.raises(ConnectionRefused) as refused:
        anyio.run(connect, status, body)
    assert (refused.value.status, str(refused.value)) == (status, f"refused with HTTP {reason}")


def test_the_servers_own_words_come_as_they_are():
    with pytest.raises(UploadRefused) as refused:
        anyio.run(upload, 413, "cat.png has 12 bytes; a file may have 8 – see uploads.file\n".encode())
    assert str(refused.value) == "cat.png has 12 bytes; a file may have 8 – see uploads.file"


def test_the_code_of_a_refusal_is_data():
    """Programs read no sentence: a refused upload has the code, and a client that is refused in its WebSocket."""

    async def end(code):
        server = ScriptedTransport()
        server.say("reactor.bye", {"reason": "no_room", "message": "each place is taken", "code": code})
        try:
            async with running(Client(server)):
                pass
        finally:
            server.let_go()

    with pytest.raises(UploadRefused) as refused:
        anyio.run(upload, 413, b"too much", "too_large")
    assert (refused.value.code, refused.value.message) == ("too_large", "too much")
    for given, found in (("full", "full"), ("of another program", None), (None, None)):
        with pytest.raises(SessionEnded) as ended:
            anyio.run(end, given)
        assert (ended.value.reason, ended.value.code) == ("no_room", found)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"message": "Request\\nToo Long"}', "Request Too Long"),
        (b'{"error": "too large"}', "too large"),
        (b'{"error": {"code": 413}}', '{"error": {"code": 413}}'),
        (b"upstream\r\n\x1b[2Jconnect\x00error", "upstream [2Jconnect error"),
        (b"x" * 5000, "x" * LONGEST),
        (b"[" * 5000, "[" * LONGEST),
    ],
)
def test_other_words_are_one_line_without_control_characters(body, reason):
    assert refusal_reason(413, body) == (reason, True)
