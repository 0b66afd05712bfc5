"""`Preparation`: what a server does once its model is ready, and before its first client can have a picture."""

from __future__ import annotations

from importlib import import_module

import trio

from reactor_trio.media import CodecSettings, Worker, encoders, warm_up


class Preparation:
    """Imports what only clients need, and finds the encoders. So the server is ready sooner.

    Args:
        worker: runs that away from the loop.
        settings: the codecs of the server.

    Attributes:
        encoders: those of each codec, best first; empty until they are found.
        tried: set when clients need not wait for it any more: the encoders are found, or this has failed.
        at_rest: set when all of it is done.
    """

    def __init__(self, worker: Worker, settings: CodecSettings) -> None:
        self.encoders: dict[str, str] = {}
        self.tried, self.at_rest = trio.Event(), trio.Event()
        self._worker = worker
        self._settings = settings

    async def run(self) -> None:
        """Do it once. Raises whatever an installed library raises when it is imported or tried."""
        try:
            self.encoders = await self._worker(prepare, self._settings)
        finally:
            self.tried.set()
        await self._worker(prepare_rest, self._settings)
        self.at_rest.set()


def prepare(settings: CodecSettings) -> dict[str, str]:
    """Import the WebSocket and return the encoders of each codec, best first; the first client waits for this. Blocks."""
    import_module("reactor_trio.transport.websocket")
    return encoders(settings)


def prepare_rest(settings: CodecSettings) -> None:
    """Import what the first picture and `/metrics` need. Blocks."""
    warm_up(settings)
    import_module("prometheus_client")
