"""Generates the files that run a project on a cluster: Ray Serve's configuration, KubeRay's manifest, and the edge's.

The functions are pure: they make texts from a project's manifest and a few choices (`Choices`). They neither contact a
cluster nor import Ray. `docs/operate/cluster.md` explains the deployment.
"""

from reactor_trio.deployment.choices import Choices, choices_for
from reactor_trio.deployment.haproxy import edge_config, edge_manifest
from reactor_trio.deployment.kuberay import kuberay_manifest
from reactor_trio.deployment.ray_serve import serve_config

__all__ = ["Choices", "choices_for", "edge_config", "edge_manifest", "kuberay_manifest", "serve_config"]
