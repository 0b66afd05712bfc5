"""`GET /ready`: whether a controlling client that came now would get a session or a place in the queue.

`/health` says whether the process is worth keeping, `/ready` whether to send it clients: a server whose queue is full is
healthy and not ready.
"""

from __future__ import annotations

import msgspec

from reactor_trio.server.runtime import Runtime
from reactor_trio.transport import Response

#: Seconds after which it is worth asking again.
RETRY_AFTER = "1"


def readiness(runtime: Runtime, known: bool = True) -> Response:
    """200, or 503 with the reason; to who is not `known` to the server without one, for it may name what it should not."""
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
    """503, for a moment."""
    body = msgspec.json.encode({"status": status, "reason": reason})
    return Response(503, "application/json", body, {"retry-after": RETRY_AFTER})
