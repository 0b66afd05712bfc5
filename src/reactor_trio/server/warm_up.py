"""What the first client needs and being ready does not: imported and found out right after, away from the loops."""

from __future__ import annotations

from importlib import import_module

from reactor_trio.media import CodecSettings, encoders, warm_up


def prepare(settings: CodecSettings) -> dict[str, str]:
    """What a client waits for: the WebSocket, and what encodes each codec here, best first. Blocks.

    Raises ManifestError as `encoders` does, and what a library raises that is installed but cannot be imported.
    """
    import_module("reactor_trio.transport.websocket")
    return encoders(settings)


def prepare_rest(settings: CodecSettings) -> None:
    """What is used later than the first word to a client: for its first picture, and for `/metrics`. Blocks."""
    warm_up(settings)
    import_module("prometheus_client")
