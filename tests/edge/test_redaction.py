"""No token, ticket, key, share or upload token in anything that is logged, printed, counted or said of itself.

Every way in is driven with marked secrets, at the DEBUG level of everything.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.support.fault_peers import SOURCE, Gone, RawClient, ask, frame, opening, reactor_run

import reactor_trio.server.reactor_site as site_module
from reactor_trio import issue_ticket
from reactor_trio.client.handshake import open_websocket
from reactor_trio.client.urls import without_token
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.testing import open_server

MARK = "LEAKED"
TOKEN, VIEWER, KEY, GUESS = (f"{MARK}-{what}-0123456789abcdef0123456789" for what in ("token", "viewer", "key", "guess"))
RUNTIME = {"auth": {"token": TOKEN, "viewer_token": VIEWER, "ticket_keys": [KEY]}, "queue": 0}

MODEL = """
import logging
import numpy as np
from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, UploadedFile, Video, event

logging.getLogger().setLevel(logging.DEBUG)  # of libraries, too

class Picture(Output):
    main: Video

class State(InputState):
    image: UploadedFile | None = InputField(default=None)

class Model(ReactorPipeline):
    fps = 30
    state: State

    def inference(self):
        while True:
            yield Picture(main=np.zeros((8, 8, 3), np.uint8))

    @event
    def fail(self):
        raise RuntimeError("a handler that fails")
"""


def get(target: str, *lines: str, method: str = "GET", version: str = "HTTP/1.1") -> bytes:
    return "\r\n".join([f"{method} {target} {version}", "host: localhost", "connection: close", *lines, "", ""]).encode()


def bearer(token: str) -> str:
    return f"authorization: Bearer {token}"


def requests(token: str) -> list[bytes]:
    """Requests that carry `token`, right and wrong in every way in which a request can be."""
    query = f"?token={token}"
    paths = ("/", "/schema", "/metrics", "/health", "/ws", "/nothing", "/uploads", "/moments/1.jpg")
    return [
        *(get(path + query) for path in paths),
        *(get(path, bearer(token)) for path in ("/schema", "/metrics", "/health", "/ws", "/nothing")),
        get(f"/{query}", version="HTTP/9.9"),
        get(f"/{query} x"),
        get(f"/{query}&%FF"),
        get(f"/{query}&x=%FF"),
        get(f"nothing{query}"),
        get(f"http://elsewhere/{query}"),
        get("/", bearer(f"{token}\x00")),
        get("/", f"authorization {token}"),
        get("/", bearer(token), "x: " + "x" * 20_000),
        get(f"/schema{query}", method="DELETE"),
        get(f"/uploads{query}&name=x", "content-length: 3", method="POST") + b"abc",
        get("/uploads?name=x", bearer(token), "content-length: 3", method="POST") + b"abc",
        get("/uploads?name=x", bearer(token), method="POST"),
        opening(f"/ws{query}", origin="https://elsewhere.example"),
        opening(f"/ws{query}&role=admin"),
        opening(f"/ws{query}&model=other"),
        opening(f"/ws{query}&video=none", sec_websocket_version="8"),
        opening(f"/ws{query}&video=none", sec_websocket_key=token),
        opening(f"/ws{query}&video=none", sec_websocket_protocol=token),
    ]


def drive(port: int) -> list[str]:
    """Every way in, and the secrets that the server gave out meanwhile."""
    tickets = [issue_ticket(KEY), issue_ticket(KEY, role="viewer", expires=0.001), issue_ticket("another-" + KEY)]
    with RawClient(port, "/ws?video=raw&token=" + TOKEN) as player:
        welcome = player.text("reactor.welcome")["data"]
        share, upload = welcome["share_token"], welcome["upload_token"]
        for token in (TOKEN, VIEWER, GUESS, share, upload, *tickets):
            for request in requests(token):
                ask(port, request)
        for viewer in (share, VIEWER):
            with RawClient(port, f"/ws?video=raw&role=viewer&token={viewer}") as watching:
                watching.picture()
                watching.send(frame(1, b"not json " + viewer.encode()))
                watching.text("reactor.error")
                watching.send(b"\xff" * 10)
                with pytest.raises(Gone):
                    list(watching.texts())
        player.say("fail", 1)
        player.answer(1)
        player.vanish()
    with RawClient(port, upgrade=False) as again:
        again.send(opening(f"/ws?video=none&token={tickets[0]}&role=viewer"))
        again.response(body=False)
    return [share, upload, *tickets, *(part for ticket in tickets for part in ticket.split("."))]


def reactor(*each: list[str]) -> str:
    """All that `reactor` says, run with each of some arguments one after another in one process; at last their codes."""
    script = "import json, sys; from reactor_trio.cli import main; print([main(each) for each in json.loads(sys.argv[1])])"
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(each)], env=os.environ | {"PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout


def test_no_secret_is_in_what_a_server_and_a_client_say(tmp_path):
    with reactor_run(tmp_path, MODEL, "--port", "0", "--debug", **RUNTIME) as server:
        secrets = drive(server.port)
        _, _, health = ask(server.port, get("/health", bearer(TOKEN)))
        _, _, metrics = ask(server.port, get("/metrics", bearer(TOKEN)))
        said = health.decode() + metrics.decode()
        at = f"http://127.0.0.1:{server.port}/"
        watch = ["client", "--debug", "--seconds", "0.1"]
        said += reactor(
            [*watch, f"{at}?token={TOKEN}"], [*watch, f"{at}#token={GUESS}"], [*watch, f"http://127.0.0.1:1/?token={TOKEN}"],
            [*watch, f"ftp://localhost/?token={TOKEN}"],
        )  # fmt: skip
        server.process.terminate()
        assert server.process.wait(120) == 0
        log = server.log
    assert "refused: wrong" in log
    assert "answered 401" in log  # it was at DEBUG
    assert said.splitlines()[-1] == "[0, 2, 2, 2]"
    assert "refused with HTTP 401" in said
    assert '"reason": "wrong"' not in health.decode()
    for secret in (MARK, *secrets):
        assert secret not in log, f"{secret} in the log"
        assert secret not in said, f"{secret} was said"


def test_a_manifest_that_cannot_be_used_is_told_without_its_secrets(tmp_path):
    folders = []
    for auth in ({"token": "LEAKED"}, {"ticket_keys": ["LEAKED"]}, {"token": TOKEN, "viewer_token": TOKEN}, f"{TOKEN}",
                 {"token": [TOKEN]}, {"token": f"{TOKEN} {TOKEN}"}):  # fmt: skip
        folders.append(tmp_path / str(len(folders)))
        folders[-1].mkdir()
        manifest = {"model": "model:Model", "runtime": {"port": 0, "auth": auth}}
        (folders[-1] / "reactor.yaml").write_text(json.dumps(manifest))
    said = reactor(*(["run", "--debug", "--path", str(folder)] for folder in folders))
    assert said.splitlines()[-1] == str([2] * len(folders)), said
    assert said.count("\nreactor: runtime.auth") == 4  # and two whose shape is wrong, told with the file's name
    assert MARK not in said


class Picture(Output):
    main: Video


class Model(ReactorPipeline):
    output: Picture

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


async def test_a_bug_of_ours_is_logged_without_the_request_that_met_it(monkeypatch, caplog):
    """The traceback of an error in the runtime itself names code, not what a client sent."""
    caplog.set_level(logging.DEBUG)

    def broken(*args, **kwargs):
        raise AssertionError("a bug")

    async with open_server(Model, websocket=True, auth=RUNTIME["auth"]) as server:
        monkeypatch.setattr(site_module, "parse_connect_request", broken)
        with pytest.raises(Exception, match="500"):
            async with server.connect(token=TOKEN):
                pass
    assert "a bug" in caplog.text
    assert MARK not in caplog.text
    assert all(MARK not in repr(vars(record)) for record in caplog.records)


@pytest.mark.parametrize(
    ("url", "left", "token"),
    [
        ("ws://h/ws?video=raw&token=a%26b&role=viewer", "ws://h/ws?video=raw&role=viewer", "a&b"),
        ("http://h/?role=viewer#token=s", "http://h/?role=viewer", "s"),
        ("http://h/?token=", "http://h/?token=", None),
        ("ws://h/ws?video=h264,raw#top", "ws://h/ws?video=h264,raw#top", None),
    ],
)
def test_a_token_leaves_the_url_for_the_header(url, left, token):
    assert without_token(url) == (left, token)


async def test_a_url_that_is_none_and_a_token_that_fits_no_header_are_errors_without_either():
    for url, token in (
        ("http://h/?token=LEAKED", None), ("ws://h/", "LEAKED\n"), ("ws://h/", "LEAKEDé"), ("ws://h/", "LEAKED\0"),
    ):  # fmt: skip
        with pytest.raises(ValueError) as caught:
            await open_websocket(url, token=token)
        assert MARK not in str(caught.value)
