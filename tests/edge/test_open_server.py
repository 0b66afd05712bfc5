"""A server that asks for nothing and is reached by others says so; `reactor ticket`; what every answer carries."""

from __future__ import annotations

import json
import logging

import h11
import numpy as np
import pytest
import trio
from tests.support.fault_peers import opening

from reactor_trio import issue_ticket, serve
from reactor_trio.cli import main
from reactor_trio.configuration.settings import AuthSettings, LimitSettings, Settings
from reactor_trio.edge.tickets import Tickets
from reactor_trio.interface import Output, ReactorPipeline, Video

TOKEN = "control-" + "t" * 16
KEY = "k" * 32


class Picture(Output):
    main_video: Video


class Model(ReactorPipeline):
    output: Picture

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


async def warnings_of(caplog, **options) -> list[str]:
    """What `serve` warns of until it is ready."""
    options["settings"] = options.get("settings") or Settings(port=0)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: serve(Model, task_status=task_status, **options))
        nursery.cancel_scope.cancel()
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_whoever_listens_wider_than_this_computer_and_asks_for_nothing_is_warned_once(caplog):
    (warning,) = await warnings_of(caplog, host="0.0.0.0")
    assert warning.startswith("anyone who reaches 0.0.0.0:")
    assert warning.endswith(" can use this model: set runtime.auth (docs/operate/security.md), or host: 127.0.0.1")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_on_this_computer_there_is_no_warning(caplog, host):
    assert await warnings_of(caplog, host=host) == []


async def test_with_a_token_there_is_no_warning(caplog):
    settings = Settings(host="0.0.0.0", port=0, auth=AuthSettings(token=TOKEN))
    assert await warnings_of(caplog, settings=settings) == []


async def test_sockets_that_listen_already_are_looked_at_too(caplog):
    wide = await trio.open_tcp_listeners(0, host="0.0.0.0")
    (warning,) = await warnings_of(caplog, listeners=wide)
    assert warning.startswith("anyone who reaches 0.0.0.0:")


# What every answer carries


def headers_of(answer: bytes) -> dict[str, str]:
    """The status and the headers of the first answer in a connection's bytes."""
    parser = h11.Connection(h11.CLIENT)
    asked = [("host", "h"), ("upgrade", "websocket"), ("connection", "upgrade")]
    parser.send(h11.Request(method="GET", target="/", headers=asked))
    parser.receive_data(answer)
    event = parser.next_event()
    assert isinstance(event, h11.Response | h11.InformationalResponse)
    return {"status": str(event.status_code)} | {name.decode(): value.decode() for name, value in event.headers}


ASKED = {
    "page": (b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", 200),
    "refused": (b"GET /schema HTTP/1.1\r\nhost: localhost\r\n\r\n", 401),
    "no request": (b"nonsense\r\n\r\n", 400),
    "other host": (b"GET / HTTP/1.1\r\nhost: elsewhere.example\r\n\r\n", 421),
    "head too long": (b"GET / HTTP/1.1\r\nx: " + b"x" * 20_000, 431),
    "no websocket": (b"GET /ws HTTP/1.1\r\nhost: localhost\r\n\r\n", 426),
    "wrong origin": (opening(f"/ws?token={TOKEN}", origin="https://elsewhere.example"), 403),
    "no token": (opening("/ws?video=none"), 401),
    "websocket": (opening(f"/ws?video=none&token={TOKEN}"), 101),
    "no room": (b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", 503),
}


async def test_no_answer_lets_a_browser_pass_the_address_on():
    """Which may have a token in it: refusals, the handshake and the last word to who is turned away included."""
    settings = Settings(port=0, auth=AuthSettings(token=TOKEN), limits=LimitSettings(connections=1))
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            serving = await nursery.start(lambda task_status: serve(Model, settings=settings, task_status=task_status))
            await serving.runtime.preparation.tried.wait()
            for what, (request, status) in ASKED.items():
                taken = await trio.open_tcp_stream("127.0.0.1", serving.port) if what == "no room" else None
                if taken is not None:
                    await taken.send_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
                    await taken.receive_some()
                async with await trio.open_tcp_stream("127.0.0.1", serving.port) as stream:
                    await stream.send_all(request)
                    head = b""
                    while b"\r\n\r\n" not in head:
                        head += await stream.receive_some()
                if taken is not None:
                    await taken.aclose()
                answer = headers_of(head)
                assert answer["status"] == str(status), what
                assert answer["referrer-policy"] == "no-referrer", what
                assert answer["x-content-type-options"] == "nosniff", what
                while serving.runtime.metrics.connections:  # noqa: ASYNC110 - until it has noticed that we left
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()


# `reactor ticket`


def reactor(capsys, *arguments):
    code = main(["ticket", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out.strip(), said.err.strip()


def project(tmp_path, auth):
    (tmp_path / "reactor.yaml").write_text(json.dumps({"model": "m:M", "name": "sky", "runtime": {"auth": auth}}))
    return tmp_path


def test_reactor_ticket_prints_a_ticket_of_the_first_key(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SKY_KEY", KEY)
    folder = project(tmp_path, {"ticket_keys": ["env:SKY_KEY", "o" * 32]})
    code, ticket, _ = reactor(
        capsys, "--path", folder, "--role", "viewer", "--subject", "ann", "--max-session", "90", "--expires", "30"
    )
    assert code == 0
    found = Tickets([KEY.encode()], "sky").read(ticket)
    assert (found.role, found.sub, found.max_session, found.aud) == ("viewer", "ann", 90, "sky")
    _, plain, _ = reactor(capsys, "--path", folder)
    assert Tickets([KEY.encode()], "sky").read(plain).role == "control"


@pytest.mark.parametrize(
    ("auth", "arguments", "text"),
    [
        (None, (), "runtime.auth.ticket_keys: a ticket needs a key that signs it"),
        ({"token": TOKEN}, (), "runtime.auth.ticket_keys: a ticket needs a key that signs it"),
        ({"ticket_keys": ["short"]}, (), "runtime.auth.ticket_keys[0]: 5 bytes, a key needs 32 or more"),
        ({"ticket_keys": [KEY]}, ("--expires", "99999999"), "expires: expected seconds, above 0 and 2592000 at most"),
        ({"ticket_keys": [KEY]}, ("--role", "admin"), "argument --role: invalid choice"),
    ],
)
def test_reactor_ticket_says_what_is_missing(capsys, tmp_path, auth, arguments, text):
    code, out, err = reactor(capsys, "--path", project(tmp_path, auth), *arguments)
    assert (code, out) == (2, "")
    assert text in err
    assert "\n" not in err


def test_issuing_does_not_load_a_server():
    """A back end that issues tickets needs none of it."""
    import subprocess
    import sys

    loaded = "import sys; from reactor_trio import issue_ticket; issue_ticket('k' * 32); print('trio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "False\n"
    assert issue_ticket(KEY).count(".") == 2
