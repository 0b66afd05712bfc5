"""Imports and probes that the first client needs but readiness does not. They run right afterwards, off the loops."""

from __future__ import annotations

from importlib import import_module

from reactor_trio.media import CodecSettings, encoders, warm_up


def prepare(settings: CodecSettings) -> dict[str, str]:
    """Import the WebSocket and return the encoders of each codec, best first; the first client waits for this. Blocks.

    Raises ManifestError as `encoders` does, and the error of an installed library that cannot be imported.
    """
    import_module("reactor_trio.transport.websocket")
    return encoders(settings)


def prepare_rest(settings: CodecSettings) -> None:
    """Import what the first picture and `/metrics` need. Blocks."""
    warm_up(settings)
    import_module("prometheus_client")
