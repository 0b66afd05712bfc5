"""The files of `deploy/`, as far as a machine without containers can check them: by installed tools, and by names."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from reactor_trio.cli import main
from reactor_trio.cli.command_parser import build_parser, parse
from reactor_trio.cli.serving import manifest_of
from reactor_trio.cli.terminal import Terminal
from reactor_trio.configuration.settings import ManagementSettings, Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SYSTEMD = shutil.which("systemd-analyze")
#: Of 10.0; a service without restrictions has 9.6.
MOST_EXPOSURE = 2.0

UNIT = (DEPLOY / "reactor.service").read_text(encoding="utf-8")
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
GPU = (DEPLOY / "gpu" / "Dockerfile").read_text(encoding="utf-8")
SPACE = DEPLOY / "huggingface"


def unit_value(key: str) -> str:
    (value,) = re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)
    return value


# --- systemd ----------------------------------------------------------------------------------------------------------

needs_systemd = pytest.mark.skipif(SYSTEMD is None, reason="the unit is not checked: there is no systemd-analyze here")


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    program = tmp_path / "reactor"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "reactor.service"
    unit.write_text(UNIT.replace("/opt/reactor/venv/bin/reactor", str(program)))
    question = [SYSTEMD, "verify", "--man=no", str(unit)]
    done = subprocess.run(question, capture_output=True, text=True, timeout=120, check=False)
    # Ignore warnings about other units of this machine.
    told = [line for line in done.stderr.splitlines() if "reactor" in line]
    assert (done.returncode, told) == (0, [])


@needs_systemd
def test_systemd_rates_the_units_exposure_as_low():
    most = f"--threshold={MOST_EXPOSURE * 10:.0f}"
    question = [SYSTEMD, "security", "--offline=true", most, "--no-pager", str(DEPLOY / "reactor.service")]
    done = subprocess.run(question, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr


#: How the pages and the comments of deploy/ say how long a supervisor waits after SIGTERM.
WAIT = "drain_notice + drain_grace + stuck_after"


def most_seconds_to_stop() -> float:
    """The drain, the step that is then abandoned, and the time until the watchdog looks, each quarter of its limit."""
    settings = Settings()
    return settings.drain_notice + settings.drain_grace + settings.stuck_after + settings.watchdog / 4


def test_every_page_and_file_says_the_same_time_to_stop():
    files = ["reactor.service", "compose.yaml", "kubernetes.yaml", "Dockerfile", "gpu/Dockerfile"]
    pages = [ROOT / "docs" / "operate" / name for name in ("deploying.md", "operating.md", "remote.md")]
    for path in [*(DEPLOY / name for name in files), *pages]:
        text = re.sub(r"[\s#*`]+", " ", path.read_text(encoding="utf-8"))
        (more,) = set(re.findall(rf"{re.escape(WAIT)}[^.]*? (\d+) s more", text))
        assert float(more) >= Settings().watchdog / 4, path
        assert len(re.findall(re.escape(WAIT), text)) == len(re.findall(rf"{re.escape(WAIT)}[^.]*? \d+ s more", text)), path


def test_the_units_times_and_codes_are_the_runtimes():
    settings = Settings()
    assert float(unit_value("TimeoutStopSec")) > most_seconds_to_stop()
    assert unit_value("KillSignal") == "SIGTERM"
    assert unit_value("RestartPreventExitStatus") == "2"
    assert int(unit_value("LimitNOFILE")) >= 2 * settings.limits.connections + settings.uploads.files + 64


def test_the_command_lines_parse():
    program, *arguments = shlex.split(unit_value("ExecStart"))
    assert program.endswith("/reactor")
    assert parse(arguments).json_logs
    for text in (DOCKERFILE, GPU):
        (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
        assert parse(yaml.safe_load(command)).host == "0.0.0.0"


# --- containers -------------------------------------------------------------------------------------------------------


def test_the_image_is_built_from_files_that_exist_and_runs_as_its_own_user():
    for files in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE):
        for name in files.split():
            assert (ROOT / name).exists()
            assert f"!{name}" in (ROOT / ".dockerignore").read_text().splitlines()
    *_, user = re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)
    assert user.isdecimal()
    assert user != "0"
    assert "STOPSIGNAL SIGTERM" in DOCKERFILE
    (python,) = re.findall(r"^ARG PYTHON=python:(\d\.\d+)-", DOCKERFILE, re.MULTILINE)
    assert f"Python :: {python}" in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("text", [DOCKERFILE, GPU], ids=["plain", "gpu"])
def test_the_images_health_check_requests_health(text):
    (check,) = re.findall(r"^HEALTHCHECK .*\\\n +CMD (\[.*\])$", text, re.MULTILINE)
    program, option, source = yaml.safe_load(check)
    assert (program, option) == ("python", "-c")
    compile(source, "HEALTHCHECK", "exec")
    assert "/health" in source


def test_the_image_with_a_gpu_asks_for_its_encoder_and_runs_as_its_own_user():
    (capabilities,) = re.findall(r"NVIDIA_DRIVER_CAPABILITIES=(\S+)", GPU)
    assert "video" in capabilities.split(",")
    assert re.findall(r"^USER (.*)$", GPU, re.MULTILINE) == ["10001"]
    assert "--uid 10001" in GPU


def test_a_space_has_one_port_its_own_user_and_the_settings_for_its_proxy(capsys):
    """Its command line is run by a shell, which fills in the Space's name."""
    text = (SPACE / "Dockerfile").read_text(encoding="utf-8")
    head = yaml.safe_load((SPACE / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert (head["sdk"], head["app_port"]) == ("docker", 7860)
    assert f"EXPOSE {head['app_port']}\n" in text
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["1000"]
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    shell, option, line = yaml.safe_load(command)
    assert (shell, option) == ("sh", "-c")
    for host, accepted in (("ann-sky.hf.space", "ann-sky.hf.space"), (None, "localhost")):
        environment = {} if host is None else {"SPACE_HOST": host}
        words = subprocess.run(
            [shell, option, line.replace("exec reactor", "printf '%s\\n'")], env=environment, capture_output=True, text=True,
            check=True,
        ).stdout.splitlines()  # fmt: skip
        options = parse([*words, "--path", str(SPACE)])
        settings = manifest_of(options, Terminal()).settings
        assert (settings.host, settings.port, settings.hosts) == ("0.0.0.0", head["app_port"], (accepted,))
        assert settings.frame_ancestors == ("https://huggingface.co",)
    assert main(["schema", str(SPACE)]) == 0
    assert "set_brightness" in capsys.readouterr().out


def test_compose_mounts_files_that_exist():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"model", "prometheus", "grafana"}
    build = services["model"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
    for service in services.values():
        for volume in service["volumes"]:
            # ${NAME:-default} stands for its default
            source = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", volume).partition(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "published wider than loopback"
    seconds = float(services["model"]["stop_grace_period"].removesuffix("s"))
    assert seconds > most_seconds_to_stop()


def test_grafana_and_prometheus_find_each_other():
    (source,) = yaml.safe_load((DEPLOY / "grafana" / "datasource.yml").read_text())["datasources"]
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    host = re.fullmatch(r"http://(\w+):9090", source["url"])[1]
    assert services["prometheus"]["network_mode"] == f"service:{host}"
    (provider,) = yaml.safe_load((DEPLOY / "grafana" / "dashboards.yml").read_text())["providers"]
    targets = [volume.split(":")[1] for volume in services["grafana"]["volumes"]]
    assert any(target.startswith(provider["options"]["path"]) for target in targets)


def test_kubernetes_probes_drain_and_rights():
    deployment, service = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/health", "liveness": "/health", "readiness": "/ready",
    }  # fmt: skip
    # The server refuses an unknown host name, such as a pod's address.
    assert all({"name": "Host", "value": "localhost"} in probe["httpHeaders"] for probe in probes.values())
    port, management = container["ports"]
    assert all(probe["port"] == management["name"] for probe in probes.values())
    assert f"0.0.0.0:{management['containerPort']}" == container["args"][container["args"].index("--management") + 1]
    assert management["containerPort"] == ManagementSettings().port
    assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]], "no client reaches the other port"
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == {"app": "reactor"}
    assert port["containerPort"] == Settings().port
    assert pod["terminationGracePeriodSeconds"] > most_seconds_to_stop()
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip


def test_nginx_passes_websockets_on_without_buffering_and_logs_no_tokens():
    text = (DEPLOY / "nginx.conf").read_text()
    for line in (
        "proxy_http_version 1.1;", "proxy_set_header Host $http_host;", "proxy_set_header Upgrade $http_upgrade;",
        "proxy_buffering off;", "proxy_request_buffering off;", "access_log /var/log/nginx/reactor.log without_query;",
    ):  # fmt: skip
        assert line in text
    (mebibytes,) = re.findall(r"client_max_body_size (\d+)m;", text)
    assert int(mebibytes) << 20 == Settings().uploads.file_size
    (seconds,) = re.findall(r"proxy_read_timeout (\d+)s;", text)
    assert float(seconds) > 2 * Settings().limits.ping_interval
    (log_format,) = re.findall(r"log_format without_query '(.*)';", text)
    assert "$request_uri" not in log_format
    assert not re.search(r"\$request\b(?!_)", log_format)


# --- what the page says -----------------------------------------------------------------------------------------------


def test_the_page_names_every_file_and_only_options_that_exist():
    page = (ROOT / "docs" / "operate" / "deploying.md").read_text(encoding="utf-8")
    for file in (path for path in DEPLOY.iterdir() if path.is_file()):
        assert f"deploy/{file.name}" in page, file.name
    options = build_parser().format_help()
    for command in ("run", "doctor"):
        with pytest.raises(SystemExit):
            build_parser().parse_args([command, "--help"])
    assert "doctor" in options
    for key in re.findall(r"`runtime\.(\w+)", page):
        assert key in Settings.__struct_fields__, key
