"""`GET /moments/STEP.jpg`: the picture of a moment, for the client that may go back to it.

    GET /moments/120.jpg?w=160&token=<worlds.token of reactor.welcome>

The answer is a JPEG file of at most that width, 160 or 320, or an error status with a line of text. The picture is the
newest that was shown at or before the step. It is made smaller on a worker, when it is asked for.
"""

from __future__ import annotations

import re
from typing import Final

from reactor_trio.edge.grants import Grant
from reactor_trio.edge.router import Handler
from reactor_trio.server.server_routes import MOMENTS_PATH
from reactor_trio.server.session_manager import SessionManager
from reactor_trio.session import Session
from reactor_trio.transport import Exchange, Refusal, Refused, Response

#: The widths that a client may ask for; the first one is that of a request without one.
WIDTHS: Final = ("160", "320")

_PATH = re.compile(rf"{MOMENTS_PATH}/([0-9]{{1,15}})\.jpg", re.ASCII)


def moment_handler(sessions: SessionManager) -> Handler:
    """Return what answers with the pictures of moments."""

    async def picture(exchange: Exchange, grant: Grant) -> Response:
        if sessions.model is None:
            raise Refused(Refusal("loading", "the model is not loaded"))
        if sessions.model.services.placement.declaration.world is None:
            raise Refused(Refusal("not_found", "this model saves no worlds"))
        session: Session = grant.required().owner.session
        if (path := _PATH.fullmatch(exchange.request.path)) is None:
            raise Refused(Refusal("not_found", f"the picture of a moment is at {MOMENTS_PATH}/STEP.jpg"))
        width = exchange.request.query.get("w", WIDTHS[0])
        if width not in WIDTHS:
            raise Refused(Refusal("bad_request", f"w: expected {' or '.join(WIDTHS)}"))
        assert session.worlds is not None, "the model saves its worlds"
        jpeg = await session.worlds.pictures.jpeg(int(path[1]), int(width))
        if jpeg is None:
            raise Refused(Refusal("not_found", f"no picture of step {path[1]} is kept"))
        return Response(200, "image/jpeg", jpeg, {"cache-control": "no-store"})

    return picture
