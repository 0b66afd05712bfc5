"""`reactor deploy --print`: its output, its required options, and its errors."""

from __future__ import annotations

import pytest
import yaml
from tests.support.cli_doubles import reactor

NEEDED = [
    "--image", "registry.example/sky:1", "--redis", "redis:6379", "--domain", "play.example.org", "--pods", "10.244.0.0/16",
]  # fmt: skip
MODEL = """\
from reactor_trio.interface import Output, ReactorPipeline, Video

print("imported")

class Picture(Output):
    main_video: Video

class Model(ReactorPipeline):
    output: Picture
    max_sessions = 3

    def load(self, config):
        raise RuntimeError("load was called")

    def inference(self):
        yield None
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "reactor.yaml").write_text(
        "model: model:Model\nname: sky\nconfig: config.yml\n"
    )
    (tmp_path / "config.yml").write_text("width: 64\n")
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def printed(project, *arguments):
    done = reactor("deploy", "--print", *arguments, "--path", project)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_is_one_stream_for_kubectl(project):
    kinds = [each["kind"] for each in yaml.safe_load_all(printed(project, *NEEDED))]
    assert kinds == ["RayService", "Service", "ConfigMap", "Deployment", "PodDisruptionBudget", "Service"]


def test_serve_alone_takes_the_number_of_sessions_from_the_model_without_loading_it(project):
    text = printed(project, "serve", "--set", "width=128", "--replicas", "4", "--advertise", "ws://{ip}:{port}")
    (application,) = yaml.safe_load(text)["applications"]
    replica, _gate = application["deployments"]
    assert (replica["num_replicas"], replica["max_ongoing_requests"]) == (4, 3)
    assert application["args"]["overrides"] == ["width=128"]
    assert application["args"]["advertise"] == "ws://{ip}:{port}"


def test_each_part_is_a_part_of_all(project):
    everything = printed(project, *NEEDED)
    assert everything.startswith(printed(project, "kuberay", *NEEDED))
    edge = printed(project, "edge", *NEEDED)
    (held,) = [each["data"]["haproxy.cfg"] for each in yaml.safe_load_all(everything) if each["kind"] == "ConfigMap"]
    assert held == edge


def test_min_and_max_turn_autoscaling_on(project):
    (application,) = yaml.safe_load(printed(project, "serve", "--min", "1", "--max", "9"))["applications"]
    scaling = application["deployments"][0]["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"], scaling["target_ongoing_requests"]) == (1, 9, 2.25)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "deploy only prints; read its output, then apply it: reactor deploy --print | kubectl apply -f -"),
        (["--print"], "--image: name the container image with the project in it, and Ray (docs/operate/cluster.md)"),
        (
            ["--print", "kuberay", "--image", "i"],
            "--redis: name a Redis, HOST:PORT, where Ray keeps its head's state; without it all sessions end 60 s after "
            "the head is lost",
        ),
        (
            ["--print", "edge"],
            "--domain: give the edge's host name, e.g. play.example.org; clients reach gate and replicas by it",
        ),
        (
            ["--print", "edge", "--domain", "play.example.org"],
            "--pods: give the network of the cluster's pods, e.g. 10.244.0.0/16; the edge connects to no other",
        ),
        (["--print", "serve", "--pods", "fd00::/8"], "--pods: 'fd00::/8' is not an IPv4 network such as 10.244.0.0/16"),
        (["--print", "serve", "--pods", "10.0.0.1/8"], "--pods: '10.0.0.1/8' is not an IPv4 network such as 10.244.0.0/16"),
        (["--print", "serve", "--max", "2"], "--min and --max: give both, --min not above --max"),
        (["--print", "serve", "--min", "3", "--max", "2"], "--min and --max: give both, --min not above --max"),
        (["--print", "serve", "--replicas", "1", "--min", "1"], "--replicas: give their number, or --min and --max"),
        (
            ["--print", "serve", "--gpus-per-replica", "1.5"],
            "argument --gpus-per-replica: '1.5' is not a number of GPUs: a whole one, or less than 1 to share one; "
            "see reactor deploy --help",
        ),
        (
            ["--print", "serve", "--redis", "redis://:secret@redis:6379"],
            "--redis: 'redis://:secret@redis:6379' is not HOST:PORT; put the password into a Secret (--redis-secret)",
        ),
        (
            ["--print", "serve", "--secret", "a\nb"],
            r"--secret: 'a\nb' is not a name of small letters, digits, dots and hyphens",
        ),
        (
            ["--print", "serve", "--domain", "play.example.org", "--advertise", "ws://{ip}:{port}"],
            "--advertise: with --domain, clients reach replicas through the edge; give one of the two",
        ),
        (
            ["--print", "serve", "--advertise", "play.example.org"],
            "runtime.advertise: expected an address such as wss://play.example.org/r/{ip}/{port}, got 'play.example.org'",
        ),
        (["--print", "serve", "--set", "height"], "--set height: expected key.sub=value"),
    ],
)
def test_missing_and_wrong_options_are_one_line_and_exit_code_2(project, arguments, line):
    done = reactor("deploy", *arguments, "--path", project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"reactor: {line}"


def test_a_manifest_that_contradicts_the_deployment_is_one_line(project):
    (project / "reactor.yaml").write_text("model: model:Model\nruntime: {max_sessions: 1, tls: {certfile: c.pem}}\n")
    done = reactor("deploy", "--print", *NEEDED, "--path", project)
    assert done.returncode == 2
    assert done.stderr == (
        f"reactor: {project}/reactor.yaml: runtime.tls: remove it; TLS ends at the edge, which speaks HTTP to gate and "
        "replicas\n"
    )
