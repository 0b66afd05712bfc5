"""`docs/guide/migration.md` names each name of Reactor 0.x to 2.x, and each is here as its row says."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "migration.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Every name")[2].partition("## Public models")[0]
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
    assert here.startswith(("the same", "none: "))
    for place in places(of):
        module = importlib.import_module(place.partition(" ")[0].replace("reactor_runtime", "reactor_trio"))
        assert (getattr(module, name, None) is not None) is here.startswith("the same"), place
