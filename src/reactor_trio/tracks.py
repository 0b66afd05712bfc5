"""Where Reactor 1.x has the tracks of a `VideoModel`."""

from reactor_trio.interface import AudioIn, AudioOut, VideoIn, VideoOut

__all__ = ["AudioIn", "AudioOut", "VideoIn", "VideoOut"]
