"""Ray Serve's configuration: one application with a gate and replicas, for `serve deploy` and for KubeRay.

To Serve, a session is one request that lasts as long as the session; `docs/operate/cluster.md` explains the time limits.
"""

from __future__ import annotations

from typing import Any

import yaml

from reactor_trio.configuration.ray_autoscaling import autoscaling_config
from reactor_trio.deployment.choices import GATE_RESOURCE, Choices

_HEAD = """\
# {name} on Ray Serve: one gate, and replicas that each listen on their own port. To Serve, a session is one request that
# lasts as long as the session: Serve scales, drains and replaces replicas by these requests. No frame passes through Serve.
"""


def serve_config(choices: Choices) -> str:
    """Return the configuration as YAML."""
    application = {
        "name": choices.name,
        # Serve's proxy on a worker becomes ready only if an application has a route. No request uses it.
        "route_prefix": "/",
        "import_path": "reactor_trio.replicas.application:build",
        "args": _arguments(choices),
        "deployments": [_replica(choices), _gate()],
    }
    text = yaml.safe_dump({"applications": [application]}, sort_keys=False, allow_unicode=True, width=1000)
    return _HEAD.format(name=choices.name) + text


def _arguments(choices: Choices) -> dict[str, Any]:
    number: dict[str, Any] = {"replicas": choices.minimum}
    if choices.autoscaled:
        number = {"autoscaling": {"min": choices.minimum, "max": choices.maximum}}
    return {
        "path": choices.project,
        "overrides": list(choices.overrides),
        "runtime": {name: list(value) for name, value in choices.runtime.items()},
        **number,
        "gpus_per_replica": choices.gpus,
        "advertise": choices.advertise,
        "ports": "{}-{}".format(*choices.ports),
        # All addresses of a pod, which only the cluster's network reaches.
        "host": "0.0.0.0",  # nosec B104
        "gate_host": "0.0.0.0",  # nosec B104
        "gate_port": choices.gate_port,
        "gate_resource": GATE_RESOURCE,
        "max_session": choices.max_session,
    }


def _replica(choices: Choices) -> dict[str, Any]:
    number: dict[str, Any] = {"num_replicas": choices.minimum}
    if choices.autoscaled:
        number = {"autoscaling_config": autoscaling_config(choices.slots, choices.minimum, choices.maximum)}
    return {
        "name": "replica",
        **number,
        "max_ongoing_requests": choices.slots,
        "max_queued_requests": -1,
        # After this time Serve kills a replica that shuts down, even one with sessions.
        "graceful_shutdown_timeout_s": float(choices.grace),
        "health_check_period_s": 1.0,
        "health_check_timeout_s": 3.0,
        "ray_actor_options": {"num_cpus": choices.cpus, "num_gpus": choices.gpus},
    }


def _gate() -> dict[str, Any]:
    return {
        "name": "gate",
        "num_replicas": 1,
        "graceful_shutdown_timeout_s": 5.0,
        "health_check_period_s": 1.0,
        "health_check_timeout_s": 3.0,
        "ray_actor_options": {"num_cpus": 1, "resources": {GATE_RESOURCE: 1}},
    }
