"""How a replica learns that Serve will stop it, which Serve does not tell: it leaves the list of those that take requests.

Serve's controller publishes the running replicas of each deployment to whoever routes requests (`listen_for_change`, a call
that returns when the list changes, or after half a minute). A replica that was in the list and is not any more is to go: for
an update, because fewer are needed, or because its health checks fail. The interface is not public in Ray; what is used of
it stands here alone, and the extra `ray` pins the versions with which it was tried.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import ray
from ray import serve
from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE
from ray.serve._private.long_poll import LongPollNamespace, LongPollState

log = logging.getLogger("reactor_trio.replicas")

#: Seconds between two tries to reach a controller that is gone; it is started again.
TRY_AGAIN = 1.0


async def wait_for_notice() -> None:
    """Return when Serve has taken the replica that this process is off its list."""
    own = serve.get_replica_context().replica_id
    key = (LongPollNamespace.DEPLOYMENT_TARGETS, own.deployment_id)
    seen, known = -1, False
    while True:
        try:
            controller = ray.get_actor(SERVE_CONTROLLER_NAME, namespace=SERVE_NAMESPACE)
            updates = await controller.listen_for_change.remote({key: seen})
        except Exception as error:  # the controller restarts by itself, and there is nobody to tell
            log.debug("the controller of Serve cannot be asked: %s", error)
            await asyncio.sleep(TRY_AGAIN)
            seen = -1
            continue
        if isinstance(updates, LongPollState) or key not in updates:
            continue
        seen = updates[key].snapshot_id
        running = own in _ids(updates[key].object_snapshot)
        if known and not running:
            return
        known = known or running


def _ids(targets: Any) -> set[Any]:
    return {replica.replica_id for replica in targets.running_replicas}
