"""Models as Reactor 0.x and 1.x have them: where their names come from, what `__init__` gets, what they ask of a session."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest
import trio
from omegaconf import DictConfig, OmegaConf

from reactor_trio import DeclarationError, ManifestError, command, get_ctx
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.video_model import instantiate
from reactor_trio.model_api import VideoModel, model
from reactor_trio.testing import open_server, open_session
from reactor_trio.tracks import AudioIn, AudioOut, VideoIn, VideoOut
from tests.support.behaviour_models import picture, shown


@pytest.fixture
def _without_omegaconf(monkeypatch):
    monkeypatch.setitem(sys.modules, "omegaconf", None)  # an import of it raises ImportError


class Shows(VideoModel):
    """Shows `self.value` until the client leaves."""

    value = 1

    def start_session(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(picture(self.value))
            time.sleep(0.1)


# ---- 1.x: one configuration ------------------------------------------------------------------------------------------


@dataclass
class GridConfig:
    level: int = 3
    fps: int = 20
    sampler: str = "euler"


@model(name="grid", config="configs/grid.yaml", weights=["grid"])
class Grid(Shows):
    """As the public 1.x models merge their configuration with a dataclass of defaults."""

    def __init__(self, config: DictConfig):
        super().__init__()
        self.given = config
        self.cfg = OmegaConf.merge(OmegaConf.structured(GridConfig), config)
        self.fps = self.cfg.fps
        self.value = self.cfg.level


async def test_a_configuration_can_be_merged_with_a_dataclass_of_defaults(autojump_clock):
    async with open_session(Grid, config={"level": 9}) as client:
        assert shown(await client.take(2)) == [9, 9]


def test_the_configuration_is_a_dict_config_at_every_depth():
    made = instantiate(Grid, {"level": 9})
    assert isinstance(made.given, DictConfig)
    assert (made.cfg.sampler, made.fps) == ("euler", 20)

    class Nested(Shows):
        def __init__(self, config):
            self.width, self.rest = config.net.layers[0].width, config.get("rest", "none")

    nested = instantiate(Nested, {"net": {"layers": [{"width": 3}]}})
    assert (nested.width, nested.rest) == (3, "none")


def test_a_key_that_the_dataclass_does_not_have_is_omegaconfs_error():
    with pytest.raises(Exception, match="levle"):
        instantiate(Grid, {"levle": 9})


def test_interpolations_are_resolved_as_omegaconf_does(monkeypatch):
    monkeypatch.setenv("LEVEL", "12")
    assert instantiate(Grid, {"level": "${oc.env:LEVEL}"}).value == 12


def test_a_configuration_that_omegaconf_cannot_hold_is_a_manifest_error_of_one_line():
    with pytest.raises(ManifestError, match=r"^config: OmegaConf cannot hold it: ") as caught:
        instantiate(Grid, {"sampler": "${unfinished"})
    assert "\n" not in str(caught.value)


def test_objects_of_a_test_reach_the_model():
    class Holds(Shows):
        def __init__(self, config):
            self.script = config["script"]

    assert instantiate(Holds, {"script": time.sleep}).script is time.sleep


@pytest.mark.usefixtures("_without_omegaconf")
def test_without_omegaconf_it_is_a_dict_whose_keys_are_attributes_too():
    class Plain(Shows):
        def __init__(self, config):
            self.given = config

    given = instantiate(Plain, {"net": {"layers": [{"width": 3}]}, "fps": 5}).given
    assert isinstance(given, dict)
    assert not isinstance(given, DictConfig)
    assert (given.net.layers[0].width, given["fps"], given.get("missing", 7)) == (3, 5, 7)
    given.fps = 6
    assert given["fps"] == 6
    with pytest.raises(AttributeError, match="no 'missing'; it has: net, fps"):
        given.missing  # noqa: B018


# ---- 0.x: parameters of its own --------------------------------------------------------------------------------------


class Template(Shows):
    """As the template of 0.x has it."""

    def __init__(self, fps: int = 30, size: tuple[int, int] = (480, 640), cfg: GridConfig | None = None, **kwargs):
        self.given = (fps, size, cfg, kwargs)


class Strict(Shows):
    def __init__(self, checkpoint, fps: int = 30):
        self.given = (checkpoint, fps)


@pytest.mark.parametrize(
    ("config", "given"),
    [
        ({}, (30, (480, 640), None, {})),
        ({"fps": 12, "size": [64, 64]}, (12, [64, 64], None, {})),
        ({"cfg": {"level": 4}, "seed": 5}, (30, (480, 640), {"level": 4}, {"seed": 5})),
    ],
)
def test_parameters_get_the_values_of_their_own_names(config, given):
    assert instantiate(Template, config).given == given


def test_a_mapping_for_a_parameter_has_attributes():
    assert instantiate(Template, {"cfg": {"level": 4}}).given[2].level == 4


def test_required_parameters_get_theirs_too():
    assert instantiate(Strict, {"checkpoint": "a.pt", "fps": 4}).given == ("a.pt", 4)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"fps": 4}, r"Strict\.__init__ needs checkpoint, which the configuration does not have; it has: fps"),
        ({"checkpoint": "a", "fsp": 4}, r"the configuration has fsp, which Strict\.__init__ does not take; "
                                        r"did you mean fps\?"),
        ({"checkpoint": "a", "x": 4}, r"the configuration has x, which Strict\.__init__ does not take; "
                                      "it takes: checkpoint, fps"),
    ],
)  # fmt: skip
def test_a_configuration_that_does_not_fit_names_missing_and_unknown_keys(config, message):
    with pytest.raises(ManifestError, match=f"(?m)^config: {message}$"):
        instantiate(Strict, config)


@pytest.mark.parametrize("named", ["config", "cfg", "anything"])
def test_a_parameter_named_config_or_the_only_one_gets_the_whole(named):
    namespace: dict[str, object] = {"Shows": Shows}
    exec(f"class One(Shows):\n    def __init__(self, {named}):\n        self.given = {named}", namespace)
    given = instantiate(namespace["One"], {"fps": 3}).given
    assert isinstance(given, DictConfig)
    assert given.fps == 3


def test_config_beside_others_gets_the_whole_and_a_wrapped_init_is_looked_through():
    class Both(Shows):
        def __init__(self, fps=30, config=None):
            self.given = (fps, config)

    class Wrapped(Shows):
        def __init__(self, *args):
            self.given = args

    assert instantiate(Both, {"fps": 3}).given == (30, {"fps": 3})
    assert instantiate(Wrapped, {"fps": 3}).given == ({"fps": 3},)


def test_an_init_without_parameters_is_called_without():
    class Bare(Shows):
        def __init__(self):
            self.made = True

    assert instantiate(Bare, {"fps": 3}).made
    assert instantiate(Shows, {"fps": 3}).value == 1


async def test_a_0x_model_is_served_by_its_own_names(autojump_clock):
    class Old(VideoModel):
        name: str = "template-video"

        def __init__(self, value: int = 1, **kwargs):
            self.value = value

        @command("set_value", description="of each pixel")
        def set_value(self, value: int):
            self.value = value

        def start_session(self):
            get_ctx().enable_monitoring()
            while get_ctx()._stop_evt.is_set() is False:
                get_ctx().emit_block(picture(self.value))
                time.sleep(0.1)

    async with open_server(Old, config={"value": 5}) as server:
        for _ in range(2):
            async with server.connect() as client:
                assert shown(await client.take(2)) == [5, 5]


# ---- the stop event --------------------------------------------------------------------------------------------------


async def test_the_stop_event_can_be_waited_for(autojump_clock):
    seen = []

    class Waits(VideoModel):
        def start_session(self):
            event = get_ctx()._stop_evt
            get_ctx().emit_block(picture(1))
            seen.append((event.wait(timeout=2.0), event.is_set()))
            seen.append((event.wait(-1), event.is_set()))
            seen.append((event.wait(), event.is_set()))
            seen.append((event.wait(5.0), get_ctx()._stop_evt.is_set()))

    async with open_server(Waits) as server:
        async with server.connect() as client:
            await client.take(1)
            await trio.sleep(7.0)
            assert seen == [(False, False), (False, False)]
            await client.close()
            await server.wait_left(client)
            assert trio.current_time() == pytest.approx(7.0)
        assert seen[2:] == [(True, True), (True, True)]


async def test_the_profiler_of_a_session_takes_the_calls_of_the_global_one(autojump_clock):
    class Profiled(VideoModel):
        def start_session(self):
            with get_ctx().profiler().section("forward", cuda_timing=None) as section:
                get_ctx().emit_block(picture(1))
            timer = get_ctx().profiler().timer("ttff")
            timer.start()
            timer.stop()
            get_ctx().emit_block(picture(2 if section.elapsed_ms == timer.elapsed_ms == 0.0 else 3))
            get_ctx()._stop_evt.wait()

    async with open_session(Profiled) as client:
        assert shown(await client.take(2)) == [1, 2]


# ---- tracks of 1.2 ---------------------------------------------------------------------------------------------------


class Tracks(VideoModel):
    """Tracks with the options that 1.x gives them."""

    overview = VideoOut()
    close_up = VideoOut(rate=0.0, default=True)
    voice = AudioOut(rate=16000.0)
    camera = VideoIn(rate=30.0, default=False)
    microphone = AudioIn()

    def start_session(self):
        ctx = get_ctx()
        for bucket in range(2):
            ctx.get_track("overview").emit(picture(1), bucket=bucket)
            ctx.get_track().emit(picture(2), bucket=bucket)
            ctx.get_track("voice").emit(np.zeros((1, 1600), np.int16), bucket=bucket)
        ctx._stop_evt.wait()


async def test_tracks_take_the_options_of_1x(autojump_clock):
    rates = {track.name: track.sample_rate for track in declaration_of(Tracks).tracks if track.kind == "audio"}
    assert rates == {"voice": 16_000, "microphone": 48_000}
    async with open_session(Tracks) as client:
        assert shown(await client.take(2, track="close_up")) == [2, 2]
        assert shown(await client.take(2, track="overview")) == [1, 1]


async def test_a_rate_of_zero_is_measured(autojump_clock):
    class Measured(VideoModel):
        main_video = VideoOut(0.0, True)

        def start_session(self):
            for value in range(3):
                get_ctx().get_track().emit(np.stack([picture(value)] * 4))
                time.sleep(1.0)
            get_ctx()._stop_evt.wait()

    async with open_session(Measured) as client:
        frames = await client.take(12)
        assert np.diff([frame.pts for frame in frames[8:]]) == pytest.approx([0.25] * 3, abs=2e-6)


def test_two_default_tracks_are_a_mistake():
    with pytest.raises(DeclarationError, match=r"TwoDefaults: left and right are both the default track"):

        class TwoDefaults(Shows):
            left = VideoOut(default=True)
            right = VideoOut(default=True)


# ---- what a model would wait for in vain ------------------------------------------------------------------------------


def test_a_model_with_on_media_is_refused():
    with pytest.raises(DeclarationError, match=r"Old\.on_media: .*on_frame\(self, frame\)"):

        class Old(Shows):
            def on_media(self, bundle):
                self.frame = bundle


def test_an_async_session_function_is_refused():
    with pytest.raises(DeclarationError, match=r"Old\.start_session: .*plain function"):

        class Old(Shows):
            async def start_session(self):
                pass
