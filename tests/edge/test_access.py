"""Who may come in: each credential with each role and each `runtime.viewers`, and what is said to who may not."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
import trio

from reactor_trio import issue_ticket
from reactor_trio.configuration.settings import AuthSettings
from reactor_trio.edge.access import Access
from reactor_trio.edge.ip_addresses import network_of
from reactor_trio.edge.refusal_log import DENIAL_PAUSE, NAMED_ADDRESSES, DenialLog
from reactor_trio.errors import ConnectionRefused, ManifestError, SessionEnded
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.testing import open_server

TOKEN, WATCH, KEY = "control-" + "t" * 16, "watching-" + "v" * 16, "k" * 32
AUTH = {"token": TOKEN, "viewer_token": WATCH, "ticket_keys": [KEY]}


class Picture(Output):
    main_video: Video


class Model(ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


def served(**runtime):
    return open_server(Model, **{"step_cost": 0.1, "auth": AUTH, **runtime})


async def status(server, **wishes):
    """101, or the status of the refusal."""
    try:
        async with server.connect(**wishes):
            return 101
    except ConnectionRefused as refused:
        return refused.status


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def ticket(**options):
    return issue_ticket(KEY, **options)


CREDENTIALS = {
    "nothing": lambda share: None,
    "unknown": lambda share: "x" * 40,
    "share link": lambda share: share,
    "viewer_token": lambda share: WATCH,
    "viewer ticket": lambda share: ticket(role="viewer"),
    "token": lambda share: TOKEN,
    "control ticket": lambda share: ticket(),
}
#: credential -> status as (control, viewer with viewers: anyone, with token, with none);
#: docs/operate/security.md shows the same
WITH_AUTH = {
    "nothing": (401, 401, 401, 401),
    "unknown": (401, 401, 401, 401),
    "share link": (403, 101, 101, 403),
    "viewer_token": (403, 101, 403, 403),
    "viewer ticket": (403, 101, 403, 403),
    "token": (101, 101, 403, 403),
    "control ticket": (101, 101, 403, 403),
}
WITHOUT = {
    "nothing": (101, 101, 401, 403),
    "unknown": (101, 401, 401, 403),
    "share link": (403, 101, 101, 403),
}
CASES = [(True, who, row) for who, row in WITH_AUTH.items()] + [(False, who, row) for who, row in WITHOUT.items()]


@pytest.mark.parametrize(("auth", "who", "row"), CASES, ids=[f"{'auth' if a else 'open'}-{who}" for a, who, _ in CASES])
async def test_each_credential_may_do_what_the_table_says(autojump_clock, auth, who, row):
    for column, viewers in enumerate(("anyone", "anyone", "token", "none")):
        async with served(viewers=viewers, auth=AUTH if auth else None) as server:
            async with server.connect(token=TOKEN) as player:
                show = CREDENTIALS[who](player.share_token)
                if column:
                    assert await status(server, role="viewer", token=show) == row[column], viewers
                    continue
                share = player.share_token  # void when its session is over, so it is tried beside it: there is a queue
                if row[0] != 101:
                    assert await status(server, token=CREDENTIALS[who](share)) == row[0]
            if not column and row[0] == 101:
                assert await status(server, token=CREDENTIALS[who](share)) == 101


async def test_a_token_in_the_header_is_as_good_and_the_query_goes_first(autojump_clock):
    async with served() as server:
        def schema(path, headers):
            return server.http(path, headers=headers).status

        assert schema("/schema", bearer(TOKEN)) == 200
        assert schema("/schema", {"Authorization": f"bearer   {TOKEN} "}) == 200
        assert schema("/schema", {"Authorization": f"Basic {TOKEN}"}) == 401
        assert schema("/schema", {"Authorization": TOKEN}) == 401
        assert schema("/schema", {"Authorization": "Bearer "}) == 401
        assert schema(f"/schema?token={TOKEN}", {}) == 200
        assert schema(f"/schema?token={TOKEN}", bearer("a-proxy-s-own")) == 200
        assert schema(f"/schema?token={TOKEN[:-1]}", bearer(TOKEN)) == 401


async def test_what_is_protected_and_what_is_not(autojump_clock):
    async with served() as server, server.connect(token=TOKEN) as player:
        def asked(path, token=None):
            return server.http(path, headers=bearer(token) if token else None).status

        for open_to_all in ("/", "/page/main.js", "/favicon.ico", "/health", "/ready"):
            assert asked(open_to_all) == 200
        refused = server.http("/schema")
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert refused.body.count(b"\n") == 1
        for good in (TOKEN, WATCH, ticket(), ticket(role="viewer"), player.share_token):
            assert asked("/schema", good) == 200
        for good in (TOKEN, WATCH):
            assert asked("/metrics", good) == 200
        assert [asked("/metrics", one) for one in (None, player.share_token, ticket())] == [401, 401, 403]


async def test_health_says_little_to_who_shows_nothing(autojump_clock):
    async with served() as server, server.connect(token=TOKEN) as player:
        def health(token=None):
            answer = server.http("/health", headers=bearer(token) if token else None)
            assert answer.status == 200
            return json.loads(answer.body)

        assert health() == {"status": "ok", "phase": "ready"}
        assert health("wrong" * 8) == {"status": "ok", "phase": "ready"}
        assert health(TOKEN)["role"] == "control"
        assert health(TOKEN)["model"] == "Model"
        for viewing in (WATCH, player.share_token, ticket(role="viewer")):
            assert health(viewing)["role"] == "viewer"
        server.runtime.metrics.stepped()
        server.runtime.metrics.step_stuck("12", True)
        for path in ("/health", "/ready"):
            assert server.http(path).status == 503
            assert b"Model" not in server.http(path).body
            assert b"session 12" in server.http(path, headers=bearer(TOKEN)).body
        server.runtime.metrics.step_stuck("12", False)
    async with served(auth=None) as server:
        open_health = json.loads(server.http("/health").body)
        assert open_health["model"] == "Model"
        assert "role" not in open_health


async def test_who_is_not_known_learns_nothing_of_the_model(autojump_clock):
    async with served() as server:
        for wishes in ({"model": "other"}, {"video": []}, {"role": "viewer"}):
            assert await status(server, **wishes) == 401
        assert await status(server, model="other", token=TOKEN) == 404


# Tickets


async def test_a_ticket_is_good_for_one_connection(autojump_clock):
    async with served() as server:
        once = ticket()
        assert await status(server, token=once) == 101
        assert await status(server, token=once) == 401
        assert server.http("/schema", headers=bearer(once)).status == 401


async def test_of_many_who_show_one_ticket_at_once_one_comes_in(autojump_clock):
    async with served() as server:
        once, found = ticket(), []

        async def come():
            found.append(await status(server, token=once))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(come)
        assert sorted(found) == [101] + [401] * 19


@pytest.mark.parametrize(
    ("runtime", "wishes", "refusal"),
    [
        ({"queue": 0}, {}, 503),
        ({}, {"model": "other"}, 404),
        ({"viewers": "none"}, {"role": "viewer"}, 403),
    ],
)
async def test_a_ticket_that_was_refused_for_another_reason_is_still_good(autojump_clock, runtime, wishes, refusal):
    async with served(**runtime) as server:
        once = ticket()
        async with server.connect(token=TOKEN):
            assert await status(server, token=once, **wishes) == refusal
            assert server.http("/schema", headers=bearer(once)).status == 200
            assert json.loads(server.http("/health", headers=bearer(once)).body)["role"] == "control"
        await trio.sleep(1)  # the other's session unwinds
        assert await status(server, token=once) == 101


async def test_of_two_who_come_at_once_for_one_place_the_one_who_is_refused_keeps_its_ticket(autojump_clock):
    async with served(queue=0, websocket=True) as server, trio.open_nursery() as nursery:
        waiting, tickets = trio.Event(), [ticket(), ticket()]
        refused: list[tuple[str, SessionEnded]] = []

        async def come(once):
            try:
                async with server.connect(token=once):
                    await waiting.wait()
            except SessionEnded as error:
                refused.append((once, error))

        for once in tickets:
            nursery.start_soon(come, once)
        await trio.sleep(1)
        ((once, error),) = refused
        assert (error.reason, str(error), error.code) == ("no_room", "no_room: the server is full", "full")
        assert b'reactor_requests_refused_total{status="503"} 1.0' in server.runtime.metrics.exposition()
        waiting.set()
        await trio.sleep(1)
        assert await status(server, token=once) == 101
        assert [await status(server, token=one) for one in tickets] == [401, 401]


async def test_a_viewers_ticket_is_kept_while_there_is_nothing_to_watch(autojump_clock):
    async with served() as server:
        once = ticket(role="viewer")
        assert await status(server, role="viewer", token=once) == 503
        assert await status(server, token=once) == 403
        async with server.connect(token=TOKEN):
            assert await status(server, role="viewer", token=once) == 101


async def test_what_a_ticket_says_reaches_the_conversation(autojump_clock):
    async with served() as server:
        hellos, real = [], server.runtime.session_manager.sender

        def sender(request, back_in=None):
            hellos.append(request)
            return real(request, back_in)

        server.runtime.session_manager.sender = sender
        async with server.connect(token=ticket(subject="ann", max_session=90)) as player:
            async with server.connect(role="viewer", token=player.share_token):
                pass
        ann, viewer = hellos
        assert (ann.claims.role, ann.claims.subject, ann.claims.session_length) == ("control", "ann", 90)
        assert (viewer.claims.role, viewer.claims.subject) == ("viewer", None)
        assert player.share_token not in repr(hellos)


# What is counted and logged


async def test_each_refusal_is_counted_by_its_reason(autojump_clock):
    async with served(viewers="none") as server:
        used = ticket()
        assert await status(server, token=used) == 101
        assert await status(server) == 401
        assert await status(server, token="x" * 40) == 401
        assert await status(server, token=used) == 401
        assert await status(server, token=WATCH) == 403
        assert server.http("/metrics").status == 401
        server.http("/health")  # asks for nothing that it may not have
        server.http("/health", headers=bearer("guess"))
        text = server.http("/metrics", headers=bearer(TOKEN)).body.decode()
        counts = {reason: float(text.partition(f'denied_total{{reason="{reason}"}} ')[2].partition("\n")[0])
                  for reason in ("missing", "wrong", "expired", "used", "not_allowed", "full")}  # fmt: skip
        assert counts == {"missing": 2, "wrong": 2, "expired": 0, "used": 1, "not_allowed": 1, "full": 0}


async def test_a_full_memory_of_tickets_refuses_for_now_and_is_counted(autojump_clock):
    async with served() as server:
        server.runtime.access._tickets._spent._most = 1
        assert await status(server, token=ticket()) == 101
        with pytest.raises(ConnectionRefused) as caught:
            async with server.connect(token=ticket()):
                pass
        assert (caught.value.status, caught.value.retry_after) == (503, 60)
        assert await status(server, token=TOKEN) == 101
        assert server.runtime.metrics._denials["full"] == 1


def test_an_address_is_named_once_a_minute_and_no_log_is_flooded(caplog):
    noted = DenialLog()
    for port in range(1000):
        noted.note(network_of(f"192.0.2.1:{port}"), "wrong", 10.0)
    (line,) = (record.getMessage() for record in caplog.records)
    assert line == "access: 192.0.2.1 was refused: wrong (further ones are counted)"
    caplog.clear()
    for host in range(300):
        noted.note(f"198.51.{host // 256}.{host % 256}", "wrong", 10.0 + DENIAL_PAUSE - 0.1)
    assert len(caplog.records) == NAMED_ADDRESSES - 1
    caplog.clear()
    noted.note("192.0.2.1", "wrong", 10.0 + DENIAL_PAUSE)
    assert [record.getMessage() for record in caplog.records] == [
        f"access: {999 + 300 - (NAMED_ADDRESSES - 1)} more requests were refused since",
        "access: 192.0.2.1 was refused: wrong (further ones are counted)",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


@pytest.mark.parametrize(
    ("peer", "network"),
    [("192.0.2.1:80", "192.0.2.1"), ("[2001:db8::1]:80", "2001:db8::/64"), ("[2001:db8::2]:9", "2001:db8::/64"),
     ("[::1]:80", "::1"), ("[fe80::1%eth0]:80", "fe80::/64"), ("memory", "memory"), ("unix", "unix"),
     ("[::ffff:192.0.2.1]:80", "192.0.2.1")],
)  # fmt: skip
def test_who_has_one_address_of_ipv6_has_them_all(peer, network):
    assert network_of(peer) == network


# Secrets of the manifest


def unusable(auth, monkeypatch=None):
    with pytest.raises(ManifestError) as caught:
        Access(AuthSettings(**auth), "sky")
    text = str(caught.value)
    assert "\n" not in text
    return text


SECRET = "a-secret-that-nobody-may-read-in-an-error"


def test_a_secret_may_come_from_the_environment_or_a_file(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("SKY_TOKEN", TOKEN)
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    file.chmod(0o600)
    access = Access(AuthSettings(token="env:SKY_TOKEN", ticket_keys=(f"file:{file}",)), "sky")
    assert access.check(TOKEN).ticket is None
    assert access.check(ticket()).ticket is not None
    assert caplog.records == []
    file.chmod(0o640)
    Access(AuthSettings(ticket_keys=(f"file:{file}",)), "sky")
    (warning,) = caplog.records
    assert warning.getMessage() == f"runtime.auth.ticket_keys[0]: others may read {file}; chmod 600 makes it yours alone"


def test_a_token_of_15_characters_is_refused_and_one_of_16_is_taken():
    assert unusable({"token": SECRET[:15]}).startswith("runtime.auth.token: 15 characters, a token needs 16 or more; make ")
    assert Access(AuthSettings(token=SECRET[:16]), "sky").check(SECRET[:16])


def test_a_key_of_31_bytes_is_refused_and_one_of_32_is_taken():
    text = unusable({"ticket_keys": (KEY, SECRET[:31])})
    assert text.startswith("runtime.auth.ticket_keys[1]: 31 bytes, a key needs 32 or more; make one: ")
    assert Access(AuthSettings(ticket_keys=(SECRET[:32],)), "sky").required


@pytest.mark.parametrize(
    ("auth", "text"),
    [
        ({}, "runtime.auth: no client could connect; "),
        ({"token": ""}, "runtime.auth.token: it is empty; make one: "),
        ({"token": "env:NOT_SET_ANYWHERE"}, "runtime.auth.token: the environment has no variable NOT_SET_ANYWHERE; set it"),
        ({"viewer_token": "file:/not/there"}, "runtime.auth.viewer_token: cannot read /not/there: No such file"),
        ({"viewer_token": "file:/"}, "runtime.auth.viewer_token: cannot read /: Is a directory"),
        ({"token": f"{SECRET} {SECRET}"}, "runtime.auth.token: a token may have visible ASCII characters only"),
        ({"token": f"é{SECRET}"}, "runtime.auth.token: a token may have visible ASCII characters only"),
        ({"token": SECRET, "viewer_token": SECRET}, "runtime.auth.viewer_token: the same as token; a client that has it would"),  # noqa: E501
        ({"ticket_keys": (f"-----BEGIN PUBLIC KEY-----{SECRET}-----END PUBLIC KEY-----",)},
         "runtime.auth.ticket_keys: a key that cannot sign: "),
    ],
)  # fmt: skip
def test_a_secret_that_cannot_be_used_is_an_error_that_names_the_key_and_not_the_secret(auth, text):
    told = unusable(auth)
    assert told.startswith(text)
    assert SECRET not in told


def test_an_empty_variable_and_an_empty_file_are_no_secret(monkeypatch, tmp_path):
    monkeypatch.setenv("EMPTY", " ")
    (tmp_path / "empty").write_text("\n")
    assert unusable({"token": "env:EMPTY"}).startswith("runtime.auth.token: the variable EMPTY is empty; make one: ")
    assert unusable({"token": f"file:{tmp_path}/empty"}).startswith(f"runtime.auth.token: {tmp_path}/empty is empty")


def test_settings_do_not_show_their_secrets():
    assert SECRET not in repr(AuthSettings(token=SECRET, ticket_keys=(SECRET,)))


async def test_an_upload_without_a_credential_does_not_learn_the_models_name(autojump_clock):
    async with served() as server:
        answer = server.http("/uploads", method="POST", headers={"Content-Length": "1"})
        assert (answer.status, answer.body) == (404, b"this model takes no files\n")
