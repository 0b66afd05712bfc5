"""What a deployment is made of: what the person chooses, and what the project's manifest says of it."""

from __future__ import annotations

import ipaddress
import math
import re
from typing import Any

import msgspec

from reactor_trio.configuration.manifest import MANIFEST_NAME, Manifest
from reactor_trio.configuration.settings import AuthSettings, Settings
from reactor_trio.errors import ManifestError

__all__ = ["Choices", "choices_for"]

#: Seconds that a replica which is to go gets beyond the longest session: to start draining, to unwind, to say so.
ROOM = 60
#: Seconds of the longest session where neither the manifest nor the command line says.
LONGEST_SESSION = 1800.0


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """One deployment of one project.

    Attributes:
        name: of everything made for it, a DNS label.
        image: the container image with the project, its requirements, and `reactor-trio[ray]`.
        project: the project's folder in the image.
        overrides: texts `key.sub=value` laid over the project's `config.yml`.
        runtime: laid over the manifest's `runtime:` section.
        minimum: replicas at least.
        maximum: replicas at most; as many as `minimum`: their number is fixed.
        slots: sessions that one replica serves at the same time.
        gpus: of one replica; less than 1 to let several share one, else a whole number.
        cpus: of one replica.
        memory: of one replica, in GiB.
        advertise: where clients find the replica at `{ip}` and `{port}`.
        domain: the edge's name, None without an edge.
        pods: the network of the cluster's pods, IPv4; only there the edge connects.
        ports: first and last port of the replicas of one machine or pod.
        gate_port: the gate's.
        max_session: seconds of the longest session.
        silence: seconds without a byte either way after which the edge takes a connection for dead.
        redis: where Ray keeps the state of its head, `HOST:PORT`.
        redis_secret: the Secret with its password under the key `password`, if it wants one.
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
        """Seconds that whatever carries sessions gets to let the last one end."""
        return math.ceil(self.max_session) + ROOM

    @property
    def autoscaled(self) -> bool:
        """Whether the number of replicas follows the sessions."""
        return self.maximum > self.minimum

    @property
    def gate_resource(self) -> str:
        """The resource of Ray that only the gate's own worker has, so that a Service finds it."""
        return "reactor_gate"

    @property
    def replicas_per_pod(self) -> int:
        """Of replicas that share a GPU as many as fit on one, otherwise each has a pod of its own."""
        return math.floor(1 / self.gpus + 1e-9) if 0 < self.gpus < 1 else 1

    @property
    def gpus_per_pod(self) -> int:
        """GPUs are given to pods whole."""
        return math.ceil(self.gpus)

    def pods_for(self, replicas: int) -> int:
        """How many pods so many replicas take."""
        return math.ceil(replicas / self.replicas_per_pod)


def choices_for(manifest: Manifest, *, slots: int, max_session: float | None = None, **chosen: Any) -> Choices:
    """The choices for a project; its manifest is held against them. With an edge replicas are told of it.

    Args:
        slots: sessions that one replica serves at the same time.
        max_session: seconds; None: what `runtime.limits.session_length` says, half an hour if that says nothing.
        chosen: more fields of `Choices`.

    Raises ManifestError for a manifest that does not fit to them.
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
            f"runtime.limits.session_length: {limits.session_length:g} s, longer than the longest session of "
            f"{choices.max_session:g} s that replicas wait for before they go; give --max-session {limits.session_length:g}"
        )
    elif choices.secret is None and (key := _from_environment(settings.auth)) is not None:
        wrong = f"{key}: stands in the environment, which pods do not share; name the Secret that has it with --secret"
    elif choices.domain is not None and settings.tls is not None:
        wrong = "runtime.tls: leave it out; TLS ends at the edge, which speaks HTTP with gate and replicas"
    if wrong is not None:
        raise ManifestError(f"{manifest.path / MANIFEST_NAME}: {wrong}")
    if choices.domain is None:
        return choices
    runtime = _known_at_the_edge(settings, choices.domain, choices.pods)
    return msgspec.structs.replace(choices, runtime=runtime)


def _known_at_the_edge(settings: Settings, domain: str, pods: str) -> dict[str, tuple[str, ...]]:
    """What the manifest has to say for clients that come by the edge, and what it says already.

    They call by its name, and come from its address: replicas that did not know would refuse them, or take all for one.
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
    """The first key of the manifest whose secret is a variable."""
    if auth is None:
        return None
    secrets = [("token", auth.token), ("viewer_token", auth.viewer_token)]
    secrets += [(f"ticket_keys[{place}]", key) for place, key in enumerate(auth.ticket_keys)]
    return next((f"runtime.auth.{name}" for name, text in secrets if text is not None and text.startswith("env:")), None)


def _label(name: str) -> str:
    """A name as Kubernetes takes it, with room behind it for what names are made of it; KubeRay takes 47 characters."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].rstrip("-")
    return label if label[:1].isalpha() else f"reactor-{label}".rstrip("-")
