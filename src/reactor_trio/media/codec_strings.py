"""The strings that name a codec with its profile and level in WebCodecs: from the bitstream, or from tables of levels."""

from __future__ import annotations

#: (level, samples of a picture, samples per second, bits per second): VP9 levels, from webmproject.org/vp9/levels
_VP9 = (
    (10, 36_864, 829_440, 0.2e6), (11, 73_728, 2_764_800, 0.8e6), (20, 122_880, 4_608_000, 1.8e6),
    (21, 245_760, 9_216_000, 3.6e6), (30, 552_960, 20_736_000, 7.2e6), (31, 983_040, 36_864_000, 12e6),
    (40, 2_228_224, 83_558_400, 18e6), (41, 2_228_224, 160_432_128, 30e6), (50, 8_912_896, 311_951_360, 60e6),
    (51, 8_912_896, 588_251_136, 120e6), (52, 8_912_896, 1_176_502_272, 180e6), (60, 35_651_584, 1_176_502_272, 180e6),
    (61, 35_651_584, 2_353_004_544, 240e6), (62, 35_651_584, 4_706_009_088, 480e6),
)  # fmt: skip

#: the same for AV1, Main tier, from annex A.3 of its specification; the level is `seq_level_idx`
_AV1 = (
    (0, 147_456, 4_423_680, 1.5e6), (1, 278_784, 8_363_520, 3e6), (4, 665_856, 19_975_680, 6e6),
    (5, 1_065_024, 31_950_720, 10e6), (8, 2_359_296, 70_778_880, 12e6), (9, 2_359_296, 141_557_760, 20e6),
    (12, 8_912_896, 267_386_880, 30e6), (13, 8_912_896, 534_773_760, 40e6), (14, 8_912_896, 1_069_547_520, 60e6),
    (16, 35_651_584, 1_069_547_520, 60e6), (17, 35_651_584, 2_139_095_040, 100e6), (18, 35_651_584, 4_278_190_080, 160e6),
)  # fmt: skip


def avc_string(annex_b: memoryview) -> str | None:
    """`avc1.PPCCLL` of the first sequence parameter set in an Annex B packet; None if the packet has none."""
    data = bytes(annex_b[:4096])
    at = data.find(b"\x00\x00\x01")
    while 0 <= at <= len(data) - 7:
        if data[at + 3] & 0x1F == 7:
            return "avc1." + data[at + 4 : at + 7].hex().upper()
        at = data.find(b"\x00\x00\x01", at + 3)
    return None


def vp9_string(coded: tuple[int, int], fps: float, bitrate: float) -> str:
    """`vp09.00.LL.08`: profile 0, 8 bits, 4:2:0, the lowest level that fits."""
    return f"vp09.00.{_level(_VP9, coded, fps, bitrate)}.08"


def av1_string(coded: tuple[int, int], fps: float, bitrate: float) -> str:
    """`av01.0.LLM.08`: Main profile and tier, 8 bits, the lowest level that fits."""
    return f"av01.0.{_level(_AV1, coded, fps, bitrate):02d}M.08"


def _level(table: tuple[tuple[int, int, int, float], ...], coded: tuple[int, int], fps: float, bitrate: float) -> int:
    samples = coded[0] * coded[1]
    fitting = (
        level for level, picture, second, bits in table
        if samples <= picture and samples * fps <= second and bitrate <= bits and max(coded) <= (8 * picture) ** 0.5
    )  # fmt: skip
    return next(fitting, table[-1][0])
