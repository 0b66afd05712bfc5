"""Everything under `runtime:`: defaults, bounds, unknown keys, and the example that lists them all."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
import yaml

from reactor_trio.configuration.checked_struct import parse_struct
from reactor_trio.configuration.introduction import IntroductionKeys
from reactor_trio.configuration.settings import LimitSettings, Settings, UploadSettings
from reactor_trio.errors import ManifestError
from reactor_trio.media import CodecSettings

EXAMPLE = Path(__file__).parents[2] / "reactor.yaml.example"


def parse_settings(values):
    return parse_struct(values, Settings, "runtime")


def test_an_empty_section_is_all_defaults():
    assert parse_settings({}) == Settings()
    assert Settings().port == 8080
    assert Settings().queue == 16
    assert Settings().limits.text_message == 256 * 1024
    assert Settings().limits.text_per_second == 256 * 1024
    assert Settings().codec.jpeg_quality == 80


def test_a_window_for_coming_back_may_be_infinite_and_nothing_else():
    assert parse_settings({"resume_window": math.inf}).resume_window == math.inf


def test_given_values_replace_defaults_and_leave_the_others():
    settings = parse_settings({"port": 0, "fps": 24, "limits": {"stall": 3}, "origins": ["https://a.example"]})
    assert (settings.port, settings.fps, settings.limits.stall) == (0, 24.0, 3.0)
    assert settings.origins == ("https://a.example",)
    assert settings.limits.silence == 20.0


def test_a_section_whose_lines_are_all_commented_out_is_all_defaults():
    assert parse_settings({"limits": None, "codec": None}) == Settings()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"prot": 1}, "runtime.prot: unknown key; did you mean runtime.port?"),
        ({"limits": {"stal": 1}}, "runtime.limits.stal: unknown key; did you mean runtime.limits.stall?"),
        ({"codec": {"zzz": 1}}, "runtime.codec.zzz: unknown key; known keys: jpeg_quality, h264, preset, bitrate"),
        ({3: 1}, "runtime.3: unknown key"),
        ({"limits": {"text_per_second": 1023}}, "runtime.limits.text_per_second: Expected int >= 1024"),
        ({"port": 65536}, "runtime.port: Expected int <= 65535"),
        ({"port": "8080"}, "runtime.port: Expected int, got str"),
        ({"port": True}, "runtime.port: Expected int, got bool"),
        ({"management": {"port": 65536}}, "runtime.management.port: Expected int <= 65535"),
        ({"management": {"hots": "::"}}, "runtime.management.hots: unknown key; did you mean runtime.management.host?"),
        ({"fps": 0}, "runtime.fps: Expected float > 0"),
        ({"fps": float("nan")}, "runtime.fps: expected a finite number, got nan"),
        ({"watchdog": float("inf")}, "runtime.watchdog: expected a finite number, got inf"),
        ({"first_step_timeout": -1}, "runtime.first_step_timeout: Expected float >= 0.0"),
        ({"first_step_timeout": 86_401}, "runtime.first_step_timeout: Expected float <= 86400.0"),
        ({"codec": {"jpeg_quality": 101}}, "runtime.codec.jpeg_quality: Expected int <= 100"),
        ({"codec": "jpeg"}, "runtime.codec: expected a mapping, got str"),
        ({"slow_client": "wait"}, "runtime.slow_client: expected drop or hold, got 'wait'"),
        ({"hosts": "studio"}, "runtime.hosts: Expected array, got str"),
        ({"hosts": [1]}, "runtime.hosts[0]: Expected str, got int"),
        ({"max_sessions": 0}, "runtime.max_sessions: Expected int >= 1"),
        ({"resume_window": -1}, "runtime.resume_window: Expected float >= 0.0"),
        ({"resume_window": float("nan")}, "runtime.resume_window: expected a finite number, got nan"),
        ({"resume_window": -math.inf}, "runtime.resume_window: expected a finite number, got -inf"),
        ({"auth": {"tokens": ["x"]}}, "runtime.auth.tokens: unknown key; did you mean runtime.auth.token?"),
        ({"auth": "secret"}, "runtime.auth: expected a mapping, got str"),
        ({"auth": {"ticket_keys": ["k"] * 9}}, "runtime.auth.ticket_keys: Expected array of length <= 8"),
        ({"tls": {"keyfile": "key.pem"}}, "runtime.tls: Object missing required field certfile"),
        ({"frame_ancestors": ["https://a; img-src *"]}, "runtime.frame_ancestors[0]: Expected str matching regex"),
        ({"frame_ancestors": ["a.example"]}, "runtime.frame_ancestors[0]: Expected str matching regex"),
        ({"limits": {"timeline_bytes": 1023}}, "runtime.limits.timeline_bytes: Expected int >= 1024"),
        ({"limits": {"http_per_minute": -1}}, "runtime.limits.http_per_minute: Expected int >= 0"),
        ({"limits": {"silence": 5}}, "runtime.limits.silence: 5 s must be longer than ping_interval (10 s)"),
    ],
)
def test_a_mistake_is_one_line_with_the_full_path_of_its_key(values, message):
    with pytest.raises(ManifestError) as caught:
        parse_settings(values)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_frame_ancestors_are_origins_with_wildcards_and_schemes():
    given = ("*", "https://a.example", "http://localhost:*", "https://*.a.example:8443", "vscode-webview:")
    assert parse_settings({"frame_ancestors": given}).frame_ancestors == given


def test_a_timeline_may_have_a_kibibyte():
    assert parse_settings({"limits": {"timeline_bytes": 1024}}).limits.timeline_bytes == 1024


def test_zero_means_no_limit_of_requests():
    assert parse_settings({"limits": {"http_per_minute": 0}}).limits.http_per_minute == 0


@pytest.mark.parametrize("seconds", [0, 86_400])
def test_a_first_step_may_take_any_time_up_to_a_day(seconds):
    assert parse_settings({"first_step_timeout": seconds}).first_step_timeout == seconds


def test_eight_ticket_keys_are_taken():
    auth = parse_settings({"auth": {"ticket_keys": ["k"] * 8}}).auth
    assert auth is not None
    assert len(auth.ticket_keys) == 8


def test_values_that_do_not_go_together_are_refused_in_the_constructor_too():
    with pytest.raises(ManifestError, match=r"runtime\.limits\.silence"):
        Settings(limits=LimitSettings(silence=1.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Settings(isolation="proces"),
            "Settings.isolation: expected thread or process, got 'proces'; did you mean process?",
        ),
        (lambda: Settings(max_sessions=0), "Settings.max_sessions: Expected int >= 1, got 0"),
        (
            lambda: Settings(max_sessions="2"),
            "Settings.max_sessions: Expected int | null, got str '2'; write a whole number, as in 30",
        ),
        (
            lambda: Settings(fps="thirty"),
            "Settings.fps: Expected float | null, got str 'thirty'; write a number, as in 30 or 0.5",
        ),
        (
            lambda: Settings("localhost", "8080"),
            "Settings.port: Expected int, got str '8080'; write a whole number, as in 30",
        ),
        (lambda: Settings(watchdog=math.inf), "Settings.watchdog: expected a finite number, got inf"),
        (lambda: Settings(limits={"stal": 30}), "Settings.limits.stal: unknown key; did you mean Settings.limits.stall?"),
        (lambda: Settings(limits=UploadSettings()), "Settings.limits: expected a mapping, got UploadSettings"),
        (lambda: Settings(codec=CodecSettings(bitrate=1)), "Settings.codec.bitrate: Expected int >= 50000, got 1"),
        (lambda: LimitSettings(connections=0), "LimitSettings.connections: Expected int >= 1, got 0"),
    ],
)
def test_a_program_s_values_are_checked_as_those_of_the_manifest(make, message):
    with pytest.raises(ManifestError) as caught:
        make()
    assert str(caught.value) == message


def test_a_section_of_a_program_is_a_dict_or_its_class():
    limits = LimitSettings(connections=3)
    assert Settings(limits={"connections": 3}).limits == Settings(limits=limits).limits == limits
    assert Settings(resume_window=math.inf).resume_window == math.inf


def test_the_example_lists_every_key_at_its_default():
    example = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    assert list(example) == ["model", "name", "config", "weights_path", *IntroductionKeys.__struct_fields__, "runtime"]
    assert example["runtime"] == msgspec.json.decode(msgspec.json.encode(Settings()))
    assert list(example["runtime"]) == [field.name for field in msgspec.structs.fields(Settings)]
    assert parse_settings(example["runtime"]) == Settings()


def test_the_example_has_a_comment_over_each_key():
    before = ""
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        key = line.strip().partition(":")[0]
        if line.strip() and not line.strip().startswith("#") and key not in ("runtime", "codec", "limits"):
            assert before.strip().startswith("#"), f"{key} has no comment"
        before = line
