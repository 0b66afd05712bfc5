"""The Serve application: replicas of the server, and the gate in front of them.

A Serve configuration file names `build` (`import_path: reactor_trio.replicas.application:build`); its `args` are `Options`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from ray import serve

from reactor_trio.configuration.ray_autoscaling import autoscaling_config
from reactor_trio.replicas.gate_server import GateServer
from reactor_trio.replicas.model_facts import facts_of
from reactor_trio.replicas.options import Options, parse_options
from reactor_trio.replicas.replica import Replica

#: Serve kills a replica that it stops this many seconds after the longest session must have ended.
GRACE = 60.0
#: Seconds between two health checks, and the limit of each. After three failed checks Serve replaces the replica.
HEALTH_PERIOD, HEALTH_TIMEOUT = 1.0, 3.0
#: The logging configuration of Serve itself.
LOGGING = {"log_level": "WARNING", "enable_access_log": False}


def build(values: Mapping[str, Any]) -> Any:
    """Build the application from the options in `values`. Raises ManifestError if the options or the project are invalid."""
    options = parse_options(values)
    facts = facts_of(options)
    # Serve takes a class's arguments as its version, and replaces all replicas when they change. So the number of replicas
    # must not be among them.
    plain = msgspec.to_builtins(replace(options, replicas=1, autoscaling=None))
    most = facts.slots * (options.autoscaling.max if options.autoscaling else options.replicas)
    replicas = serve.deployment(Replica, name="replica", **_replica_options(options, facts.slots)).bind(plain)
    return serve.deployment(GateServer, name="gate", **_gate_options(options, most)).bind(plain, facts.schema, replicas)


def _replica_options(options: Options, slots: int) -> dict[str, Any]:
    """Return the options of the replicas' deployment. One call is one session, so the concurrent calls are the slots."""
    how_many: dict[str, Any] = {"num_replicas": options.replicas}
    if (scaling := options.autoscaling) is not None:
        how_many = {"autoscaling_config": autoscaling_config(
            slots, scaling.min, scaling.max, target=scaling.target,
            upscale_delay=scaling.upscale_delay, downscale_delay=scaling.downscale_delay,
        )}  # fmt: skip
    return {
        **how_many, **_common(options.max_session), "max_ongoing_requests": slots, "max_queued_requests": -1,
        "ray_actor_options": {"num_cpus": 0, "num_gpus": options.gpus_per_replica},
    }  # fmt: skip


def _gate_options(options: Options, most: int) -> dict[str, Any]:
    where = {} if options.gate_resource is None else {"resources": {options.gate_resource: 0.1}}
    return {
        "num_replicas": 1, **_common(0.0), "max_ongoing_requests": 100, "user_config": {"places": most},
        "ray_actor_options": {"num_cpus": 0, **where},
    }  # fmt: skip


def _common(session: float) -> dict[str, Any]:
    return {
        "health_check_period_s": HEALTH_PERIOD, "health_check_timeout_s": HEALTH_TIMEOUT,
        "graceful_shutdown_timeout_s": session + GRACE, "graceful_shutdown_wait_loop_s": 0.5, "logging_config": LOGGING,
    }  # fmt: skip
