"""The parameters of a deployment: what a person chooses, and what follows from the project's manifest."""

from __future__ import annotations

import ipaddress
import math
import re
from typing import Any

import msgspec

from reactor_trio.configuration.manifest import Manifest
from reactor_trio.configuration.settings import AuthSettings, Settings
from reactor_trio.errors import ManifestError

#: Seconds that a replica gets beyond the longest session when it shuts down: to start draining, to unwind, to report.
ROOM = 60
#: Seconds of the longest session if neither the manifest nor the command line limits it.
LONGEST_SESSION = 1800.0
#: The Ray resource that only the gate's worker has. It keeps the gate on that worker, where its Service finds it.
GATE_RESOURCE = "reactor_gate"


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one deployment of one project.

    Attributes:
        name: prefix of every object's name, a DNS label.
        image: the container image with the project, its requirements, and `reactor-trio[ray]`.
        project: the project's folder in the image.
        overrides: texts `key.sub=value` that override the project's `config.yml`.
        runtime: values that override the manifest's `runtime:` section.
        minimum: least number of replicas.
        maximum: greatest number of replicas; equal to `minimum` for a fixed number.
        slots: sessions that one replica serves at the same time.
        gpus: GPUs of one replica: a whole number, or less than 1 if several replicas share one.
        cpus: CPU cores of one replica.
        memory: memory of one replica in GiB.
        advertise: URL by which clients reach the replica at `{ip}` and `{port}`.
        domain: the edge's host name; None without an edge.
        pods: the IPv4 network of the cluster's pods. The edge connects to no other address.
        ports: first and last port of the replicas on one machine or pod.
        gate_port: the gate's port.
        max_session: longest session in seconds.
        silence: seconds without a byte in either direction after which the edge closes a connection.
        redis: `HOST:PORT` of the Redis that keeps the state of Ray's head.
        redis_secret: the Secret with Redis's password under the key `password`; None without a password.
        secret: the Secret whose keys become environment variables of gate and replicas, for the manifest's `env:NAME`.
        certificate: the Secret, of type `kubernetes.io/tls`, with the edge's certificate.
    """

    name: str
    image: str = ""
    project: str = "/project"
    overrides: tuple[str, ...] = ()
    runtime: dict[str, tuple[str, ...]] = {}
    minimum: int = 1
    maximum: int = 1
    slots: int = 1
    gpus: float = 1.0
    cpus: int = 2
    memory: int = 8
    advertise: str = "ws://{ip}:{port}"
    domain: str | None = None
    pods: str = ""
    ports: tuple[int, int] = (20000, 20999)
    gate_port: int = 8080
    max_session: float = LONGEST_SESSION
    silence: float = 60.0
    redis: str = ""
    redis_secret: str | None = None
    secret: str | None = None
    certificate: str = ""

    @property
    def grace(self) -> int:
        """Seconds that a replica or an edge pod gets to finish its last session before it is killed."""
        return math.ceil(self.max_session) + ROOM

    @property
    def autoscaled(self) -> bool:
        """Whether the number of replicas follows the number of sessions."""
        return self.maximum > self.minimum

    @property
    def replicas_per_pod(self) -> int:
        """As many replicas as share one GPU; otherwise each replica has its own pod."""
        return math.floor(1 / self.gpus + 1e-9) if 0 < self.gpus < 1 else 1

    @property
    def gpus_per_pod(self) -> int:
        """GPUs of one pod; Kubernetes assigns only whole GPUs."""
        return math.ceil(self.gpus)

    def pods_for(self, replicas: int) -> int:
        """Return the number of pods for `replicas` replicas."""
        return math.ceil(replicas / self.replicas_per_pod)


def choices_for(manifest: Manifest, *, slots: int, max_session: float | None = None, **chosen: Any) -> Choices:
    """Complete the choices for a project and check its manifest against them.

    With an edge, `runtime` gets the edge's host name and the pods' network, so that replicas trust requests from the edge.

    Args:
        manifest: the project's manifest.
        slots: sessions that one replica serves at the same time.
        max_session: longest session in seconds; None takes `runtime.limits.session_length`, or half an hour without one.
        chosen: more fields of `Choices`.

    Raises ManifestError if the manifest contradicts the choices.
    """
    settings, limits = manifest.settings, manifest.settings.limits
    name = _label(manifest.name)
    choices = Choices(
        name=name, slots=slots, silence=max(60.0, 3 * limits.ping_interval),
        max_session=max_session or limits.session_length or LONGEST_SESSION,
        **{"certificate": f"{name}-tls", **chosen},
    )  # fmt: skip
    wrong = None
    if limits.session_length > choices.max_session:
        wrong = (
            f"runtime.limits.session_length: {limits.session_length:g} s, but a replica that shuts down waits only "
            f"{choices.max_session:g} s for sessions; give --max-session {limits.session_length:g}"
        )
    elif choices.secret is None and (key := _from_environment(settings.auth)) is not None:
        wrong = f"{key}: is an environment variable, which pods do not have; name the Secret that has it with --secret"
    elif choices.domain is not None and settings.tls is not None:
        wrong = "runtime.tls: remove it; TLS ends at the edge, which speaks HTTP to gate and replicas"
    if wrong is not None:
        raise ManifestError(f"{manifest.source}: {wrong}")
    if choices.domain is None:
        return choices
    runtime = _known_at_the_edge(settings, choices.domain, choices.pods)
    return msgspec.structs.replace(choices, runtime=runtime)


def _known_at_the_edge(settings: Settings, domain: str, pods: str) -> dict[str, tuple[str, ...]]:
    """Return the manifest's `hosts` and `proxies` with the edge added.

    Clients of the edge use its host name, which replicas would refuse otherwise, and arrive from its address, which
    replicas would otherwise count as one client.
    """
    hosts, proxies = settings.hosts, settings.proxies
    if domain not in {host.lower() for host in hosts}:
        hosts = (*hosts, domain)
    if pods and not any(_holds(proxy, pods) for proxy in proxies):
        proxies = (*proxies, pods)
    return {"hosts": hosts, "proxies": proxies}


def _holds(network: str, part: str) -> bool:
    whole, piece = ipaddress.ip_network(network, strict=False), ipaddress.IPv4Network(part)
    return isinstance(whole, ipaddress.IPv4Network) and piece.subnet_of(whole)


def _from_environment(auth: AuthSettings | None) -> str | None:
    """Return the first auth key of the manifest whose secret is an environment variable."""
    if auth is None:
        return None
    secrets = [("token", auth.token), ("viewer_token", auth.viewer_token)]
    secrets += [(f"ticket_keys[{place}]", key) for place, key in enumerate(auth.ticket_keys)]
    return next((f"runtime.auth.{name}" for name, text in secrets if text is not None and text.startswith("env:")), None)


def _label(name: str) -> str:
    """Turn a name into a DNS label of at most 40 characters: suffixes are added to it, and KubeRay allows 47."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].rstrip("-")
    return label if label[:1].isalpha() else f"reactor-{label}".rstrip("-")
