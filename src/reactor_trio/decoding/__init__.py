"""Decoders of inter-frame video codecs and of Opus: packets into numpy arrays, by FFmpeg through PyAV.

The client and the server's input tracks use them. The part is separate from `media` because the client must not import
Trio. You can import it without PyAV; a decoder needs PyAV (see `available`).
"""

from importlib.util import find_spec

from reactor_trio.decoding.sound import OpusDecoder as OpusDecoder
from reactor_trio.decoding.video import DecodeError as DecodeError
from reactor_trio.decoding.video import VideoDecoder as VideoDecoder

#: the command that installs PyAV, for error messages
INSTALL = 'pip install "reactor-trio[video]"'


def available() -> bool:
    """Whether PyAV is installed."""
    return find_spec("av") is not None
