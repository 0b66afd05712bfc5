"""Decoders: packets of video codecs and of Opus, and JPEG files, into numpy arrays.

The client and the server's input tracks use them. The part is separate from `media` because the client must not import
Trio. You can import it without PyAV; all decoders but that of JPEG need PyAV (see `available`).
"""

from importlib.util import find_spec

from reactor_trio.decoding.jpeg import decode_jpeg as decode_jpeg
from reactor_trio.decoding.sound import OpusDecoder as OpusDecoder
from reactor_trio.decoding.video import DecodeError as DecodeError
from reactor_trio.decoding.video import VideoDecoder as VideoDecoder

#: the command that installs PyAV, for error messages
INSTALL = 'pip install "reactor-trio[video]"'


def available() -> bool:
    """Whether PyAV is installed."""
    return find_spec("av") is not None
