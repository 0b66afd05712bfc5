"""The track classes of a `VideoModel` under their Reactor 1.x module name, so that 1.x models import them unchanged."""

from reactor_trio.interface import AudioIn, AudioOut, VideoIn, VideoOut

__all__ = ["AudioIn", "AudioOut", "VideoIn", "VideoOut"]
