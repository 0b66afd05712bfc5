"""Each check of `reactor doctor` with a real good case and a real bad one, then the whole command."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import termios
import tomllib
from pathlib import Path

import pytest
import trustme
from tests.support.cli_doubles import ON_A_TERMINAL, SOURCE, reactor

from reactor_trio.cli import main
from reactor_trio.cli.doctor.installation import check_codecs, check_gpu, check_packages, check_python, our_metadata
from reactor_trio.cli.doctor.machine import check_clock, check_folder, check_port, check_reach, check_secrets
from reactor_trio.cli.doctor.project_checks import check_manifest, check_model, check_saves, check_weights
from reactor_trio.cli.doctor.tls_checks import check_tls
from reactor_trio.media import CodecSettings

GIB = 2**30


def verdicts(findings):
    return [finding.verdict for finding in findings]


@pytest.fixture
def project(tmp_path):
    assert reactor("init", "demo", cwd=tmp_path).returncode == 0
    return tmp_path / "demo"


# --- the installation -------------------------------------------------------------------------------------------------


@pytest.mark.needs("torch")
def test_python_and_packages_are_compared_with_our_own_metadata():
    python, requirements = our_metadata()
    assert check_python(python).verdict == "ok"
    assert any(requirement.startswith("trio<1,>=0.27") for requirement in requirements)
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    video = [f'{requirement}; extra == "video"' for requirement in project["optional-dependencies"]["video"]]
    (found,) = check_packages([*project["dependencies"], *video])
    assert found.verdict == "ok"
    assert re.search(r"^reactor-trio \d.*, trio \d.*, numpy \d.*, av \d.*, torch \d", found.text)


def test_another_python_is_a_problem():
    found = check_python(">=3.11", "3.10.2")
    assert (found.verdict, found.text) == ("problem", "3.10.2 is not in >=3.11")


@pytest.mark.parametrize(
    ("requirement", "verdict", "told"),
    [
        ("trio>=99", "problem", r"trio .* is not in >=99"),
        ("no-such-package-of-anyone>=1", "problem", r"no-such-package-of-anyone is missing"),
        ('no-such-package-of-anyone>=1; extra == "video"', "warning", r"no H.264"),
        ('no-such-package-of-anyone>=1; extra == "test"', "ok", r"reactor-trio"),
        ('trio>=99; python_version < "3"', "ok", r"reactor-trio"),
    ],
)
def test_a_missing_or_wrong_package_names_what_to_install(requirement, verdict, told):
    found = [finding for finding in check_packages([requirement]) if finding.verdict == verdict]
    assert len(found) == 1
    assert re.search(told, found[0].text)
    assert ("pip install" in found[0].remedy) == (verdict != "ok")


def test_every_encoder_is_opened():
    codecs, nvenc = check_codecs(CodecSettings())
    assert (codecs.check, codecs.verdict) == ("codecs", "ok")
    assert {"h264", "jpeg", "raw", "opus"} <= {part.split()[0] for part in codecs.text.split(", ")}
    assert (nvenc.check, nvenc.verdict) == ("nvenc", "ok")


def test_an_encoder_that_does_not_open_is_a_problem_that_names_it():
    *findings, _ = check_codecs(CodecSettings(preset="no_such_preset"))
    (bad,) = [finding for finding in findings if finding.verdict == "problem"]
    assert bad.text.startswith("h264 (libx264) does not encode: ")
    (good,) = [finding for finding in findings if finding.verdict == "ok"]
    assert "h264" not in good.text
    assert "jpeg" in good.text


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """Put a fake `nvidia-smi` first on the path."""

    def put(script):
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return put


def test_a_machine_without_a_gpu_is_fine(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (found,) = check_gpu()
    assert (found.verdict, found.text) == ("ok", "no NVIDIA card found; models run on the processor")


def test_a_gpu_that_torch_cannot_use_is_a_warning(nvidia_smi, monkeypatch):
    nvidia_smi("echo 'Some Card, 555.42'")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (found,) = check_gpu()
    assert found.verdict == "warning"
    assert found.text.startswith("driver sees Some Card, 555.42, but torch ")


def test_a_driver_that_fails_is_a_warning(nvidia_smi, monkeypatch):
    nvidia_smi("echo 'Driver/library version mismatch' >&2; exit 18")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    first, _ = check_gpu()
    assert (first.verdict, first.text) == ("warning", "nvidia-smi failed: Driver/library version mismatch")


# --- the machine ------------------------------------------------------------------------------------------------------

LIMITED = """
import resource, sys
resource.setrlimit(resource.{name}, ({soft}, {soft}))
from reactor_trio.cli.doctor.machine import check_limits
for found in check_limits(64, 64):
    print(found.verdict, found.text, found.remedy, sep="; ")
"""


@pytest.mark.parametrize(
    ("name", "soft", "told"),
    [
        ("RLIMIT_NOFILE", 255, "problem; 255 open files allowed, 256 needed for runtime.limits.connections 64; raise the "
         "hard limit, which is 255 (systemd: LimitNOFILE=256), or lower runtime.limits.connections\n"),
        ("RLIMIT_NOFILE", 256, "ok; 256 open files allowed, 256 needed for 64 connections; \n"),
        ("RLIMIT_AS", 8 * GIB, "warning; address space is limited to 8192 MiB, "),
    ],
)  # fmt: skip
def test_limits_of_the_system(name, soft, told):
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(name=name, soft=soft)], env=os.environ | {"PYTHONPATH": SOURCE},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.endswith(told) if told.endswith("\n") else told in done.stdout


@pytest.mark.parametrize(("name", "verdict"), [("tsc", "ok"), ("hpet", "warning"), (None, "ok")])
def test_the_clock(tmp_path, name, verdict):
    source = tmp_path / "current_clocksource"
    if name is not None:
        source.write_text(f"{name}\n")
    assert check_clock(source).verdict == verdict


def test_a_port_in_use_is_a_problem_and_a_free_one_is_not():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = check_port("127.0.0.1", port)
        assert (found.verdict, found.text) == ("problem", f"cannot listen on 127.0.0.1:{port}: Address already in use")
        assert "0 picks a free one" in found.remedy
    assert check_port("127.0.0.1", port).verdict == "ok"
    assert check_port("127.0.0.1", 0).verdict == "ok"


@pytest.mark.parametrize("host", ["203.0.113.7", "no such host"])
def test_an_address_of_another_machine_is_a_problem(host):
    found = check_port(host, 8080)
    assert found.verdict == "problem"
    assert "correct runtime.host" in found.remedy


@pytest.mark.parametrize(
    ("host", "hosts", "origins", "auth", "tls", "verdict"),
    [
        ("127.0.0.1", (), (), False, False, ["ok"]),
        ("::1", (), (), False, False, ["ok"]),
        ("localhost", ("gpu.example",), (), False, False, ["ok"]),
        ("192.0.2.1", (), (), False, False, ["warning"]),
        ("192.0.2.1", (), (), True, True, ["ok"]),
        ("192.0.2.1", (), (), True, False, ["ok", "warning"]),
        ("0.0.0.0", ("gpu.example",), (), False, True, ["warning", "ok"]),
        ("0.0.0.0", (), (), False, True, ["warning", "ok"]),
        ("127.0.0.1", (), ("*",), False, False, ["ok", "warning"]),
    ],
)
def test_access_from_other_machines(host, hosts, origins, auth, tls, verdict):
    assert verdicts(check_reach(host, hosts, origins, auth=auth, tls=tls)) == verdict


def test_a_writable_folder_and_one_that_can_be_created_are_fine(tmp_path):
    assert check_folder("uploads", tmp_path, 1).verdict == "ok"
    assert check_folder("recordings", tmp_path / "not" / "yet", 1).verdict == "ok"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["/proc", "/proc/not/yet"])
def test_a_read_only_folder_is_a_problem(folder):
    found = check_folder("uploads", Path(folder), 1)
    assert found.verdict == "problem"
    assert found.text.startswith("cannot write into /proc: ")


def test_a_small_disk_is_a_warning(tmp_path):
    assert check_folder("uploads", tmp_path, 2**60).verdict == "warning"


def test_secrets_must_be_closed_to_other_users(tmp_path):
    secret = tmp_path / "tickets.key"
    secret.write_text("x")
    auth = {"token": "env:SKY_TOKEN", "viewer_token": None, "ticket_keys": ["file:tickets.key", "a literal"]}
    secret.chmod(0o640)
    assert verdicts(check_secrets(auth, tmp_path)) == ["ok"]
    secret.chmod(0o644)
    (found,) = check_secrets(auth, tmp_path)
    assert found.verdict == "problem"
    assert found.text == f"runtime.auth.ticket_keys: every user of this machine may read {secret}"
    assert found.remedy == f"chmod 600 {secret}"
    secret.unlink()
    assert verdicts(check_secrets(auth, tmp_path)) == ["problem"]
    assert verdicts(check_secrets(None, tmp_path)) == []


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path):
    """Return a function that writes a certificate and its key to files."""
    authority = trustme.CA()

    def make(name, days):
        issued = authority.issue_cert(name, not_after=datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days))
        certfile, keyfile = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        certfile.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        keyfile.write_bytes(issued.private_key_pem.bytes())
        return certfile, keyfile

    return make


@pytest.mark.parametrize(("days", "verdict"), [(90, "ok"), (3, "warning"), (-1, "problem")])
def test_a_certificate_that_expires_soon_or_has_expired(certificate, days, verdict):
    assert check_tls(*certificate("a.example", days)).verdict == verdict


def test_certificate_and_key_must_match(certificate, tmp_path):
    (first, _), (_, other_key) = certificate("a.example", 90), certificate("b.example", 90)
    assert check_tls(first, other_key).text == f"{other_key} is not the key of {first}"
    assert check_tls(first, tmp_path / "none").text == f"no such file: {tmp_path / 'none'}"
    (tmp_path / "text").write_text("hello")
    assert check_tls(tmp_path / "text", None).verdict == "problem"


# --- the project ------------------------------------------------------------------------------------------------------


def test_a_good_project_is_checked_without_load(project, capsys):
    source = (project / "pipeline.py").read_text()
    text = 'print("imported")\n' + source.replace('self.width = config.get("width", 640)', "1 / 0")
    (project / "pipeline.py").write_text(text)
    manifest, found = check_manifest(project)
    assert found.verdict == "ok"
    found = check_model(manifest)
    assert (found.verdict, found.text) == ("ok", "pipeline:MyModel: main_video (video out); 1 command")
    assert capsys.readouterr().out == ""
    assert check_weights(manifest) is None


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        ("model: pipeline:MyModel\nruntime: {prot: 80}\n", "did you mean runtime.port?"),
        ("model: [\n", "reactor.yaml:2:1"),
        (None, "no such file"),
    ],
)
def test_a_broken_manifest_is_a_problem_that_names_the_place(tmp_path, manifest, told):
    if manifest is not None:
        (tmp_path / "reactor.yaml").write_text(manifest)
    nothing, found = check_manifest(tmp_path)
    assert nothing is None
    assert found.verdict == "problem"
    assert told in found.text


def test_keys_of_a_nested_manifest_without_effect_are_a_warning(project):
    nested = "model: {name: nested}\nruntime: {import: 'pipeline:MyModel'%s}\n"
    (project / "reactor.yaml").write_text(nested % "")
    assert check_manifest(project)[1].verdict == "ok"
    (project / "reactor.yaml").write_text(nested % ", step_results: {enabled: true}" + "recording: {enabled: true}\n")
    manifest, found = check_manifest(project)
    assert manifest is not None
    assert (found.verdict, found.text.partition(": ")[2], found.remedy) == (
        "warning", "without effect here: runtime.step_results, recording", "see docs/reference/model/migration.md",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import no_such_module_of_anyone\n", "no_such_module_of_anyone"),
        ("class Other: pass\n", "has no class MyModel"),
        ("raise SystemExit(3)\n", "SystemExit"),
    ],
)
def test_a_model_that_cannot_be_imported_is_a_problem(project, source, told):
    (project / "pipeline.py").write_text(source)
    manifest, _ = check_manifest(project)
    found = check_model(manifest)
    assert found.verdict == "problem"
    assert told in found.text


def test_the_module_finds_its_weights_while_it_is_imported_as_under_a_server(project, monkeypatch):
    monkeypatch.delenv("REACTOR_WEIGHTS_PATH", raising=False)
    with (project / "reactor.yaml").open("a") as file:
        file.write("weights_path: weights\n")
    source = (project / "pipeline.py").read_text()
    check = "from reactor_trio import get_weights_path\nassert get_weights_path().name == 'weights', get_weights_path()\n"
    (project / "pipeline.py").write_text(source + check)
    manifest, _ = check_manifest(project)
    found = check_model(manifest)
    assert found.verdict == "ok", found.text
    assert reactor("schema", "--path", project).returncode == 0


@pytest.mark.parametrize("saves", [False, True])
def test_lines_that_change_the_world_after_a_yield_are_named_if_worlds_are_saved(project, saves):
    (project / "pipeline.py").write_text(
        "from reactor_trio import Output, ReactorPipeline, Video\n"
        "from reactor_trio.interface import Saves\n"
        "class Picture(Output): main_video: Video\n"
        "class MyModel(ReactorPipeline):\n"
        "    output: Picture\n"
        + "    saves = Saves('place')\n" * saves
        + "    def inference(self):\n"
        "        while True:\n"
        "            yield None\n"
        "            self.place = 3\n"
    )
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\nname: walk\n")
    manifest, _ = check_manifest(project)
    assert check_model(manifest).verdict == "ok"
    found = check_saves(manifest)
    if not saves:
        assert found is None
        return
    assert (found.verdict, found.check) == ("warning", "saves")
    assert found.text == "pipeline.py:10 changes the world after the yield: `self.place = 3`"
    assert found.remedy == "change it before the yield: a moment is taken there, so a rewind repeats a frame"


def test_a_weights_folder_that_is_named_must_exist(project, monkeypatch):
    with (project / "reactor.yaml").open("a") as file:
        file.write("weights_path: weights\n")
    manifest, _ = check_manifest(project)
    found = check_weights(manifest)
    assert (found.verdict, found.text) == ("warning", f"there is no folder {project / 'weights'}")
    (project / "weights").mkdir()
    assert check_weights(manifest).verdict == "ok"
    monkeypatch.setenv("REACTOR_WEIGHTS_PATH", str(project / "elsewhere"))
    assert "REACTOR_WEIGHTS_PATH" in check_weights(manifest).remedy


# --- the command ------------------------------------------------------------------------------------------------------


def use_port(project, port):
    text = (project / "reactor.yaml").read_text()
    (project / "reactor.yaml").write_text(text.partition("runtime:")[0] + f"runtime:\n  port: {port}\n")


def test_on_a_pipe_each_finding_is_one_plain_line_and_all_well_is_exit_code_0(project):
    use_port(project, 0)
    done = reactor("doctor", "--path", project)
    *lines, summary = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert summary == "all is well" or re.fullmatch(r"\d+ warnings?", summary)
    assert {line.split()[1] for line in lines} >= {
        "python", "packages", "manifest", "model", "codecs", "nvenc", "gpu", "limits", "clock", "port", "access", "uploads",
    }  # fmt: skip
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_a_port_in_use_is_exit_code_1_and_in_the_json(project, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        use_port(project, taken.getsockname()[1])
        assert main(["doctor", "--path", str(project), "--json"]) == 1
    (bad,) = [finding for finding in json.loads(capsys.readouterr().out) if finding["verdict"] == "problem"]
    assert bad["check"] == "port"
    assert set(bad) == {"check", "verdict", "text", "remedy"}


def test_a_broken_manifest_is_exit_code_2_and_the_rest_is_still_checked(project, capsys):
    (project / "reactor.yaml").write_text("modle: pipeline:MyModel\n")
    assert main(["doctor", "--path", str(project), "--json"]) == 2
    found = {finding["check"]: finding["verdict"] for finding in json.loads(capsys.readouterr().out)}
    assert found["manifest"] == "problem"
    assert found["codecs"] == "ok"
    assert "model" not in found


def test_outside_a_project_only_the_installation_is_checked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--json"]) in (0, 1)  # the default port may be in use
    (manifest,) = [finding for finding in json.loads(capsys.readouterr().out) if finding["check"] == "manifest"]
    assert manifest["verdict"] == "ok"
    assert "no reactor.yaml here" in manifest["text"]


def test_on_a_terminal_it_is_coloured_and_folded(project):
    use_port(project, 0)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    shown = b""
    with subprocess.Popen(
        [sys.executable, "-m", "reactor_trio", "doctor", "--path", str(project)],
        env=ON_A_TERMINAL, stdout=theirs, stdin=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        os.close(theirs)
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
    os.close(ours)
    assert process.returncode == 0
    assert b"\x1b[32mok" in shown
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown.decode()).splitlines()
    assert max(map(len, plain)) <= 60
