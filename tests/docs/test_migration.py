"""`docs/reference/model/migration.md` names each name of Reactor 0.x to 3.10, and each is here as its row says."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "model" / "migration.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Every name")[2].partition("## Public models")[0]
ROWS_OF_3X = re.findall(r"^\| `(reactor_runtime[\w.]*)` \| ([^|]+) \| ([^|]*) \|$", SECTION, re.MULTILINE)
ROWS = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", SECTION, re.MULTILINE)

#: what the released packages export
EXPORTED = {
    "reactor_runtime 2.x": (
        "ReactorConfig ClientInfo ReactorCore ReactorModel Event Connected Disconnected EVENT_REGISTRY "
        "ModelMessage MESSAGE_REGISTRY FieldInfo InputField InputFrame Output Input Video Audio OUTPUT_REGISTRY "
        "INPUT_REGISTRY OutputBuffer InputBuffer event connected disconnected get_profiler get_weights_path "
        "__version__"
    ),
    "reactor_runtime.interface 2.x": (
        "Output Input Video Audio OUTPUT_REGISTRY INPUT_REGISTRY all_output_tracks all_input_tracks ClientInfo "
        "Event Connected Disconnected FileUploaded UploadedFile EVENT_REGISTRY MessageField ModelMessage "
        "MESSAGE_REGISTRY ReactorModel event connected disconnected file_uploaded FieldInfo InputField "
        "ReactorPipeline InputState Idle PipelineExecutor StepResult ReactorCore OutputBuffer InputBuffer "
        "BufferClosed ReadMode InputFrame"
    ),
    "reactor_runtime 1.x": (
        "VideoModel command model get_ctx MediaBundle TrackDirection Track OutputTrack InputTrack VideoOut "
        "AudioOut VideoIn AudioIn __version__"
    ),
    "reactor_runtime.model_api 1.x": "VideoModel command model",
    "reactor_runtime.tracks 1.x": "Track OutputTrack InputTrack VideoOut AudioOut VideoIn AudioIn",
    "reactor_runtime 0.x": "VideoModel command get_ctx",
    "reactor_runtime.model_api 0.x": "VideoModel command",
}

#: what 3.10.0 exports
EXPORTED_BY_3X = {
    "reactor_runtime": (
        "EVENT_REGISTRY INPUT_REGISTRY MESSAGE_REGISTRY OUTPUT_REGISTRY ApplicationError Audio BufferClosed "
        "ClientInfo Command CommandError FieldInfo InputBuffer InputField InputFrame InputState MediaInput "
        "MessageField Metadata ModelMessage Output OutputStream ReactorApp ReadMode StepCompleted StepOutcome Track "
        "TrackPayload UploadedFile Video __version__ all_input_tracks all_output_tracks connected disconnected event "
        "file_uploaded get_logger get_weights_path session_ended session_started ReactorModel Input ReactorPipeline "
        "Idle"
    ),
    "reactor_runtime.interface": (
        "EVENT_REGISTRY INPUT_REGISTRY MESSAGE_REGISTRY OUTPUT_REGISTRY ApplicationError Audio BufferClosed "
        "ClientInfo Command CommandError FieldInfo InputBuffer InputField InputFrame InputState MediaInput "
        "MessageField Metadata ModelMessage Output OutputStream ReactorApp ReadMode StepCompleted StepOutcome Track "
        "TrackPayload UploadedFile Video all_input_tracks all_output_tracks connected disconnected event "
        "file_uploaded session_ended session_started ReactorModel Input ReactorPipeline Idle"
    ),
    "reactor_runtime.interface.app": (
        "InputState ReactorApp StepCompleted StepOutcome"
    ),
    "reactor_runtime.interface.events": (
        "EVENT_REGISTRY MESSAGE_REGISTRY ApplicationError CommandError EventHandler MessageField MessageFieldInfo "
        "MessageFieldSpec ModelMessage connected disconnected event file_uploaded make_command session_ended "
        "session_started"
    ),
    "reactor_runtime.interface.model": (
        "CommandSchema CommandSpec ContractError LifecycleHooks MessageSchema ModelContract ModelSchema TrackSchema "
        "ReactorModel"
    ),
    "reactor_runtime.interface.pipeline": (
        "Idle InputState ReactorPipeline"
    ),
    "reactor_runtime.interface.tracks": (
        "INPUT_REGISTRY OUTPUT_REGISTRY Audio MediaInput Metadata Output Track TrackPayload Video all_input_tracks "
        "all_output_tracks Input"
    ),
}


def places(column: str) -> set[str]:
    """`` `reactor_runtime`, `reactor_runtime.interface` 2.x `` as module and release."""
    modules, releases = re.findall(r"`([\w.]+)`", column), re.findall(r"\d\.x", column)
    return {f"{module} {release}" for module in modules for release in releases}


def test_each_name_that_reactor_exports_has_one_row():
    names = [name for name, _, _ in ROWS]
    assert len(names) == len(set(names))
    assert set(names) == {name for exported in EXPORTED.values() for name in exported.split()}


@pytest.mark.parametrize("place", EXPORTED)
def test_rows_say_where_reactor_has_a_name(place):
    assert {name for name, of, _ in ROWS if place in places(of)} == set(EXPORTED[place].split())


@pytest.mark.parametrize(("name", "of", "here"), ROWS, ids=[name for name, _, _ in ROWS])
def test_a_name_is_here_as_its_row_says(name, of, here):
    if here.startswith("another: "):
        return
    assert here.startswith(("the same", "none: "))
    for place in places(of):
        module = importlib.import_module(place.partition(" ")[0].replace("reactor_runtime", "reactor_trio"))
        assert (getattr(module, name, None) is not None) is here.startswith("the same"), place


def test_each_package_of_3x_has_one_row():
    assert [package for package, _, _ in ROWS_OF_3X] == list(EXPORTED_BY_3X)


@pytest.mark.parametrize(("package", "same", "none"), ROWS_OF_3X, ids=[package for package, _, _ in ROWS_OF_3X])
def test_a_package_of_3x_has_the_names_of_its_row(package, same, none):
    module = importlib.import_module(package.replace("reactor_runtime", "reactor_trio"))
    here, absent = (set(re.findall(r"`(\w+)`", column)) for column in (same, none))
    assert here | absent == set(EXPORTED_BY_3X[package].split())
    assert {name for name in here | absent if hasattr(module, name)} == here
