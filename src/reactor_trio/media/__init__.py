"""Frames: from what a model yields to bundles (`frames`), to a packet's payload (`encoders`), and from one (`decoders`)."""

from reactor_trio.media.decoders import InputDecoder as InputDecoder
from reactor_trio.media.decoders import Undecodable as Undecodable
from reactor_trio.media.decoders import input_codecs as input_codecs
from reactor_trio.media.encoders import CodecSettings as CodecSettings
from reactor_trio.media.encoders import Encoded as Encoded
from reactor_trio.media.encoders import Encoder as Encoder
from reactor_trio.media.encoders import Target as Target
from reactor_trio.media.encoders import choose_codecs as choose_codecs
from reactor_trio.media.encoders import full_bitrate as full_bitrate
from reactor_trio.media.encoders import open_encoder as open_encoder
from reactor_trio.media.frames import Bundle as Bundle
from reactor_trio.media.frames import Chunk as Chunk
from reactor_trio.media.frames import FrameHandle as FrameHandle
from reactor_trio.media.frames import Origin as Origin
from reactor_trio.media.frames import black_chunk as black_chunk
from reactor_trio.media.frames import chunk_from_output as chunk_from_output
from reactor_trio.media.frames import to_host as to_host
from reactor_trio.media.workers import Worker as Worker
