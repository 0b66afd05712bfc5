"""Names of Reactor 2.x for programs other than models: registries, event classes, the profiler."""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

import reactor_trio
from reactor_trio import interface
from reactor_trio.errors import DeclarationError, ManifestError
from reactor_trio.interface import (
    EVENT_REGISTRY,
    INPUT_REGISTRY,
    MESSAGE_REGISTRY,
    OUTPUT_REGISTRY,
    Audio,
    Connected,
    Disconnected,
    Event,
    FileUploaded,
    Input,
    InputField,
    InputFrame,
    InputState,
    ModelMessage,
    Output,
    OutputBuffer,
    ReactorCore,
    ReactorModel,
    ReactorPipeline,
    UploadedFile,
    Video,
    all_input_tracks,
    all_output_tracks,
    event,
    get_profiler,
)
from reactor_trio.testing import open_server


class Voice16k(Audio):
    sample_rate = 16_000


@dataclass
class RegisteredOutput(Output):
    registered_video: Video
    registered_voice: Voice16k


class RegisteredInput(Input):
    registered_camera: Video


class RegisteredNews(ModelMessage):
    text: str


class RegisteredState(InputState):
    registered_level: float = InputField(default=0.5, ge=0.0)
    registered_words: list[str] = []


class Registered(ReactorPipeline):
    state: RegisteredState
    output: RegisteredOutput
    camera: RegisteredInput

    @event(name="registered_jump")
    def jump(self, height: int, kind: str = InputField(default="high", description="how")):
        pass

    def inference(self):
        yield None


def test_registries_list_the_declared_classes():
    assert OUTPUT_REGISTRY["RegisteredOutput"] is RegisteredOutput
    assert INPUT_REGISTRY["RegisteredInput"] is RegisteredInput
    assert MESSAGE_REGISTRY["registered_news"] is RegisteredNews
    gc.collect()  # else a class of an earlier test may go between two readings
    for registry in (OUTPUT_REGISTRY, INPUT_REGISTRY, MESSAGE_REGISTRY, EVENT_REGISTRY):
        assert isinstance(registry, Mapping)
        assert len(registry) == len(set(registry))
        assert "no_such_name" not in registry
        with pytest.raises(KeyError, match="no_such_name"):
            registry["no_such_name"]


def test_all_tracks_of_all_classes_by_name():
    assert all_output_tracks()["registered_video"] is Video
    assert all_output_tracks()["registered_voice"] is Voice16k
    assert all_input_tracks()["registered_camera"] is Video
    assert "registered_camera" not in all_output_tracks()


def test_an_event_of_a_model_is_a_class_with_its_arguments():
    jump = EVENT_REGISTRY["registered_jump"]
    assert EVENT_REGISTRY["registered_jump"] is jump
    assert issubclass(jump, Event)
    assert (jump.name, jump.__name__, [field.name for field in fields(jump)]) == (
        "registered_jump", "RegisteredJump", ["height", "kind"],
    )  # fmt: skip
    made = jump(height=3)
    assert (made.height, made.kind) == (3, "high")
    assert made == jump(height=3)


def test_a_state_field_is_an_event_too_and_its_default_is_not_shared():
    words = EVENT_REGISTRY["set_registered_words"]
    words().registered_words.append("x")
    assert words().registered_words == []
    assert EVENT_REGISTRY["set_registered_level"]().registered_level == 0.5


def test_a_deleted_class_leaves_the_registries():
    def declare():
        class Passing(ReactorPipeline):
            @event(name="passing_by")
            def pass_by(self):
                pass

            def inference(self):
                yield None

        assert "passing_by" in EVENT_REGISTRY

    declare()
    gc.collect()
    assert "passing_by" not in EVENT_REGISTRY


def test_an_author_s_event_class_is_refused():
    with pytest.raises(DeclarationError, match=r"SetLevel: .*@event"):

        class SetLevel(Event):
            level: float


def test_names_of_3x():
    assert (reactor_trio.Command, reactor_trio.Track) == (interface.Command, interface.Track)
    assert issubclass(EVENT_REGISTRY["registered_jump"], interface.Command)
    assert [issubclass(marker, interface.Track) for marker in (Video, Audio, Voice16k)] == [True] * 3
    assert (Video.kind, Voice16k.kind) == ("video", "audio")
    assert reactor_trio.Metadata == dict[str, Any] | bytes


def test_a_name_that_another_module_defines_is_the_same_in_the_package_of_3x():
    packages = {"events": "MESSAGE_REGISTRY ApplicationError MessageField", "tracks": "MediaInput all_input_tracks Track"}
    for package, names in packages.items():
        module = importlib.import_module(f"reactor_trio.interface.{package}")
        assert all(getattr(module, name) is getattr(interface, name) for name in names.split())
        with pytest.raises(AttributeError, match=f"interface.{package}' has no attribute 'nothing'"):
            module.nothing  # noqa: B018


def test_the_contract_is_in_the_package_too():
    from reactor_trio.interface.model import LifecycleHooks, ModelContract

    assert isinstance(ModelContract.of(Registered).lifecycle, LifecycleHooks)


def test_a_test_makes_an_input_frame_of_its_data_alone():
    frame = InputFrame(data=np.zeros((2, 2, 3), np.uint8))
    assert (frame.pts, frame.metadata, frame.capture_time_us) == (0.0, None, None)


def test_lifecycle_events_have_the_fields_of_2x():
    assert issubclass(Connected, Event)
    assert (Connected().connected_users, Disconnected().connected_users) == (1, 0)
    file = UploadedFile("a.png", "image/png", 2, b"xy")
    assert FileUploaded(file).file is file


def test_the_core_is_the_base_of_both_kinds():
    assert issubclass(ReactorPipeline, ReactorCore)
    assert issubclass(ReactorModel, ReactorCore)


async def test_the_output_buffer_can_be_recognised(autojump_clock):
    async with open_server(Registered) as server:
        assert isinstance(server.model.output_buffer, OutputBuffer)


def test_the_profiler_measures_nothing_and_takes_every_call():
    profiler = get_profiler()
    with profiler.section("forward", None, bucket_boundaries=[1, 2]) as section, profiler.section("inner"):
        assert section.elapsed_ms == 0.0
    timer = profiler.timer("ttff", bucket_boundaries=None)
    timer.start()
    timer.stop()
    timer.cancel()
    profiler.flush("out.json")
    profiler.shutdown()
    assert get_profiler() is profiler


def test_the_version_is_that_of_the_distribution():
    assert reactor_trio.__version__ == importlib.metadata.version("reactor-trio")


def test_the_version_of_a_checkout_that_is_not_installed(monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    monkeypatch.delitem(vars(reactor_trio), "__version__", raising=False)
    assert reactor_trio.__version__ == "0.0.0.dev"
    del vars(reactor_trio)["__version__"]  # `monkeypatch` would put this one back


def test_a_manifest_can_be_read_from_a_mapping():
    config = reactor_trio.ReactorConfig.from_dict({"model": "pipeline:MyModel", "name": "mine", "config": "config.yml"})
    assert (config.model, config.name, config.config) == ("pipeline:MyModel", "mine", "config.yml")
    nested = reactor_trio.ReactorConfig.from_dict({"runtime": {"import": "a:B", "weights_path": "w"}})
    assert (nested.model, nested.name, nested.config, nested.weights_path) == ("a:B", "", None, "w")
    with pytest.raises(ManifestError, match="model: missing"):
        reactor_trio.ReactorConfig.from_dict({})
