"""The edge: an HAProxy configuration, and a Kubernetes Deployment that runs it.

Clients know one host name and one certificate, while replicas are pods that come and go. A client's URL contains the address
of its replica, `/r/IP/PORT/`, so the edge keeps no list of replicas that could be out of date. Its rules make sure that such
a path leads only to replicas.
"""

from __future__ import annotations

import hashlib
import math

from reactor_trio.deployment.choices import Choices
from reactor_trio.deployment.template_text import fill, quoted

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
    """Return HAProxy's configuration.

    Args:
        choices: `pods` and `ports` limit where the edge connects.
        gate: HOST:PORT of the gate; None takes the gate's Service.
        listen: ADDRESS:PORT for clients.
        own: ADDRESS:PORT for the edge's own `/health` and `/metrics`.
        certificate: PEM file with the key, or with the key beside it in a file of the same name plus `.key`.
        connections: most connections at the same time; each takes two descriptors.
    """
    return fill(
        "edge.cfg",
        choices,
        maxconn=connections,
        silence=math.ceil(choices.silence),
        listen=listen,
        own=own,
        certificate=certificate,
        first=choices.ports[0],
        last=choices.ports[1],
        gate=gate or f"{choices.name}-gate:{choices.gate_port}",
    )


def edge_manifest(choices: Choices) -> str:
    """Return the edge's ConfigMap, Deployment, PodDisruptionBudget and Service as YAML for `kubectl apply`."""
    config = edge_config(choices)
    return fill(
        "edge.yaml",
        choices,
        config=config,
        config_name=f"{choices.name}-edge-{hashlib.sha256(config.encode()).hexdigest()[:8]}",
        grace=choices.grace,
        https_port=_HTTPS_PORT,
        own_port=_OWN_PORT,
        certificate=quoted(choices.certificate),
        certificate_folder=_FOLDER,
    )
