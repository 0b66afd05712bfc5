"""`wait_for_notice`: detects that Serve will stop this replica. Serve has no public notification for that.

Serve's controller publishes the list of a deployment's running replicas to its routers (`listen_for_change`, a call that
returns when the list changes, or after half a minute). Serve takes a replica off the list when it is about to stop it: for
an update, because fewer replicas are needed, or because health checks fail. This interface is private to Ray. Only this
module uses it, and the extra `ray` pins the versions with which it was tested.
"""

from __future__ import annotations

import asyncio
import logging

import ray
from ray import serve
from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE
from ray.serve._private.long_poll import LongPollNamespace, LongPollState

log = logging.getLogger("reactor_trio.replicas")

#: Seconds between two attempts to reach the controller while Ray restarts it.
TRY_AGAIN = 1.0


async def wait_for_notice() -> None:
    """Return when Serve has taken this process's replica off its list."""
    own = serve.get_replica_context().replica_id
    key = (LongPollNamespace.DEPLOYMENT_TARGETS, own.deployment_id)
    seen, known = -1, False
    while True:
        try:
            controller = ray.get_actor(SERVE_CONTROLLER_NAME, namespace=SERVE_NAMESPACE)
            updates = await controller.listen_for_change.remote({key: seen})
        except Exception as error:  # Ray restarts the controller
            log.debug("the controller of Serve cannot be asked: %s", error)
            await asyncio.sleep(TRY_AGAIN)
            seen = -1
            continue
        if isinstance(updates, LongPollState) or key not in updates:
            continue
        seen = updates[key].snapshot_id
        running = own in {replica.replica_id for replica in updates[key].object_snapshot.running_replicas}
        if known and not running:
            return
        known = known or running
