"""Starting Ray for one application on this machine, or joining a cluster, and ending what was started.

Ray reads its environment when it is imported, so nothing here imports it before it is set.
"""

from __future__ import annotations

import logging
import math
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.address_limits import page_urls
from reactor_trio.errors import ModelFailed, ReactorError
from reactor_trio.execution.processors import usable_processors
from reactor_trio.replicas.options import Options

#: Seconds in which a cluster's head must take a connection.
CONNECT = 5.0

#: Ray tells nobody that it runs, and ends a replica that hangs at once instead of draining it.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS": "1",
    "RAY_SERVE_LOG_TO_STDERR": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
#: And where it runs for us alone: it takes 127.0.0.1 for this node's address, as on systems where it knows no clusters, and
#: its servers want a token, and end soon after the one that started them. Its workers, which serve, give way to nobody: by
#: itself it makes them 15 nicer than the rest of the machine, and frames are late wherever anything else is busy.
LOCAL = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token", "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
    "RAY_worker_niceness": "0",
}  # fmt: skip


@contextmanager
def local_cluster(gpus: float) -> Iterator[str | None]:
    """Ray on this machine, on loopback alone, while the block lasts; no process of it is left. Blocks for seconds."""
    os.environ.update(ENVIRONMENT, **LOCAL, RAY_AUTH_TOKEN=secrets.token_hex(32))
    import ray

    # Its sockets need a short path.
    folder = tempfile.mkdtemp(prefix="reactor-ray-", dir="/tmp")  # nosec B108
    try:
        ray.init(
            address="local", include_dashboard=False, _temp_dir=folder,
            num_cpus=max(usable_processors(), 2), num_gpus=math.ceil(gpus) or None,
            logging_level=logging.WARNING, log_to_driver=True,
        )  # fmt: skip
        yield None
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def joined_cluster(address: str) -> Iterator[str]:
    """The cluster at `address` for as long as the block lasts; gives the resource that this node alone has.

    Raises ReactorError if there is none.
    """
    os.environ.update(ENVIRONMENT)
    import ray

    host, colon, port = address.rpartition(":")
    try:
        if colon and port.isdecimal():  # Ray itself tries for minutes
            socket.create_connection((host.rpartition("/")[2], int(port)), CONNECT).close()
        ray.init(address=address, logging_level=logging.WARNING, log_to_driver=True)
    except Exception as error:
        raise ReactorError(f"--ray-address {address}: no Ray cluster answers there: {error}") from None
    try:
        yield f"node:{ray.util.get_node_ip_address()}"
    finally:
        ray.shutdown()


class Application:
    """One application on the Ray that this process is part of; what it does blocks.

    Args:
        name: of the project; each name is one application.
    """

    def __init__(self, name: str) -> None:
        self._name = re.sub(r"[^A-Za-z0-9_-]+", "-", name)

    def deploy(self, options: Options) -> None:
        """Start it, or bring the one that runs up to date; returns when all of it is there.

        Raises ManifestError for what is wrong with the project, ModelFailed if the replicas cannot be started.
        """
        from ray import serve

        from reactor_trio.replicas.application import QUIET, build

        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        application = build(msgspec.to_builtins(options))
        serve.start(proxy_location="Disabled", logging_config=QUIET)
        try:
            serve.run(application, name=self._name, route_prefix=None, blocking=False)
        except RuntimeError as error:
            raise ModelFailed(f"the replicas cannot be started: {self._why(error)}") from None

    def urls(self, settings: Settings) -> list[str]:
        """Where clients call the gate, which is on this machine: the page, and what `connect` takes."""
        from ray import serve

        host, port = serve.get_app_handle(self._name).address.remote().result()
        return page_urls(host, port, secure=settings.tls is not None)

    def take_down(self) -> None:
        """End it; replicas drain first. Returns when they have."""
        from ray import serve

        serve.delete(self._name)

    def _why(self, error: Exception) -> str:
        """The last line of what a deployment says of itself, which is a traceback's; else the first of what Serve says."""
        from ray import serve

        application = serve.status().applications.get(self._name)
        for deployment in application.deployments.values() if application is not None else ():
            for line in reversed(deployment.message.splitlines()):
                found = re.search(r"(?:[\w.]+\.)?(?:ModelFailed|ManifestError|\w+Error): (.+)", line)
                if found is not None:
                    return found[1].strip()
        return str(error).strip().partition("\n")[0]
