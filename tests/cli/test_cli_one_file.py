"""A model in one file, without a manifest: `reactor run model.py`, other commands, and `run(Model)`, as real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import urllib.request

import pytest
import trio
from tests.support.cli_doubles import SKY, SOURCE, reactor, without_links
from tests.support.started_program import started_program

from reactor_trio import ReactorError, run
from reactor_trio.cli import main

FAILS = SKY.replace("        print(", "        raise ValueError('no weights')\n        print(", 1)
READY = r"is ready: (http://127\.0\.0\.1:\d+/)"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(SKY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def served(folder, *arguments):
    return started_program([sys.executable, *arguments], READY, cwd=folder, env=os.environ | {"PYTHONPATH": SOURCE})


def name_at(url):
    with urllib.request.urlopen(f"{url}schema") as answer:
        return json.load(answer)["name"]


@pytest.mark.parametrize(("place", "name"), [("model.py", "model"), ("model.py:Sky", "Sky")])
def test_a_file_is_served(folder, place, name):
    with served(folder, "-m", "reactor_trio", "run", place, "--port", "0", "--set", "size.width=3") as server:
        assert name_at(server.ready) == name
        assert "loaded with {'size': {'width': 3}}\n" in server.said
        assert server.said[0] == f"{name} will be ready at {server.ready} - its page shows the load\n"
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(120) == 0


NOT_READ = "reactor.yaml beside model.py is not read, nor is its auth; to serve with it: reactor run"


def test_a_manifest_beside_the_file_is_said_not_to_be_read(folder):
    (folder / "reactor.yaml").write_text("model: model:Sky\nname: sea\nruntime: {auth: {token: env:NOT_SET}}\n")
    with served(folder, "-m", "reactor_trio", "run", "model.py", "--port", "0") as server:
        assert name_at(server.ready) == "model"
        assert server.said[0] == f"{NOT_READ}\n"
        assert sum("not read" in line for line in server.said) == 1


@pytest.mark.parametrize("more", [[], ["--reload"], ["--replicas", "2"]], ids=["here", "reload", "replicas"])
def test_each_way_to_run_says_once_what_is_not_read(folder, more, monkeypatch, capsys):
    (folder / "reactor.yaml").write_text("model: model:Sky\n")
    for name in ("run_command.serve_here", "run_reloading.run_reloading", "run_replicated.run_replicated"):
        monkeypatch.setattr(f"reactor_trio.cli.{name}", lambda *_, **__: 0)
    for place, last in [("model.py", NOT_READ), (f"{folder}/model.py", NOT_READ)]:
        assert main(["run", place, *more]) == 0
        assert capsys.readouterr().out.replace(f"{folder}/", "") == f"{last}\n"
    monkeypatch.chdir(folder.parent)
    assert main(["run", f"{folder.name}/model.py", *more]) == 0
    assert capsys.readouterr().out == f"{NOT_READ} {folder.name}\n"
    assert main(["run", folder.name, *more]) == 0  # the folder, with its manifest
    assert capsys.readouterr().out == ""


def test_other_commands_take_a_file_too(folder, capsys):
    for arguments in (["schema", "model.py"], ["schema", "--path", "model.py"], ["types", "model.py"]):
        assert main(arguments) == 0
        assert "main_video" in capsys.readouterr().out
    assert main(["doctor", "model.py", "--json"]) in (0, 1)  # the default port may be in use
    findings = {found["check"]: found["text"] for found in json.loads(capsys.readouterr().out)}
    assert findings["manifest"] == f"{folder}/model.py: model"
    assert findings["model"] == "model: main_video (video out); 0 commands"
    assert main(["deploy", "--print", "serve", "model.py:Sky"]) == 0
    assert "path: /project/model.py:Sky\n" in capsys.readouterr().out
    assert main(["schema", "model.py:Sea"]) == 2
    assert without_links(capsys.readouterr().err).endswith("model.py has no class Sea; did you mean model.py:Sky?\n")
    assert main(["ticket", "model.py"]) == 2
    error = without_links(capsys.readouterr().err)
    assert error.startswith(f"reactor: {folder}/model.py: runtime.auth.ticket_keys: a ticket needs")


def test_a_file_is_rendered(folder):
    done = reactor("render", "model.py", "--frames", 2, "--out", folder / "pictures")
    assert done.returncode == 0, done.stderr
    assert len(list((folder / "pictures").rglob("*.png"))) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model.py", "--path", "."], "argument --path: not allowed with argument PATH; see reactor run --help"),
        (["modle.py"], "modle.py: no such file; did you mean model.py?"),
        (["model.py", "--gpus-per-replica", "1"], "--gpus-per-replica: give --replicas, too"),
        (["model.py", "--reload", "--replicas", "2"], "--reload: works with one process only; leave --replicas out"),
        (["none/model.py", "--reload"], "--path: none/model.py is not a folder, nor a file in one"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(folder, arguments, message, capsys):
    assert main(["run", "--port", "0", *arguments]) == 2
    error = without_links(capsys.readouterr().err)
    assert error.startswith("reactor: ")
    assert error.endswith(f"{message}\n")


def test_a_load_that_raises_names_the_line_of_the_file(folder):
    (folder / "model.py").write_text(FAILS)
    done = reactor("run", "model.py", "--port", "0")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1, "reactor: model: load() raised ValueError: no weights (model.py:12)",
    )  # fmt: skip


# --- run(Model) -------------------------------------------------------------------------------------------------------


def program(folder, call, model=SKY):
    text = f'{model}\nif __name__ == "__main__":\n    {call}\n    print("after run", flush=True)\n'
    (folder / "model.py").write_text(text)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_serves_the_class_of_a_program_until_a_signal(folder, number):
    program(folder, "run(Sky, port=0, fps=5, config={'width': 3})")
    with served(folder, "model.py") as server:
        assert name_at(server.ready) == "Sky"
        server.process.send_signal(number)
        assert server.process.wait(120) == 0
    said = "".join(server.said)
    first, _, said = said.partition("\n")
    assert re.fullmatch(r"Sky will be ready at http://127\.0\.0\.1:\d+/ - its page shows the load", first)
    assert said.startswith("loading Sky ...\nloaded with {'width': 3}\n")
    assert "draining Sky; a second signal ends at once\n" in said
    assert said.endswith("after run\n")


def test_run_places_the_class_of_a_program_in_a_process_of_its_own(folder):
    program(folder, "run(Sky, port=0, isolation='process')")
    with served(folder, "model.py") as server:
        (line,) = (line for line in server.said if line.startswith("model process"))
        assert int(line.split()[-1]) != server.process.pid
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(120) == 0
    assert "".join(server.said).endswith("after run\n")


@pytest.mark.parametrize(
    ("call", "model", "code", "message"),
    [
        ("run(Sky, prot=1)", SKY, 2, "runtime.prot: unknown key; did you mean runtime.port?"),
        ("run(Picture)", SKY, 2, "expected a model class, a subclass of ReactorPipeline, ReactorModel, ReactorApp or "),
        ("run(Sky, port=0)", FAILS, 1, "Sky: load() raised ValueError: no weights (model.py:12)"),
    ],
    ids=["option", "class", "load"],
)  # fmt: skip
def test_run_fails_in_one_line_with_the_exit_codes_of_the_command(folder, call, model, code, message):
    program(folder, call, model)
    with pytest.raises(AssertionError, match="did not start") as caught, served(folder, "model.py"):
        pass
    *_, last = str(caught.value).splitlines()
    assert last.startswith(f"reactor: {message}")
    assert "after run" not in str(caught.value)


def test_a_file_that_calls_run_unguarded_gets_an_error_that_says_so(folder, capsys):
    (folder / "model.py").write_text(f"{SKY}\nrun(Sky, port=0)\n")
    assert main(["schema", "model.py"]) == 2
    assert without_links(capsys.readouterr().err) == (
        f"reactor: {folder}/model.py: importing model raised ReactorError: run() was called while its file is imported; put "
        'the call under `if __name__ == "__main__":` (model.py:19)\n'
    )


def test_run_is_for_the_main_thread_of_a_program_without_trio():
    async def in_trio():
        run(None)

    with pytest.raises(ReactorError, match="a Trio program awaits serve"):
        trio.run(in_trio)
    found = []

    def in_thread():
        with pytest.raises(ReactorError, match="RuntimeHost serves in any thread"):
            run(None)
        found.append(True)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert found
