"""What a project needs to run on a cluster, as texts: the Ray Serve configuration, KubeRay's manifest, and the edge's.

Pure: texts from a project's manifest and a few choices (`Choices`), nothing is read from or done to a cluster, and Ray is
not imported. The theory of it is in `docs/guide/cluster.md`.
"""

from reactor_trio.deployment.choices import Choices, choices_for
from reactor_trio.deployment.haproxy import edge_config, edge_manifest
from reactor_trio.deployment.kuberay import kuberay_manifest
from reactor_trio.deployment.ray_serve import serve_config

__all__ = ["Choices", "choices_for", "edge_config", "edge_manifest", "kuberay_manifest", "serve_config"]
