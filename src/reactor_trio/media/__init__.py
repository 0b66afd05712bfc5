"""Video frames and audio samples: accepted from a model (`frames`), encoded for the wire (`codecs`), decoded from it
(`decoders`).
"""

from reactor_trio.media.bitrates import full_bitrate as full_bitrate
from reactor_trio.media.codec_pool import Overrun as Overrun
from reactor_trio.media.codec_pool import Worker as Worker
from reactor_trio.media.codec_settings import CodecSettings as CodecSettings
from reactor_trio.media.codecs import audio_codecs as audio_codecs
from reactor_trio.media.codecs import choose_audio_codecs as choose_audio_codecs
from reactor_trio.media.codecs import choose_codecs as choose_codecs
from reactor_trio.media.codecs import encoders as encoders
from reactor_trio.media.codecs import missing_hint as missing_hint
from reactor_trio.media.codecs import open_encoder as open_encoder
from reactor_trio.media.codecs import video_codecs as video_codecs
from reactor_trio.media.codecs import warm_up as warm_up
from reactor_trio.media.encoders import Encoded as Encoded
from reactor_trio.media.encoders import Encoder as Encoder
from reactor_trio.media.frames import Bundle as Bundle
from reactor_trio.media.frames import Chunk as Chunk
from reactor_trio.media.frames import FrameHandle as FrameHandle
from reactor_trio.media.frames import Origin as Origin
from reactor_trio.media.frames import TrackPart as TrackPart
from reactor_trio.media.frames import black_chunk as black_chunk
from reactor_trio.media.frames import chunk_from_output as chunk_from_output
from reactor_trio.media.frames import chunk_of_parts as chunk_of_parts
from reactor_trio.media.frames import keep_frames_in as keep_frames_in
from reactor_trio.media.frames import part_of_track as part_of_track
from reactor_trio.media.frames import to_host as to_host
from reactor_trio.media.input_decoder import InputDecoder as InputDecoder
from reactor_trio.media.input_decoder import Undecodable as Undecodable
from reactor_trio.media.input_decoder import input_codecs as input_codecs
