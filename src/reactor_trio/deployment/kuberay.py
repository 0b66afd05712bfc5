"""KubeRay's manifest: a RayService that survives the loss of its head, with a worker for the gate and more for replicas."""

from __future__ import annotations

import json

from reactor_trio.deployment.choices import GATE_RESOURCE, Choices
from reactor_trio.deployment.ray_serve import serve_config
from reactor_trio.deployment.template_text import fill, quoted

#: Least seconds that workers wait for a lost head: KubeRay's default. Longer sessions make it longer.
_LEAST_PATIENCE = 600


def kuberay_manifest(choices: Choices) -> str:
    """Return the RayService and the gate's Service as YAML for `kubectl apply`."""
    share = choices.replicas_per_pod
    return fill(
        "kuberay.yaml",
        choices,
        image=quoted(choices.image),
        grace=choices.grace,
        patience=quoted(str(max(_LEAST_PATIENCE, choices.grace))),
        serve=serve_config(choices),
        autoscaled=str(choices.autoscaled).lower(),
        redis=quoted(choices.redis),
        redis_password=_password(choices.redis_secret),
        # KubeRay puts this value into a command line, so the JSON needs its own quotes.
        gate_resources=f"'{json.dumps(json.dumps({GATE_RESOURCE: 1}))}'",
        environment=_environment(choices.secret),
        least=choices.pods_for(choices.minimum),
        most=choices.pods_for(choices.maximum),
        pod_cpus=quoted(str(choices.cpus * share)),
        pod_gpus=quoted(str(choices.gpus_per_pod)),
        pod_memory=f"{choices.memory * share}Gi",
        gpu_share=f", nvidia.com/gpu: {choices.gpus_per_pod}" if choices.gpus_per_pod else "",
    )


def _password(secret: str | None) -> str:
    if secret is None:
        return "# Redis wants no password, so only these pods may reach it."
    return f"redisPassword:\n  valueFrom:\n    secretKeyRef: {{name: {secret}, key: password}}"


def _environment(secret: str | None) -> str:
    if secret is None:
        return "# envFrom: what the project's manifest has as env:NAME."
    return f"envFrom:\n  - secretRef: {{name: {secret}}}"
