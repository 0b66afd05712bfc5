"""The choice between a card's encoder and x264, with a stand-in for the card that computes on the host.

These tests cannot show that NVENC itself opens with these options and reads the frames on the card.
"""

from __future__ import annotations

import logging

import av
import numpy as np
import pytest
import torch
from tests.support.codec_clips import VIDEO, Decoder, colour_bars, opened, psnr

from reactor_trio.errors import ManifestError
from reactor_trio.media import CodecSettings, encoders, nvenc, open_encoder
from reactor_trio.media.device_frames import DeviceFrames
from reactor_trio.media.h264 import X264Encoder
from reactor_trio.media.nvenc import NvencEncoder, nvenc_refusal
from reactor_trio.pacing import Quality

TARGET = Quality(2_000_000, 30)


class Card:
    """A card on which frames of the host's memory count as lying; a test can make it refuse or fail."""

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.broken: str | None = None
        self.created = 0
        self.fetched = 0


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    stand_in = Card()

    class StandIn(NvencEncoder):
        options = X264Encoder.options
        min_side = 16

        def create(self):
            stand_in.created += 1
            assert self._device == 0
            return av.CodecContext.create("libx264", "w")

        def encode(self, frame):
            if stand_in.broken:
                raise OSError(stand_in.broken)
            return super().encode(frame)

    host = DeviceFrames.host

    def counted(frames: DeviceFrames) -> np.ndarray:
        stand_in.fetched += 1
        return host(frames)

    monkeypatch.setattr(nvenc, "NvencEncoder", StandIn)
    monkeypatch.setattr(nvenc, "lies_on_card", lambda frame: isinstance(frame, DeviceFrames))
    monkeypatch.setattr(nvenc, "nvenc_refusal", lambda: stand_in.refusal)
    monkeypatch.setattr(DeviceFrames, "host", counted)
    nvenc._warn_refused.cache_clear()
    return stand_in


def on_card(picture: np.ndarray) -> DeviceFrames:
    return DeviceFrames.take(torch.from_numpy(picture.copy()))


def test_frames_on_a_card_are_encoded_there_and_not_fetched(card: Card, caplog) -> None:
    bars, decoder = colour_bars(320, 240), Decoder("h264")
    encoder = opened("h264", TARGET)
    assert encoder.implementation == "libx264"
    packets = [encoder.encode(on_card(bars)) for _ in range(3)]
    assert encoder.implementation == "h264_nvenc"
    assert [packet.keyframe for packet in packets] == [True, False, False]
    backs = [decoder.rgb(packet) for packet in packets]
    assert psnr(backs[-1][:, 20:-20], bars[:, 20:-20]) > 28
    assert (card.fetched, card.created) == (0, 1)
    info = encoder.describe(0, VIDEO, packets[-1].size)
    assert (info.codec, info.width, info.height, info.codec_string) == ("h264", 320, 240, "avc1.42C014")
    assert caplog.records == []
    encoder.close()


def test_encoding_on_the_card_begins_with_a_keyframe_and_stays_there(card: Card) -> None:
    """The black frame between two sessions lies in the host's memory."""
    bars, encoder = colour_bars(160, 128), opened("h264", TARGET)
    made = []
    for frame in (bars, bars, on_card(bars), bars, on_card(bars)):
        made.append((encoder.encode(frame).keyframe, encoder.implementation))
    assert made == [(True, "libx264"), (False, "libx264")] + [(True, "h264_nvenc")] + [(False, "h264_nvenc")] * 2


def test_after_a_failure_on_the_card_x264_continues_and_a_warning_says_so(card: Card, caplog) -> None:
    bars, encoder, decoder = colour_bars(160, 128), opened("h264", TARGET), Decoder("h264")
    assert encoder.encode(on_card(bars)).keyframe
    card.broken = "the card has fallen off the bus"
    with caplog.at_level(logging.WARNING, "reactor_trio.media"):
        packet = encoder.encode(on_card(bars))
    assert [record.getMessage() for record in caplog.records] == [
        "h264_nvenc failed, libx264 goes on: OSError: the card has fallen off the bus"
    ]
    assert (packet.keyframe, encoder.implementation) == (True, "libx264")
    assert psnr(decoder.rgb(packet)[:, 10:], bars[:, 10:]) > 18
    card.broken = None
    assert not encoder.encode(on_card(bars)).keyframe  # the card is not tried again
    assert encoder.implementation == "libx264"


def test_a_card_without_an_encoder_causes_one_warning(card: Card, caplog) -> None:
    card.refusal = "no capable devices found"
    for _ in range(2):
        encoder = opened("h264", TARGET)
        encoder.encode(on_card(colour_bars(160, 128)))
        encoder.encode(on_card(colour_bars(160, 128)))
        assert encoder.implementation == "libx264"
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().endswith("no capable devices found")
    assert card.created == 0


def test_with_libx264_in_the_settings_the_card_is_not_used(card: Card, caplog) -> None:
    encoder = opened("h264", TARGET, CodecSettings(h264="libx264"))
    encoder.encode(on_card(colour_bars(160, 128)))
    assert (encoder.implementation, card.created, caplog.records) == ("libx264", 0, [])


def test_keyframes_targets_and_odd_sizes_reach_the_card(card: Card) -> None:
    bars, encoder, decoder = colour_bars(323, 241), opened("h264", TARGET), Decoder("h264")
    encoder.encode(on_card(bars))
    encoder.request_keyframe()
    key = encoder.encode(on_card(bars))
    info = encoder.describe(0, VIDEO, key.size)
    assert (key.keyframe, key.size, info.coded_width, info.coded_height) == (True, (323, 241), 324, 242)
    encoder.configure(Quality(2_000_000, 30, 0.5))
    half = encoder.encode(on_card(bars))
    assert (half.keyframe, half.size) == (True, (162, 120))
    back = decoder.rgb(half)
    for i in range(8):
        assert np.abs(back[60, i * 20 + 10].astype(int) - bars[60, i * 40 + 20]).max() <= 10


def test_a_chosen_encoder_that_cannot_be_opened_is_an_error_at_the_start(monkeypatch) -> None:
    from reactor_trio.media import codecs

    monkeypatch.setattr(codecs, "nvenc_refusal", lambda: "no capable devices found")
    wanted = r"^runtime\.codec\.h264: h264_nvenc cannot be opened .* choose auto or libx264 \(no capable devices found\)"
    with pytest.raises(ManifestError, match=wanted):
        encoders(CodecSettings(h264="h264_nvenc"))
    assert encoders(CodecSettings())["h264"] == "libx264"
    monkeypatch.setattr(codecs, "nvenc_refusal", lambda: None)
    assert encoders(CodecSettings())["h264"] == "h264_nvenc for frames on a device, libx264 for others"
    assert encoders(CodecSettings(h264="h264_nvenc"))["h264"] == "h264_nvenc"
    assert encoders(CodecSettings(h264="libx264"))["h264"] == "libx264"
    assert open_encoder(VIDEO, "h264", CodecSettings(h264="h264_nvenc")).implementation == "h264_nvenc"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card that may open it")
def test_without_a_card_the_refusal_says_why() -> None:
    kind, _, why = str(nvenc_refusal()).partition(": ")
    assert kind.endswith("Error")
    assert why
    assert "preset" not in why, "the options of the encoder are no reason"
