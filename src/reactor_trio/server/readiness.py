"""`GET /ready`: whether a controlling client that connects now gets a session or a position in the queue.

`/health` says whether to keep the process, `/ready` whether to send clients to it: a server with a full queue is healthy
and not ready.
"""

from __future__ import annotations

from reactor_trio.edge.common_responses import json_response, not_ready
from reactor_trio.server.server_facts import ServerFacts
from reactor_trio.transport import Response


def readiness(facts: ServerFacts, known: bool = True) -> Response:
    """200, or 503 with the reason. Unauthenticated requests (not `known`) get no reason, because it may name the model."""
    status, reason = _readiness(facts)
    if status == "ready":
        return json_response(200, {"status": status})
    return not_ready(status, reason if known else "only clients with a token see the reason")


def _readiness(facts: ServerFacts) -> tuple[str, str]:
    phase, refusal = facts.phase, facts.admission.refusal()
    if facts.health.stuck is not None:
        return "stuck", facts.health.stuck
    if (loading := facts.loading) is not None:
        return phase, loading
    if phase == "failed":
        return phase, facts.journal.reason
    if phase != "ready" or refusal in ("draining", "not_ready"):
        return "draining", "the server is going down"
    return ("ready", "") if refusal is None else (refusal, "each session and each place in the queue is taken")
