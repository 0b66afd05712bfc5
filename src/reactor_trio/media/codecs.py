"""Which codecs this installation can encode, with which encoders, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from reactor_trio.decoding import INSTALL, available
from reactor_trio.decoding.opencv import opencv
from reactor_trio.errors import ManifestError
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media.codec_settings import CodecSettings
from reactor_trio.media.encoders import Encoder, PcmEncoder, RawEncoder
from reactor_trio.media.h264 import LosslessEncoder
from reactor_trio.media.jpeg import JpegEncoder
from reactor_trio.media.nvenc import H264Encoder, nvenc_refusal
from reactor_trio.media.opus import OpusEncoder
from reactor_trio.media.vpx_av1 import Av1Encoder, Vp8Encoder, Vp9Encoder

#: codec -> (the FFmpeg encoder that it needs, or None; how to make ours), best codec first
_VIDEO: dict[str, tuple[str | None, Callable[[CodecSettings], Encoder]]] = {
    "h264": ("libx264", H264Encoder),
    "vp8": ("libvpx", Vp8Encoder),
    "vp9": ("libvpx-vp9", Vp9Encoder),
    "av1": ("libsvtav1", Av1Encoder),
    "jpeg": (None, JpegEncoder),
    "lossless": ("libx264rgb", LosslessEncoder),
    "raw": (None, lambda settings: RawEncoder()),
}

#: the same for audio codecs
_AUDIO: dict[str, tuple[str | None, Callable[[TrackSpec], Encoder]]] = {
    "opus": ("libopus", OpusEncoder),
    "pcm_s16le": (None, lambda spec: PcmEncoder()),
}


def video_codecs() -> tuple[str, ...]:
    """The video codecs that this installation encodes, best first."""
    return tuple(codec for codec, (needed, _) in _VIDEO.items() if _installed(needed))


def audio_codecs() -> tuple[str, ...]:
    """The audio codecs that this installation encodes, best first."""
    return tuple(codec for codec, (needed, _) in _AUDIO.items() if _installed(needed))


def choose_codecs(wanted: Sequence[str]) -> tuple[str, ...]:
    """The video codecs among `wanted`, in their order, that this installation encodes."""
    known = video_codecs()
    return tuple(codec for codec in dict.fromkeys(wanted) if codec in known)


def choose_audio_codecs(wanted: Sequence[str]) -> tuple[str, ...]:
    """The audio codecs among `wanted`, in their order, that this installation encodes."""
    known = audio_codecs()
    return tuple(codec for codec in dict.fromkeys(wanted) if codec in known)


def missing_hint(wanted: Sequence[str]) -> str:
    """How to install the codecs among `wanted` that this installation lacks; empty if no installation would bring them."""
    lacking = [codec for codec in wanted if codec in (_VIDEO | _AUDIO) and codec not in video_codecs() + audio_codecs()]
    return f"; for {', '.join(lacking)}: {INSTALL}" if lacking else ""


def open_encoder(spec: TrackSpec, codec: str, settings: CodecSettings) -> Encoder:
    """Make an encoder for one track. `codec` is one of `video_codecs()` or `audio_codecs()`, by the track's kind."""
    return _AUDIO[codec][1](spec) if spec.kind == "audio" else _VIDEO[codec][1](settings)


def warm_up(settings: CodecSettings) -> None:
    """Convert and encode one small picture, so that a client's first picture need not wait for libraries to load. Blocks."""
    opencv()
    if "h264" in video_codecs():
        encoder = open_encoder(TrackSpec("none", "video", "out"), "h264", settings)
        encoder.encode(np.zeros((64, 64, 3), np.uint8))
        encoder.close()


def encoders(settings: CodecSettings) -> dict[str, str]:
    """The encoder behind each available codec, best codec first.

    Raises ManifestError if the H.264 encoder of the settings cannot be opened.
    """
    needs = {codec: needed for codec, (needed, _) in (*_VIDEO.items(), *_AUDIO.items()) if _installed(needed)}
    found = {codec: needed or "none" for codec, needed in needs.items()} | {"jpeg": JpegEncoder.implementation}
    if settings.h264 == "auto":
        if "h264" in found and nvenc_refusal() is None:
            found["h264"] = "h264_nvenc for frames on a device, libx264 for others"
        return found
    if "h264" not in found:
        raise ManifestError(f"runtime.codec.h264: {settings.h264} is not installed: {INSTALL}")
    if settings.h264 == "h264_nvenc" and (refusal := nvenc_refusal()) is not None:
        raise ManifestError(
            f"runtime.codec.h264: h264_nvenc cannot be opened on this machine; choose auto or libx264 ({refusal})"
        )
    found["h264"] = settings.h264
    return found


@cache
def _installed(encoder: str | None) -> bool:
    """Whether PyAV has this FFmpeg encoder; True if none is needed."""
    if encoder is None or not available():
        return encoder is None
    import av
    from av.codec.codec import UnknownCodecError

    try:
        av.Codec(encoder, "w")
    except UnknownCodecError:
        return False
    return True
