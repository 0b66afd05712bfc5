"""reactor-sdk, the peer's own native client."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

from reactor_sdk import Reactor


async def join(url: str, on_frame: Any, pause: float, second: bool) -> Any:
    """A second client takes the first one's session over by its identifier, which is how the SDK shares one."""
    reactor = Reactor("bench", local=True, api_url=url)

    def taken(bgra: Any, width: int, height: int, *_: Any) -> None:
        on_frame(bgra, width, height, 4)
        if pause:
            time.sleep(pause)

    reactor.track("main_video").on_raw_frame(taken)
    await reactor.connect(session_id=_running_session(url) if second else None)
    return reactor


def _running_session(url: str) -> str:
    with urllib.request.urlopen(f"{url}/session") as answer:
        return str(json.load(answer)["session_id"])


async def set_brightness(reactor: Any, value: float) -> None:
    """Until the SDK says it is done."""
    await reactor.send_command("set_brightness", {"brightness": value})


async def statistics(reactor: Any) -> dict[str, Any]:
    """What its transport counts."""
    counted = await reactor.get_stats()
    return {"codec": "its default", "bytes": counted.bytes_received, "packets_lost": counted.packets_lost}


async def close(reactor: Any) -> None:
    """Say goodbye."""
    await reactor.disconnect()
    reactor.close()
