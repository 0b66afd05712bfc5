"""The edge: HAProxy's configuration, and the same as a Deployment on Kubernetes.

Clients know one name and one certificate, replicas are pods that come and go. What a client was given as its address says
where its replica is, `/r/IP/PORT/`, so the edge has to know none of them, and has nothing that could be out of date. That an
address in a path must lead to replicas and nowhere else is what its rules are about.
"""

from __future__ import annotations

import hashlib
import math

from reactor_trio.deployment.choices import Choices
from reactor_trio.deployment.template_text import fill, quoted

__all__ = ["edge_config", "edge_manifest"]

_FOLDER = "/usr/local/etc/haproxy-certificate"
_HTTPS_PORT, _OWN_PORT = 8443, 8404


def edge_config(
    choices: Choices,
    *,
    gate: str | None = None,
    listen: str = f":{_HTTPS_PORT}",
    own: str = f":{_OWN_PORT}",
    certificate: str = f"{_FOLDER}/edge.pem",
    connections: int = 8000,
) -> str:
    """HAProxy's configuration.

    Args:
        choices: its pods and ports are where the edge connects.
        gate: HOST:PORT, None for that of the manifest's Service.
        listen: ADDRESS:PORT for clients.
        own: ADDRESS:PORT for `/health` and `/metrics` of the edge itself.
        certificate: PEM file, its key in it or beside it with `.key` at the end.
        connections: at most; each takes two descriptors.
    """
    first, last = choices.ports
    return fill(
        "edge.cfg",
        name=choices.name,
        maxconn=connections,
        silence=math.ceil(choices.silence),
        listen=listen,
        own=own,
        certificate=certificate,
        pods=choices.pods,
        first=first,
        last=last,
        gate=gate or f"{choices.name}-gate:{choices.gate_port}",
    )


def edge_manifest(choices: Choices) -> str:
    """The edge as ConfigMap, Deployment and Services, as YAML for `kubectl apply`."""
    config = edge_config(choices)
    return fill(
        "edge.yaml",
        name=choices.name,
        domain=choices.domain,
        config=config,
        config_name=f"{choices.name}-edge-{hashlib.sha256(config.encode()).hexdigest()[:8]}",
        grace=choices.grace,
        https_port=_HTTPS_PORT,
        own_port=_OWN_PORT,
        certificate=quoted(choices.certificate),
        certificate_folder=_FOLDER,
    )
