"""`reactor types`: the types of a project's or a server's model, and whether a file of them is up to date."""

from __future__ import annotations

import socket
import threading
import urllib.request
from contextlib import contextmanager, suppress

import pytest
import trio
from tests.support.cli_doubles import reactor, without_links
from tests.support.real_server import real_server

from reactor_trio.cli import main

MODEL = """\
from reactor_trio.interface import InputField, InputState, ModelMessage, Output, ReactorPipeline, Video, event

print("imported")

class Picture(Output):
    main_video: Video

class Settings(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness")

class Progress(ModelMessage):
    step: int

class Painter(ReactorPipeline):
    state: Settings

    def load(self, config):
        if config.get("refuse", True):
            raise RuntimeError("load was called")

    @event
    def reset(self) -> None:
        '''Begin again.'''

    def inference(self):
        while True:
            yield None
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "reactor.yaml").write_text("model: pipeline:Painter\nname: painter\n")
    (tmp_path / "pipeline.py").write_text(MODEL)
    return tmp_path


def test_it_prints_typescript_without_loading(project):
    done = reactor("types", "--path", project)
    assert (done.returncode, done.stderr) == (0, "imported\n")
    assert done.stdout.startswith('// Types of the model "painter", made by `reactor types`.')
    assert "export const painter: ModelRef<Painter> = " in done.stdout
    assert done.stdout.endswith("\n")
    assert reactor("types", cwd=project).stdout == done.stdout
    assert reactor("types", "--language", "ts", cwd=project).stdout == done.stdout


def test_the_name_of_the_file_says_the_language_unless_an_option_does(project):
    for name, options, begins in (
        ("painter.ts", (), "// Types"),
        ("painter.py", (), '"""Types'),
        ("painter.txt", ("--language", "python"), '"""Types'),
        ("odd.py", ("--language", "ts"), "// Types"),
    ):
        done = reactor("types", "--out", name, *options, cwd=project)
        assert (done.returncode, done.stdout) == (0, "")
        assert (project / name).read_text().startswith(begins)
    printed = reactor("types", "--language", "python", cwd=project).stdout
    assert printed == (project / "painter.py").read_text() == (project / "painter.txt").read_text()


@pytest.mark.parametrize("name", ["painter.ts", "painter.py"])
def test_check_says_whether_the_file_is_up_to_date(project, name):
    assert reactor("types", "--out", name, cwd=project).returncode == 0
    before = (project / name).read_bytes()
    done = reactor("types", "--out", name, "--check", cwd=project)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "imported\n")
    (project / "pipeline.py").write_text(MODEL.replace("brightness", "contrast"))
    done = reactor("types", "--out", name, "--check", cwd=project)
    assert done.returncode == 1
    assert done.stdout.startswith(f"--- {name}\n+++ the model's types\n@@ ")
    removed, added = ([line for line in done.stdout.splitlines() if line.startswith(sign)] for sign in "-+")
    assert any("set_brightness" in line for line in removed)
    assert any("set_contrast" in line for line in added)
    assert done.stderr == (
        f"imported\nreactor: {name}: the model has other types now; make the file again with the same command "
        "without --check\n"
    )
    assert (project / name).read_bytes() == before


def test_check_sees_a_change_of_line_ends(project):
    reactor("types", "--out", "a.ts", cwd=project)
    text = (project / "a.ts").read_bytes()
    (project / "a.ts").write_bytes(text.replace(b"\n", b"\r\n"))
    assert reactor("types", "--out", "a.ts", "--check", cwd=project).returncode == 1


def test_a_file_that_is_missing_fails_the_check(project):
    done = reactor("types", "--out", "none.ts", "--check", cwd=project)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("reactor: none.ts: no such file; make it with the same command without --check\n")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--check",), "--check: name the file to check with --out"),
        (("--token", "t"), "--token: it is for a server; name the server with --url"),
        (
            ("--url", "http://127.0.0.1:1/", "--path", "."),
            "--path and --url: give the project's folder or the server, not both",
        ),
        (
            ("--url", "http://127.0.0.1:1/"),
            "http://127.0.0.1:1/: cannot connect to 127.0.0.1:1: Connection refused; does the server run?",
        ),
        (
            ("--url", "ftp://127.0.0.1/"),
            "'ftp://127.0.0.1/' is not a URL such as http://127.0.0.1:8080/ or ws://127.0.0.1:8080/ws",
        ),
        (("--out", "none/a.ts"), "--out: cannot write none/a.ts: No such file or directory"),
        (("--out", ".", "--check"), "--out: cannot read .: Is a directory"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(project, options, says):
    done = reactor("types", *options, cwd=project)
    assert done.returncode == 2
    assert done.stderr.removeprefix("imported\n") == f"reactor: {says}\n"


def test_folder_server_and_http_give_the_same_bytes(project):
    (project / "reactor.yaml").write_text(
        "model: pipeline:Painter\nname: painter\nconfig: config.yml\nruntime:\n  auth:\n    token: file:token\n"
    )
    (project / "token").write_text("secret-of-the-test")
    (project / "config.yml").write_text("refuse: false\n")
    with real_server(project) as url:
        for language, form in (("ts", "typescript"), ("python", "python")):
            local = reactor("types", "--language", language, cwd=project).stdout
            asked = urllib.request.Request(
                f"{url}schema?format={form}", headers={"Authorization": "Bearer secret-of-the-test"}
            )
            with urllib.request.urlopen(asked, timeout=60) as answer:
                assert answer.headers["content-type"] == "text/plain; charset=utf-8"
                assert answer.read().decode() == local
            websocket = url.replace("http", "ws") + "ws?token=secret-of-the-test"
            for where in (("--url", url, "--token", "secret-of-the-test"), ("--url", websocket)):
                assert reactor("types", "--language", language, *where, cwd="/").stdout == local
        refused = reactor("types", "--url", url)
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"reactor: {url}: the server answered 401: ")
        elsewhere = reactor("types", "--url", f"{url}elsewhere/", "--token", "secret-of-the-test")
        assert elsewhere.returncode == 2
        assert "elsewhere/: the server answered 404: not found; there are /, " in elsewhere.stderr


@contextmanager
def answering(*pieces: bytes):
    """The URL of a program that answers one request with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection, suppress(ConnectionError):
                connection.recv(65536)
                for piece in pieces:
                    connection.sendall(piece)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join()


def test_a_server_cannot_make_it_read_without_an_end(monkeypatch, capsys):
    monkeypatch.setattr("reactor_trio.cli.types_command.MOST_SCHEMA", 1000)
    with answering(b"HTTP/1.1 200 OK\r\n\r\n", *[b" " * 1000] * 100) as url:
        assert main(["types", "--url", url]) == 2
    where = url.removeprefix("http://").strip("/")
    told = f"reactor: {url}: {where} answered with more than 1000 bytes, which is not the schema of a model\n"
    assert without_links(capsys.readouterr().err) == told


def test_ctrl_c_while_it_connects_is_not_a_failure(monkeypatch, capsys):
    async def connecting(*_server):  # as anyio connects: by a task group
        async with trio.open_nursery():
            raise KeyboardInterrupt

    monkeypatch.setattr("reactor_trio.client.http_request.connect_stream", connecting)
    assert main(["types", "--url", "http://127.0.0.1:1/"]) == 130
    assert without_links(capsys.readouterr().err) == ""
