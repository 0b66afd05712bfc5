"""The sockets of a server: TCP, and a Unix socket that a proxy on the same machine uses."""

from __future__ import annotations

import socket
from pathlib import Path

import trio
from tests.support.black import Black

from reactor_trio.configuration.settings import Settings
from reactor_trio.server.serve import Serving, serve


async def test_a_server_at_a_unix_socket_says_where_it_is_and_answers(tmp_path: Path) -> None:
    path = str(tmp_path / "reactor.sock")
    listening = trio.socket.socket(socket.AF_UNIX)
    await listening.bind(path)
    listening.listen()
    listeners = [trio.SocketListener(listening)]
    async with trio.open_nursery() as nursery:
        serving: Serving = await nursery.start(
            lambda task_status: serve(Black, settings=Settings(), listeners=listeners, task_status=task_status)
        )
        assert (serving.host, serving.port, serving.urls) == (path, 0, [f"unix:{path}"])
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
        nursery.cancel_scope.cancel()
