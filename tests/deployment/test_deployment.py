"""The files for a cluster: their shape, and that their parts agree on ports, names and times."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.configuration.settings import address_of
from reactor_trio.deployment import (
    Choices,
    choices_for,
    edge_config,
    edge_manifest,
    kuberay_manifest,
    serve_config,
)  # fmt: skip
from reactor_trio.errors import ManifestError
from reactor_trio.replicas.options import manifest_of, parse_options

ROOT = Path(__file__).parents[2]
EDGE = Choices(
    name="sky", image="registry.example/sky:1", domain="play.example.org", advertise="wss://play.example.org/r/{ip}/{port}",
    pods="10.244.0.0/16", redis="redis:6379", max_session=600.0, certificate="sky-tls",
)  # fmt: skip
SCALED = Choices(
    name="sky", image="i", redis="r:1", minimum=1, maximum=8, slots=3, gpus=0.5, overrides=("title=a$b: {c}",),
    redis_secret="redis-password", secret="sky-tokens",
)  # fmt: skip


def documents(text: str) -> dict[str, dict]:
    """Return the YAML documents by kind and name."""
    return {f"{each['kind']} {each['metadata']['name']}": each for each in yaml.safe_load_all(text)}


def service(choices: Choices) -> dict:
    return documents(kuberay_manifest(choices))[f"RayService {choices.name}"]["spec"]


def groups(choices: Choices) -> dict[str, dict]:
    return {group["groupName"]: group for group in service(choices)["rayClusterConfig"]["workerGroupSpecs"]}


def pod_of(group: dict) -> tuple[dict, dict]:
    spec = group["template"]["spec"]
    (container,) = spec["containers"]
    return spec, container


# --- Ray Serve --------------------------------------------------------------------------------------------------------


def test_serve_has_one_application_with_gate_and_replicas():
    (application,) = yaml.safe_load(serve_config(EDGE))["applications"]
    assert application.pop("deployments") == [
        {
            "name": "replica", "num_replicas": 1, "max_ongoing_requests": 1, "max_queued_requests": -1,
            "graceful_shutdown_timeout_s": 660.0, "health_check_period_s": 1.0, "health_check_timeout_s": 3.0,
            "ray_actor_options": {"num_cpus": 2, "num_gpus": 1.0},
        },
        {
            "name": "gate", "num_replicas": 1, "graceful_shutdown_timeout_s": 5.0, "health_check_period_s": 1.0,
            "health_check_timeout_s": 3.0, "ray_actor_options": {"num_cpus": 1, "resources": {"reactor_gate": 1}},
        },
    ]  # fmt: skip
    assert application == {
        "name": "sky", "route_prefix": "/", "import_path": "reactor_trio.replicas.application:build",
        "args": {
            "path": "/project", "overrides": [], "runtime": {}, "replicas": 1, "gpus_per_replica": 1.0,
            "advertise": "wss://play.example.org/r/{ip}/{port}", "ports": "20000-20999", "host": "0.0.0.0",
            "gate_host": "0.0.0.0", "gate_port": 8080, "gate_resource": "reactor_gate", "max_session": 600.0,
        },
    }  # fmt: skip


def test_the_number_of_replicas_follows_the_sessions_if_autoscaled():
    (application,) = yaml.safe_load(serve_config(SCALED))["applications"]
    replica = application["deployments"][0]
    assert replica["autoscaling_config"] == {
        "min_replicas": 1, "max_replicas": 8, "target_ongoing_requests": 2.25, "upscale_delay_s": 2.0,
        "downscale_delay_s": 300.0, "look_back_period_s": 2.0, "metrics_interval_s": 1.0,
    }  # fmt: skip
    assert "num_replicas" not in replica
    assert replica["max_ongoing_requests"] == 3
    assert application["args"]["autoscaling"] == {"min": 1, "max": 8}
    assert "replicas" not in application["args"]
    assert application["args"]["overrides"] == ["title=a$b: {c}"]


@pytest.mark.parametrize("choices", [EDGE, SCALED])
def test_the_application_takes_its_arguments(choices):
    (application,) = yaml.safe_load(serve_config(choices))["applications"]
    options = parse_options(application["args"])
    assert (options.port_range[0], options.port_range[-1]) == choices.ports
    assert options.gate_port == choices.gate_port
    assert options.max_session == choices.max_session
    assert (options.autoscaling is not None) == choices.autoscaled


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray's own modules, as they are imported
@pytest.mark.parametrize("choices", [EDGE, SCALED])
def test_serve_accepts_the_configuration(choices):
    from ray.serve.schema import ServeDeploySchema

    checked = ServeDeploySchema.parse_obj(yaml.safe_load(serve_config(choices)))
    replica, gate = checked.applications[0].deployments
    assert (replica.name, gate.name) == ("replica", "gate")
    assert replica.graceful_shutdown_timeout_s == choices.grace
    assert replica.ray_actor_options.num_gpus == choices.gpus


# --- KubeRay ----------------------------------------------------------------------------------------------------------


def closed(required: tuple[str, ...] = (), **properties: object) -> dict:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


TEXT, WHOLE, TRUTH = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
QUANTITIES = {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}
ANY = {"type": "object"}
CONTAINER = closed(
    ("name", "image", "resources"),
    name=TEXT, image=TEXT, env={"type": "array", "items": closed(("name", "value"), name=TEXT, value=TEXT)},
    envFrom={"type": "array", "items": closed(secretRef=closed(("name",), name=TEXT))},
    ports={
        "type": "array", "items": closed(("containerPort",), name={"type": "string", "maxLength": 15}, containerPort=WHOLE),
    },
    lifecycle=ANY, readinessProbe=ANY, resources=closed(requests=QUANTITIES, limits=QUANTITIES), securityContext=ANY,
)  # fmt: skip
TEMPLATE = closed(
    ("spec",), metadata=closed(labels=TEXTS, annotations=TEXTS),
    spec=closed(("containers",), containers={"type": "array", "items": CONTAINER}, terminationGracePeriodSeconds=WHOLE),
)  # fmt: skip
PARAMETERS = {"type": "object", "additionalProperties": TEXT}
#: of the fields of KubeRay's CRD (ray.io/v1, operator 1.3 and later) those that are used, as it has them: an unknown one
#: would be dropped or refused by a cluster, a number where text is wanted refused
RAY_SERVICE = closed(
    ("serveConfigV2", "rayClusterConfig"),
    excludeHeadPodFromServeSvc=TRUTH, upgradeStrategy=closed(type={"enum": ["NewCluster", "None"]}),
    rayClusterDeletionDelaySeconds=WHOLE, serveConfigV2=TEXT,
    rayClusterConfig=closed(
        ("headGroupSpec",), rayVersion=TEXT, enableInTreeAutoscaling=TRUTH,
        gcsFaultToleranceOptions=closed(redisAddress=TEXT, redisPassword=closed(valueFrom=ANY)),
        headGroupSpec=closed(("rayStartParams", "template"), rayStartParams=PARAMETERS, template=TEMPLATE),
        workerGroupSpecs={"type": "array", "items": closed(
            ("groupName", "rayStartParams", "template"), groupName=TEXT, replicas=WHOLE, minReplicas=WHOLE,
            maxReplicas=WHOLE, rayStartParams=PARAMETERS, template=TEMPLATE,
        )},
    ),
)  # fmt: skip


@pytest.mark.parametrize("choices", [EDGE, SCALED])
def test_a_ray_service_has_the_fields_that_kuberay_knows(choices):
    found = documents(kuberay_manifest(choices))
    assert set(found) == {"RayService sky", "Service sky-gate"}
    assert found["RayService sky"]["apiVersion"] == "ray.io/v1"
    jsonschema.validate(found["RayService sky"]["spec"], RAY_SERVICE)


def test_a_ray_service_contains_the_configuration_of_serve():
    for choices in (EDGE, SCALED):
        assert yaml.safe_load(service(choices)["serveConfigV2"]) == yaml.safe_load(serve_config(choices))


def test_the_head_node_may_be_lost_and_serves_no_client():
    cluster = service(EDGE)["rayClusterConfig"]
    assert cluster["gcsFaultToleranceOptions"] == {"redisAddress": "redis:6379"}
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0", "num-gpus": "0"}
    assert service(EDGE)["excludeHeadPodFromServeSvc"] is True
    password = service(SCALED)["rayClusterConfig"]["gcsFaultToleranceOptions"]["redisPassword"]
    assert password == {"valueFrom": {"secretKeyRef": {"name": "redis-password", "key": "password"}}}
    _, container = pod_of(groups(EDGE)["replicas"])
    (patience,) = [each["value"] for each in container["env"] if each["name"] == "RAY_gcs_rpc_server_reconnect_timeout_s"]
    assert int(patience) >= EDGE.max_session


def test_pods_with_sessions_wait_for_the_longest_session():
    for choices in (EDGE, SCALED):
        grace = int(choices.max_session) + 60
        spec, container = pod_of(groups(choices)["replicas"])
        assert spec["terminationGracePeriodSeconds"] == grace
        assert service(choices)["rayClusterDeletionDelaySeconds"] == grace
        shell, option, command = container["lifecycle"]["preStop"]["exec"]["command"]
        assert (shell, option) == ("sh", "-c")
        assert "\n" not in command
        assert f"--deadline-remaining-seconds {grace};" in command
        (application,) = yaml.safe_load(serve_config(choices))["applications"]
        assert application["deployments"][0]["graceful_shutdown_timeout_s"] == grace
    edge = documents(edge_manifest(EDGE))["Deployment sky-edge"]
    assert edge["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == EDGE.grace


def test_a_pod_that_shuts_down_drains_its_node_and_waits_for_ray(tmp_path):
    """Runs the pod's command with a fake `ray`, and a /proc in which one process is Ray's."""
    *shell, command = pod_of(groups(EDGE)["replicas"])[1]["lifecycle"]["preStop"]["exec"]["command"]
    programs, processes = tmp_path / "bin", tmp_path / "proc"
    programs.mkdir()
    ray = programs / "ray"
    ray.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/told\nexit 1\n')
    ray.chmod(0o755)
    with subprocess.Popen(["sleep", "1000"]) as raylet, subprocess.Popen(["sleep", "1000"]) as bystander:
        for process, name in ((raylet, "raylet"), (bystander, "ray_worker")):
            (processes / str(process.pid)).mkdir(parents=True)
            (processes / str(process.pid) / "comm").write_text(f"{name}\n")
        environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
        hook = subprocess.Popen([*shell, command.replace("/proc", str(processes))], env=environment)
        with hook:
            with pytest.raises(subprocess.TimeoutExpired):
                hook.wait(1)
            raylet.kill()
            raylet.wait()
            assert hook.wait(120) == 0
        assert bystander.poll() is None
        bystander.kill()
    assert (tmp_path / "told").read_text().splitlines() == [
        "drain-node", "--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "the pod goes",
        "--deadline-remaining-seconds", "660",
    ]  # fmt: skip


def test_the_gates_service_finds_it_and_only_it_has_its_resource():
    found = documents(kuberay_manifest(EDGE))
    gate, replicas = groups(EDGE)["gate"], groups(EDGE)["replicas"]
    selector = found["Service sky-gate"]["spec"]["selector"]
    assert selector == gate["template"]["metadata"]["labels"] == {"app": "sky", "part": "gate"}
    assert not selector.items() <= replicas["template"]["metadata"]["labels"].items()
    # KubeRay puts this value into a shell's command line.
    assert gate["rayStartParams"]["resources"] == r'"{\"reactor_gate\": 1}"'
    assert "resources" not in replicas["rayStartParams"]
    _, container = pod_of(gate)
    (port,) = container["ports"]
    (served,) = found["Service sky-gate"]["spec"]["ports"]
    (application,) = yaml.safe_load(serve_config(EDGE))["applications"]
    assert port["containerPort"] == served["port"] == application["args"]["gate_port"] == 8080
    assert served["targetPort"] == port["name"] == container["readinessProbe"]["tcpSocket"]["port"]
    # The gate takes all of its worker, so that no replica runs there.
    options = application["deployments"][1]["ray_actor_options"]
    assert int(container["resources"]["limits"]["cpu"]) == options["num_cpus"]


@pytest.mark.parametrize(
    ("gpus", "pods", "cpus", "gpu_limit"),
    [(0.0, (1, 8), "2", None), (0.25, (1, 2), "8", 1), (0.5, (1, 4), "4", 1), (0.6, (1, 8), "2", 1), (1.0, (1, 8), "2", 1),
     (2.0, (1, 8), "2", 2)],
)  # fmt: skip
def test_pods_have_the_resources_of_their_replicas(gpus, pods, cpus, gpu_limit):
    group = groups(Choices(name="sky", image="i", redis="r:1", minimum=1, maximum=8, gpus=gpus))["replicas"]
    assert (group["minReplicas"], group["maxReplicas"]) == pods
    _, container = pod_of(group)
    for of in ("requests", "limits"):
        assert container["resources"][of].get("nvidia.com/gpu") == gpu_limit
        assert container["resources"][of]["cpu"] == cpus
    assert group["rayStartParams"] == {"num-cpus": cpus, "num-gpus": str(gpu_limit or 0)}


def test_passwords_are_in_secrets():
    for name in ("gate", "replicas"):
        assert pod_of(groups(SCALED)[name])[1]["envFrom"] == [{"secretRef": {"name": "sky-tokens"}}]
        assert "envFrom" not in pod_of(groups(EDGE)[name])[1]


def test_every_pod_kills_hanging_replicas_and_sends_no_usage_statistics():
    cluster = service(EDGE)["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        _, container = pod_of(group)
        given = {each["name"]: each["value"] for each in container["env"]}
        assert given["RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS"] == "1"
        assert given["RAY_USAGE_STATS_ENABLED"] == "0"
        assert given.get("RAY_worker_niceness") == (None if group is cluster["headGroupSpec"] else "0")
        assert container["image"] == EDGE.image


# --- the edge ---------------------------------------------------------------------------------------------------------


def test_the_edge_connects_where_replicas_listen_and_to_the_gates_service():
    config = edge_config(EDGE)
    (application,) = yaml.safe_load(serve_config(EDGE))["applications"]
    first, last = application["args"]["ports"].split("-")
    assert f"acl port var(txn.port) -m int {first}:{last}\n" in config
    assert "acl pod var(txn.ip) -m ip 10.244.0.0/16\n" in config
    found = documents(kuberay_manifest(EDGE))
    port = found["Service sky-gate"]["spec"]["ports"][0]["port"]
    assert f"server gate sky-gate:{port}\n" in config
    # The edge accepts the address that a client gets for its replica.
    address = address_of(application["args"]["advertise"], "10.244.3.7", int(first))
    assert address == "wss://play.example.org/r/10.244.3.7/20000"
    (pattern,) = re.findall(r"acl address path_reg '(.*)'", config)
    assert re.match(pattern, "/r/10.244.3.7/20000/ws")


def test_no_other_process_uses_the_replicas_ports():
    first, last = EDGE.ports
    assert 19_999 < first < last < 32_768, "Ray's workers below, what the system gives away above"


def test_a_silence_is_longer_than_the_time_between_pings():
    for silence in (60.0, 90.0):
        config = edge_config(Choices(name="sky", pods="10.0.0.0/8", silence=silence))
        assert re.findall(r"timeout (?:tunnel|client|server) (\d+)s", config) == [f"{silence:.0f}"] * 3
    assert "reload" not in re.sub(r"#.*", "", edge_config(EDGE))


def test_the_edge_on_kubernetes_is_put_together_by_its_names():
    found = documents(edge_manifest(EDGE))
    config = edge_config(EDGE)
    mark = hashlib.sha256(config.encode()).hexdigest()[:8]
    assert set(found) == {
        f"ConfigMap sky-edge-{mark}", "Deployment sky-edge", "PodDisruptionBudget sky-edge", "Service sky-edge"
    }  # fmt: skip
    assert found[f"ConfigMap sky-edge-{mark}"]["data"] == {"haproxy.cfg": config}
    deployment = found["Deployment sky-edge"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels == {"app": "sky", "part": "edge"}
    assert found["Service sky-edge"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget sky-edge"]["spec"]["selector"]["matchLabels"] == labels
    spec, container = pod_of(deployment)
    assert {volume["name"] for volume in spec["volumes"]} == {mount["name"] for mount in container["volumeMounts"]}
    config_volume, certificate_volume = spec["volumes"]
    assert config_volume["configMap"]["name"] == f"sky-edge-{mark}"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    (bound,) = re.findall(r"bind :(\d+) ssl crt (\S+) ", config)
    assert bound[0] == str(ports["https"])
    assert f"bind :{ports['own']}\n" in config
    folder = container["volumeMounts"][1]["mountPath"]
    files = [item["path"] for item in certificate_volume["secret"]["items"]]
    assert [f"{folder}/{name}" for name in files] == [bound[1], f"{bound[1]}.key"]
    assert certificate_volume["secret"]["secretName"] == "sky-tls"
    assert {probe: container[probe]["httpGet"] for probe in ("readinessProbe", "livenessProbe")} == {
        probe: {"path": "/health", "port": "own"} for probe in ("readinessProbe", "livenessProbe")
    }
    (served,) = found["Service sky-edge"]["spec"]["ports"]
    assert (served["port"], served["targetPort"]) == (443, "https")


def test_another_configuration_makes_new_pods():
    names = {next(iter(documents(edge_manifest(EDGE)))) for _ in range(2)}
    other = Choices(name="sky", domain="play.example.org", pods="10.0.0.0/8", certificate="sky-tls")
    assert len(names | {next(iter(documents(edge_manifest(other))))}) == 2


# --- choices and the manifest -----------------------------------------------------------------------------------------

GOOD = "hosts: [play.example.org], proxies: [10.244.0.0/15]"


def chosen(folder: Path, runtime: str = GOOD, name: str = "Sky", **options) -> Choices:
    (folder / "reactor.yaml").write_text(f"model: m:M\nname: {name}\nruntime: {{{runtime}}}\n")
    options = {"domain": "play.example.org", "pods": "10.244.0.0/16"} | options
    return choices_for(load_manifest(folder), slots=1, **options)


def test_the_manifest_says_how_long_sessions_last_and_how_often_they_ping(tmp_path):
    assert chosen(tmp_path).max_session == 1800
    limits = f"{GOOD}, limits: {{session_length: 300, ping_interval: 30, silence: 100}}"
    choices = chosen(tmp_path, limits)
    assert (choices.max_session, choices.grace, choices.silence) == (300, 360, 90)
    assert chosen(tmp_path, limits, max_session=400.5).grace == 461


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Sky", "sky"), ("sky_world.V2", "sky-world-v2"), ("42", "reactor-42"), ("x" * 60, "x" * 40), ("Ünï", "n"),
        ("日", "reactor"),
    ],
)  # fmt: skip
def test_a_name_becomes_a_dns_label(tmp_path, name, label):
    choices = chosen(tmp_path, name=f'"{name}"')
    assert (choices.name, choices.certificate) == (label, f"{label}-tls")
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", label)


@pytest.mark.parametrize(
    ("runtime", "options", "line"),
    [
        (f"{GOOD}, tls: {{certfile: c.pem}}", {}, "runtime.tls: remove it; TLS ends at the edge"),
        (f"{GOOD}, limits: {{session_length: 900}}", {"max_session": 600.0}, "runtime.limits.session_length: 900 s, but"),
        (f"{GOOD}, auth: {{ticket_keys: [file:k, 'env:SKY_KEY']}}", {}, "runtime.auth.ticket_keys[1]: is an environ"),
    ],
)  # fmt: skip
def test_a_manifest_that_contradicts_the_choices_is_one_line(tmp_path, runtime, options, line):
    with pytest.raises(ManifestError) as error:
        chosen(tmp_path, runtime, **options)
    assert str(error.value).startswith(f"{tmp_path}/reactor.yaml: {line}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("runtime", "hosts", "proxies"),
    [
        ("fps: 20", ("play.example.org",), ("10.244.0.0/16",)),
        (GOOD, ("play.example.org",), ("10.244.0.0/15",)),
        (
            "hosts: [other.example, PLAY.example.org], proxies: [10.244.1.0/24, '::/0']",
            ("other.example", "PLAY.example.org"), ("10.244.1.0/24", "::/0", "10.244.0.0/16"),
        ),
    ],
)  # fmt: skip
def test_replicas_know_the_edges_name_and_addresses(tmp_path, runtime, hosts, proxies):
    choices = chosen(tmp_path, runtime)
    (application,) = yaml.safe_load(serve_config(choices))["applications"]
    assert application["args"]["runtime"] == {"hosts": list(hosts), "proxies": list(proxies)}
    (tmp_path / "model.py").touch()
    options = parse_options(application["args"] | {"path": str(tmp_path)})
    settings = manifest_of(options).settings
    assert (settings.hosts, settings.proxies) == (hosts, proxies)


def test_without_an_edge_the_manifest_is_unchanged(tmp_path):
    choices = chosen(tmp_path, "tls: {certfile: c.pem}", domain=None, pods="")
    assert (choices.advertise, choices.runtime) == ("ws://{ip}:{port}", {})
    assert chosen(tmp_path, f"{GOOD}, auth: {{token: 'env:T'}}", secret="tokens").secret == "tokens"
