"""From the bitstreams of codecs between frames to arrays, by FFmpeg through PyAV, for the client and for input tracks.

Importing this needs nothing; making a decoder needs PyAV (`available`).
"""

from importlib.util import find_spec

from reactor_trio.decoding.sound import OpusDecoder as OpusDecoder
from reactor_trio.decoding.video import DecodeError as DecodeError
from reactor_trio.decoding.video import VideoDecoder as VideoDecoder

#: how to get what is missing
INSTALL = 'pip install "reactor-trio[video]"'


def available() -> bool:
    """Whether PyAV is installed."""
    return find_spec("av") is not None
