"""The printed edge: HAProxy in front of real servers. Each path leads to its server, and no path leads anywhere else."""

from __future__ import annotations

import json
import signal
import socket
import subprocess

import pytest
import trio
from tests.support.edge_doubles import HAPROXY, PATIENCE, answer, ask, edge, frames, replica, ticket, told
from tests.support.fault_peers import reactor_run
from websockets.exceptions import ConnectionClosed, InvalidStatus

from reactor_trio.client import connect
from reactor_trio.deployment import Choices, edge_config

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="the edge is not tested: there is no haproxy here")

OTHER = """\
import numpy as np
from reactor_trio.interface import Output, ReactorPipeline, Video

class Picture(Output):
    main_video: Video

class Model(ReactorPipeline):
    output: Picture
    fps = 30

    def inference(self):
        while True:
            yield np.zeros((16, 16, 3), np.uint8)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two replicas on 127.0.0.1, where the edge may connect, and a gate on 127.0.1.1, where it may connect as gate only."""
    with replica("first") as first, replica("second") as second, replica("the-gate", host="127.0.1.1") as gate:
        ports = sorted((first.serving.port, second.serving.port))
        choices = Choices(name="sky", pods="127.0.0.0/24", ports=(ports[0], ports[1]), domain="play.example.org")
        folder = tmp_path_factory.mktemp("edge")
        with edge(folder, choices, gate=f"127.0.1.1:{gate.serving.port}") as running:
            running.first, running.second, running.gate = (host.serving.port for host in (first, second, gate))
            running.lowest, running.highest = ports
            yield running


def test_haproxy_finds_nothing_wrong_with_the_configuration(tmp_path, cluster):
    config = tmp_path / "edge.cfg"
    choices = Choices(name="sky", pods="10.244.0.0/16")
    pem = cluster.process.args[-1].replace("edge.cfg", "edge.pem")
    config.write_text(edge_config(choices, certificate=pem, gate="127.0.0.1:8080"))
    done = subprocess.run([HAPROXY, "-c", "-f", config], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0
    assert "WARNING" not in done.stdout + done.stderr
    assert "ALERT" not in done.stdout + done.stderr


def prefixes(cluster):
    """Which paths lead to which server."""
    first, second = f"/r/127.0.0.1/{cluster.first}", f"/r/127.0.0.1/{cluster.second}"
    return (first, "first"), (second, "second"), ("", "the-gate")


def test_each_path_leads_to_page_health_or_gate(cluster):
    status, text = cluster.ask(f"/r/127.0.0.1/{cluster.first}/")
    assert (status, "<!doctype html>" in text.lower()) == (200, True)
    assert cluster.ask(f"/r/127.0.0.1/{cluster.first}/health")[0] == 200
    assert cluster.ask("/health")[0] == 200
    for path, who in prefixes(cluster):
        status, text = cluster.ask(f"{path}/schema?token={ticket()}")
        assert (status, json.loads(text)["name"]) == (200, who)


def test_each_request_of_a_kept_connection_reaches_its_own_replica(cluster):
    with cluster.dial() as stream:
        for _ in range(5):
            for path, who in prefixes(cluster):
                assert json.loads(ask(stream, f"{path}/schema?token={ticket()}")[1])["name"] == who


def test_a_session_with_commands_frames_an_upload_and_a_share_link(cluster):
    with cluster.session(cluster.first, f"&token={ticket()}") as session:
        welcome = told(session, "reactor.welcome")
        assert welcome["name"] == "first"
        assert frames(session, 30) == 30
        with cluster.dial() as stream:
            status, text = ask(
                stream, f"/r/127.0.0.1/{cluster.first}/uploads?name=a.bin&mime_type=application/octet-stream", method="POST",
                body=b"x" * 300_000, Authorization=f"Bearer {welcome['upload_token']}",
            )  # fmt: skip
        assert status == 201, text
        uploaded = json.loads(text)
        session.send(json.dumps({"type": "show", "data": {"file": {"upload_id": uploaded["upload_id"]}}, "id": 1}))
        assert told(session, "reactor.ack")["reply"] == 300_000
        with cluster.session(cluster.first, f"&role=viewer&token={welcome['share_token']}") as viewer:
            assert told(viewer, "reactor.welcome")["role"] == "viewer"
            assert frames(viewer, 3) == 3


def test_a_lost_client_resumes_through_the_edge(cluster):
    with cluster.session(cluster.second, f"&token={ticket()}") as session:
        welcome = told(session, "reactor.welcome")
        frames(session, 2)
        session.socket.shutdown(socket.SHUT_RDWR)  # without a goodbye
    with cluster.session(cluster.second, f"&resume={welcome['resume_token']}&after=1") as again:
        back = told(again, "reactor.welcome")
        assert (back["resumed"], back["session_id"]) == (True, welcome["session_id"])
        assert frames(again, 2) == 2


async def test_the_python_client_watches_through_the_edge(cluster):
    url = f"wss://127.0.0.1:{cluster.port}/r/127.0.0.1/{cluster.first}/ws"
    context = cluster.trust
    context.check_hostname = False
    try:
        with trio.fail_after(PATIENCE):
            async with connect(url, token=ticket(), video=["raw"], ssl_context=context) as client:
                assert (await anext(aiter(client.frames()))).data.shape == (16, 16, 3)
    finally:
        context.check_hostname = True


NOWHERE = [
    "/r", "/r/", "/r/127.0.0.1", "/r/127.0.0.1/", "/r/127.0.0.1/{first}", "/r//{first}/", "/r/127.0.0.1//ws",
    # ports outside the replicas' range
    "/r/127.0.0.1/22/", "/r/127.0.0.1/0/", "/r/127.0.0.1/{below}/", "/r/127.0.0.1/{above}/", "/r/127.0.0.1/65536/",
    "/r/127.0.0.1/99999/", "/r/127.0.0.1/0{first}/", "/r/127.0.0.1/+{first}/", "/r/127.0.0.1/-{first}/",
    "/r/127.0.0.1/{first}.0/", "/r/127.0.0.1/{first}x/", "/r/127.0.0.1/{first}%20/", "/r/127.0.0.1/0x4e20/",
    "/r/127.0.0.1/{over}/",
    # addresses outside the pods' network
    "/r/127.0.1.1/{gate}/", "/r/127.0.1.1/{first}/", "/r/10.0.0.1/{first}/", "/r/169.254.169.254/{first}/",
    "/r/0.0.0.0/{first}/", "/r/255.255.255.255/{first}/",
    # other ways to write a pod's address
    "/r/127.0.0.01/{first}/", "/r/127.000.000.001/{first}/", "/r/0177.0.0.1/{first}/", "/r/0x7f.0.0.1/{first}/",
    "/r/127.1/{first}/", "/r/2130706433/{first}/", "/r/localhost/{first}/", "/r/127.0.0.1./{first}/",
    "/r/127.0.0.256/{first}/", "/r/[::1]/{first}/", "/r/::1/{first}/", "/r/::ffff:127.0.0.1/{first}/",
    "/r/[::ffff:127.0.0.1]/{first}/", "/r/127.0.0.1%00/{first}/", "/r/127%2e0%2e0%2e1/{first}/",
    "/r/127.0.0.1@127.0.1.1/{first}/", "/r/127.0.0.1:22/{first}/", "/r/127.0.0.1,127.0.1.1/{first}/",
    # and path traversal
    "/r/../r/127.0.0.1/{first}/", "/r/./127.0.0.1/{first}/", "/r/127.0.0.1/../{first}/", "/r/%2e%2e/127.0.0.1/{first}/",
    "/r/127.0.0.1/%2e%2e/22/", "/r//127.0.0.1/{first}/", "/r/127.0.0.1%2f{first}/", "/r/127.0.0.1;a/{first}/",
    "/r/127.0.0.1\\{first}/",
]  # fmt: skip


@pytest.mark.parametrize("path", NOWHERE)
def test_any_other_path_below_r_is_404(cluster, path):
    ports = {"below": cluster.lowest - 1, "above": cluster.highest + 1, "over": cluster.first + 65536}
    path = path.format(first=cluster.first, gate=cluster.gate, **ports)
    assert cluster.ask(path) == (404, "no such replica")


@pytest.mark.parametrize(
    "path", ["//r/10.0.0.1/22/", "/R/10.0.0.1/22/", "/x/../r/10.0.0.1/22/", "/%72/10.0.0.1/22/", "/./r/1.1.1.1/22/", "/rr"]
)
def test_paths_that_only_resemble_r_lead_to_the_gate(cluster, path):
    status, text = cluster.ask(path)
    assert status == 404
    assert text.startswith("not found; there are /")


def test_a_replicas_prefix_leads_to_its_own_paths_only(cluster):
    for rest in ("../../../etc/passwd", "..%2f..", "r/127.0.1.1/22/", "//127.0.1.1/", "page/../../x"):
        status, _ = cluster.ask(f"/r/127.0.0.1/{cluster.first}/{rest}")
        assert status == 404


def test_metrics_are_for_the_cluster_only(cluster):
    for path in ("/metrics", f"/r/127.0.0.1/{cluster.first}/metrics", f"/metrics?token={ticket()}"):
        assert cluster.ask(path) == (404, "not found")
    # written in another way it is another path, also for the server
    assert cluster.ask(f"/r/127.0.0.1/{cluster.first}/%6detrics")[0] == 404
    for path, status in (("/health", 200), ("/metrics", 200), ("/r/127.0.0.1/22/", 404)):
        with socket.create_connection(("127.0.0.1", cluster.own), PATIENCE) as stream:
            assert ask(stream, path, Connection="close")[0] == status


@pytest.mark.parametrize(
    "head",
    [
        # two lengths, or a length and chunks: the two ends disagree on where the next request begins
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Content-Length: 4, 5\r\n",
        "Content-Length: +4\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Content-Length : 4\r\n",
        " Content-Length: 4\r\n",
        "Host: other.example\r\n",
        "X: a\0b\r\n",
    ],
)
def test_an_ambiguous_request_smuggles_nothing_past_the_edge(cluster, head):
    smuggled = b"GET /r/127.0.0.1/22/ HTTP/1.1\r\nHost: play.example.org\r\n\r\n"
    with cluster.dial() as stream:
        path = f"/r/127.0.0.1/{cluster.first}/uploads"
        stream.sendall(f"POST {path} HTTP/1.1\r\nHost: play.example.org\r\n{head}\r\n".encode() + smuggled)
        status, _ = answer(stream)
        assert 400 <= status < 600
        # The rest was never a request, or one that the edge has checked; a server would answer something else.
        assert answer(stream) in ((0, ""), (404, "no such replica"))


def test_addresses_that_a_client_claims_are_not_trusted(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        choices = Choices(name="sky", pods="127.0.0.0/24", ports=(port, port))
        with edge(tmp_path, choices, gate="127.0.0.1:9") as running, running.dial() as stream:
            stream.sendall(
                f"GET /r/127.0.0.1/{port}/x?y=1 HTTP/1.1\r\nHost: play.example.org\r\nX-Forwarded-For: 10.9.8.7\r\n"
                "x-forwarded-for: 10.9.8.6\r\nX-Forwarded-Host: evil.example\r\nForwarded: for=10.9.8.5\r\n"
                "X-Forwarded-Proto: http\r\n\r\n".encode()
            )
            server.settimeout(PATIENCE)
            behind, _ = server.accept()
            with behind:
                received = b""
                while b"\r\n\r\n" not in received:
                    received += behind.recv(65536)
                heard = received.decode().lower().split("\r\n")
                behind.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                assert answer(stream)[0] == 200
    assert heard[0] == "get /x?y=1 http/1.1"
    forwarded = sorted(line for line in heard if "forwarded" in line)
    assert forwarded == ["x-forwarded-for: 127.0.0.1", "x-forwarded-proto: https"]
    assert "host: play.example.org" in heard


def test_no_two_clients_share_a_connection(tmp_path):
    """A client that desynchronises a connection can harm only itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        port = server.getsockname()[1]
        with edge(tmp_path, Choices(name="sky", pods="127.0.0.0/24", ports=(port, port)), gate="127.0.0.1:9") as running:
            behind = []
            for number in range(3):
                with running.dial() as stream:
                    head = f"GET /r/127.0.0.1/{port}/{number} HTTP/1.1\r\nHost: play.example.org\r\n\r\n"
                    stream.sendall(head.encode())
                    # On a shared connection no new one would arrive here.
                    behind.append(server.accept()[0])
                    assert behind[-1].recv(65536).startswith(f"GET /{number} ".encode())
                    behind[-1].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    assert answer(stream) == (200, "ok")
            for connection in behind:
                connection.close()


def test_tokens_are_not_in_its_log(cluster):
    secret = "token-" + "s" * 20
    cluster.ask(f"/r/127.0.0.1/{cluster.first}/schema?token={secret}")
    cluster.ask(f"/seen-last?token={secret}")
    log = cluster.log()
    assert "/schema 401" in log
    assert secret not in log


def test_a_missing_replica_is_503_at_once_and_other_sessions_continue(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    with replica("stays") as resumables, reactor_run(other, OTHER, hosts=["play.example.org"]) as dies:
        ports = sorted((resumables.serving.port, dies.port))
        choices = Choices(name="sky", pods="127.0.0.0/24", ports=(ports[0], ports[1]))
        with edge(tmp_path, choices, gate="127.0.0.1:9") as running:
            with running.session(resumables.serving.port, f"&token={ticket()}") as session:
                told(session, "reactor.welcome")
                with running.session(dies.port) as victim:
                    told(victim, "reactor.welcome")
                    dies.process.kill()
                    with pytest.raises(ConnectionClosed):
                        frames(victim, 100_000)
                dies.process.wait(PATIENCE)  # its listening socket is gone, too
                assert running.ask(f"/r/127.0.0.1/{dies.port}/health")[0] == 503
                with pytest.raises(InvalidStatus) as refused, running.session(dies.port):
                    pass
                assert refused.value.response.status_code == 503
                # tried once: a missing replica is still missing a second later
                assert running.metric('haproxy_backend_retry_warnings_total{proxy="replicas"}') == 0
                # and a missing gate is not tried again, either
                assert running.ask("/")[0] == 503
                assert frames(session, 60) == 60


def test_an_edge_that_shuts_down_takes_no_client_and_ends_with_its_last_session(tmp_path):
    with replica("only") as only:
        port = only.serving.port
        with edge(tmp_path, Choices(name="sky", pods="127.0.0.0/24", ports=(port, port)), gate="127.0.0.1:9") as running:
            with running.session(port, f"&token={ticket()}") as session:
                told(session, "reactor.welcome")
                running.process.send_signal(signal.SIGUSR1)
                while True:  # until it listens no more
                    try:
                        running.dial_plain().close()
                    except ConnectionResetError:  # it was in the line
                        continue
                    except ConnectionRefusedError:
                        break
                assert frames(session, 60) == 60
                assert running.process.poll() is None
            assert running.process.wait(PATIENCE) == 0
