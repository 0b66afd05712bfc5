"""Starts Ray on this machine for one application, or joins a cluster, and ends what it started.

Ray reads its environment variables when it is imported, so this module imports ray only after it has set them.
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
from reactor_trio.edge.own_addresses import page_urls
from reactor_trio.errors import ModelFailed, ReactorError
from reactor_trio.processors import usable_processors
from reactor_trio.replicas.options import Options

#: Seconds within which a cluster's head must accept a connection.
CONNECT = 5.0

#: Ray's environment: no usage statistics are sent, and Serve kills a replica that hangs instead of draining it.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS": "1",
    "RAY_SERVE_LOG_TO_STDERR": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
#: More variables for a Ray that we start on this machine. The node's address is 127.0.0.1, as on systems where Ray supports
#: no clusters. Ray's servers require a token, and end soon after the process that started them. The workers, which serve the
#: sessions, get niceness 0: Ray's default of 15 makes frames late whenever another process is busy.
LOCAL = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token", "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
    "RAY_worker_niceness": "0",
}  # fmt: skip


@contextmanager
def local_cluster(gpus: float) -> Iterator[str | None]:
    """Run Ray on this machine, on loopback only, while the block runs, and leave no process behind. Blocks for seconds."""
    os.environ.update(ENVIRONMENT, **LOCAL, RAY_AUTH_TOKEN=secrets.token_hex(32))
    import ray

    # Ray's Unix sockets need a short path.
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
    """Join the cluster at `address` while the block runs. Yields the name of the resource that only this node has.

    Raises ReactorError if no cluster answers.
    """
    os.environ.update(ENVIRONMENT)
    import ray

    host, colon, port = address.rpartition(":")
    try:
        if colon and port.isdecimal():  # Ray itself would retry for minutes
            socket.create_connection((host.rpartition("/")[2], int(port)), CONNECT).close()
        ray.init(address=address, logging_level=logging.WARNING, log_to_driver=True)
    except Exception as error:
        raise ReactorError(f"--ray-address {address}: no Ray cluster answers there: {error}") from None
    try:
        yield f"node:{ray.util.get_node_ip_address()}"
    finally:
        ray.shutdown()


class Application:
    """One Serve application on the Ray cluster of this process. All methods block.

    Args:
        name: the project's name. Each name is one application.
    """

    def __init__(self, name: str) -> None:
        self._name = re.sub(r"[^A-Za-z0-9_-]+", "-", name)

    def deploy(self, options: Options) -> None:
        """Start or update the application, and return when all of it runs.

        Raises ManifestError if the project is invalid, ModelFailed if the replicas cannot be started.
        """
        from ray import serve

        from reactor_trio.replicas.application import LOGGING, build

        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        application = build(msgspec.to_builtins(options))
        serve.start(proxy_location="Disabled", logging_config=LOGGING)
        try:
            serve.run(application, name=self._name, route_prefix=None, blocking=False)
        except RuntimeError as error:
            raise ModelFailed(f"the replicas cannot be started: {self._why(error)}") from None

    def urls(self, settings: Settings) -> list[str]:
        """Return the addresses of the gate on this machine: of the page, and for `connect`."""
        from ray import serve

        host, port = serve.get_app_handle(self._name).address.remote().result()
        return page_urls(host, port, secure=settings.tls is not None)

    def take_down(self) -> None:
        """End the application, and return when its replicas have drained."""
        from ray import serve

        serve.delete(self._name)

    def _why(self, error: Exception) -> str:
        """Return the exception's line of a deployment's traceback; if there is none, the first line of Serve's error."""
        from ray import serve

        application = serve.status().applications.get(self._name)
        for deployment in application.deployments.values() if application is not None else ():
            for line in reversed(deployment.message.splitlines()):
                found = re.search(r"(?:[\w.]+\.)?(?:ModelFailed|ManifestError|\w+Error): (.+)", line)
                if found is not None:
                    return found[1].strip()
        return str(error).strip().partition("\n")[0]
