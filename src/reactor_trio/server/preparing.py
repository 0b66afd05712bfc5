"""What the first client needs and being ready does not: imported and found out right after, away from the loops."""

from __future__ import annotations

from importlib import import_module

from reactor_trio.media import CodecSettings, encoders

#: a WebSocket, and what `/metrics` is written with; PyAV and OpenCV come with the encoders
MODULES = ("reactor_trio.transport.websocket", "prometheus_client")


def prepare(settings: CodecSettings) -> dict[str, str]:
    """What encodes each codec here, best first. Blocks for a tenth of a second, longer where a card's driver is asked.

    Raises ManifestError as `encoders` does, and what a library raises that is installed but cannot be imported.
    """
    for module in MODULES:
        import_module(module)
    return encoders(settings)
