"""`prefetch` finds a checkpoint, reads its weights with progress, and downloads only if it was told to."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest

from reactor_trio.adapters import checkpoints, prefetch
from reactor_trio.interface.progress import reported_load


@pytest.fixture
def reports():
    """What `progress` says during the test, all of it."""
    said: list[tuple[float | None, str]] = []
    with reported_load(lambda call: call(), lambda fraction, text: said.append((fraction, text))):
        yield said


@pytest.fixture
def checkpoint(tmp_path):
    """A pipeline with 300 bytes of weights, and a pickle."""
    folder = tmp_path / "pipeline"
    for name, size in (("unet/a", 200), ("vae/b", 100)):
        path = folder / f"{name}.safetensors"
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(size))
    (folder / "unet" / "a.bin").write_bytes(bytes(5000))
    (folder / "model_index.json").write_text("{}")
    return folder


@pytest.fixture
def hub(monkeypatch, checkpoint):
    """A stand-in for `huggingface_hub`; `cached` and `online` are the names of repositories, `calls` what was asked."""
    hub = ModuleType("huggingface_hub")
    hub.cached, hub.online, hub.calls = set(), set(), []

    def snapshot_download(name, *, local_files_only=False, allow_patterns, revision, tqdm_class=None):
        hub.calls.append((name, local_files_only))
        if name in hub.cached:
            return str(checkpoint)
        if local_files_only or name not in hub.online:
            raise FileNotFoundError("a text of many lines\nthat nobody wants to read")
        assert allow_patterns == list(checkpoints.FILES)
        assert revision == "v1"
        for bar in (tqdm_class(total=2), tqdm_class(total=0, unit="B"), tqdm_class(total=0, unit="B")):
            if bar.unit == "B":
                bar.total = 4_000_000_000
            for _ in range(2):
                bar.update(bar.total // 2)
            bar.close()
        return str(checkpoint)

    hub.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    return hub


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(checkpoints, "PIECE", 75)


def test_a_folder_is_read_with_progress(checkpoint, reports, small_pieces):
    assert prefetch(str(checkpoint)) == checkpoint
    assert [round(fraction, 3) for fraction, _ in reports] == [0.25, 0.5, 0.667, 0.917, 1]
    assert reports[-1][1] == "reading weights, 0.00 of 0.00 GB"


def test_only_the_files_that_match_are_read(checkpoint, reports, small_pieces):
    prefetch(checkpoint, files=("vae/*.safetensors",))
    assert [fraction for fraction, _ in reports] == [0.75, 1]


def test_a_folder_without_weights_is_no_mistake(tmp_path, reports):
    assert prefetch(tmp_path) == tmp_path
    assert reports == []


def test_files_in_the_cache_are_not_requested(hub, checkpoint):
    hub.cached = {"ada/turbo"}
    assert prefetch("ada/turbo") == checkpoint
    assert hub.calls == [("ada/turbo", True)]


@pytest.mark.parametrize("download", [False, True])
def test_nothing_is_downloaded_without_a_request(hub, checkpoint, reports, download):
    hub.online = {"ada/turbo"}
    if download:
        assert prefetch("ada/turbo", download=True, revision="v1") == checkpoint
        assert reports[:3] == [
            (None, "downloading ada/turbo"),
            (0.5, "downloading ada/turbo, 2.00 of 4.00 GB"),
            (1.0, "downloading ada/turbo, 4.00 of 4.00 GB"),
        ]
        assert "reading" in reports[3][1]
    else:
        line = "'ada/turbo' is neither a folder nor in the local cache; fetch it with: hf download ada/turbo"
        with pytest.raises(FileNotFoundError, match=f"^{re.escape(line)}$"):
            prefetch("ada/turbo")
        assert hub.calls == [("ada/turbo", True)]


@pytest.mark.parametrize("name", ["/no/folder", "../turbo", "turbo", "a/b/c"])
def test_a_name_that_cannot_be_a_repository_is_an_absent_folder(hub, name):
    with pytest.raises(FileNotFoundError, match=f"^no folder '{re.escape(name)}'; a checkpoint is a folder, or"):
        prefetch(name)
    assert hub.calls == []
