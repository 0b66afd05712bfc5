"""`GET /ready`: whether a controlling client that connects now gets a session or a place in the queue.

`/health` says whether to keep the process, `/ready` whether to send clients to it: a server with a full queue is healthy
and not ready.
"""

from __future__ import annotations

import msgspec

from reactor_trio.server.runtime import Runtime
from reactor_trio.transport import Response

#: Seconds after which a client should ask again.
RETRY_AFTER = "1"


def readiness(runtime: Runtime, known: bool = True) -> Response:
    """200, or 503 with the reason. Unauthenticated requests (not `known`) get no reason, because it may name the model."""
    answer = _readiness(runtime)
    if known or answer.status == 200:
        return answer
    return not_ready(msgspec.json.decode(answer.body)["status"], "shown to who may come in")


def _readiness(runtime: Runtime) -> Response:
    phase, room = runtime.journal.phase, runtime.room.admission.room()
    if runtime.metrics.stuck is not None:
        return not_ready("stuck", runtime.metrics.stuck)
    if phase == "loading":
        return not_ready(phase, "the model is still loading")
    if phase == "failed":
        return not_ready(phase, runtime.journal.reason)
    if phase != "ready" or room in ("draining", "not_ready"):
        return not_ready("draining", "the server is going down")
    if room is not None:
        return not_ready(room, "each session and each place in the queue is taken")
    return Response(200, "application/json", msgspec.json.encode({"status": "ready"}))


def not_ready(status: str, reason: str) -> Response:
    """Return a 503 that asks the client to come back soon."""
    body = msgspec.json.encode({"status": status, "reason": reason})
    return Response(503, "application/json", body, {"retry-after": RETRY_AFTER})
