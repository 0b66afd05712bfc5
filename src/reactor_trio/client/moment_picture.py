"""The picture of a moment: `GET /moments/STEP.jpg` by any `Get`."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from reactor_trio.client.http_request import Get
from reactor_trio.client.refusals import refusal_reason
from reactor_trio.errors import CommandError, ConnectionRefused
from reactor_trio.protocol import Worlds

#: bytes that a picture may have: no JPEG file of 320 pixels in width comes near
MOST_BYTES: Final = 4 * 1024 * 1024


async def moment_picture(get: Get | None, worlds: Worlds | None, step: int, width: int) -> bytes:
    """See `WorldControl.picture`."""
    if worlds is None:
        raise CommandError("not_saveable", "this model saves no worlds, so it has no pictures of moments")
    if worlds.token is None or get is None:
        raise CommandError("not_allowed", "only the controlling client gets pictures of moments")
    # The token goes into the query, which no proxy replaces.
    answer = await get(f"/moments/{step}.jpg?" + urlencode({"w": width, "token": worlds.token}), MOST_BYTES)
    if answer.status == 200:
        return answer.body
    if answer.code == "not_found":
        raise CommandError("no_moment", f"no picture of step {step} is kept")
    raise ConnectionRefused(answer.status, refusal_reason(answer.status, answer.body)[0], code=answer.code)
