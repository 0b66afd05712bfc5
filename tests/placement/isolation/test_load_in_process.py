"""What is given to a model in a process of its own and cannot cross, and what the class is checked for, and how often."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from reactor_trio import DeclarationError, Output, ReactorPipeline, Video
from reactor_trio.errors import ManifestError, ModelFailed
from reactor_trio.placement import model_source
from reactor_trio.placement.isolation import isolated_worker
from reactor_trio.testing import open_server
from reactor_trio.testing.inline_process import InlineProcess


class Picture(Output):
    main_video: Video


class Shows(ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        while True:
            yield np.zeros((4, 6, 3), np.uint8)


async def test_a_config_that_cannot_be_sent_to_another_process_is_named_and_the_process_ends(autojump_clock, monkeypatch):
    started = []

    def pack(process, given):
        started.append(process)
        return pickle.dumps(given)  # as a real process does

    monkeypatch.setattr(InlineProcess, "pack", pack)
    said = r"Shows: its config cannot be sent to another process, \w+: .*lambda.*\. Leave such a value out"
    with pytest.raises(ManifestError, match=said) as failed:
        async with open_server(Shows, config={"make": lambda: 0}, isolation="process"):
            pass
    assert failed.value.__cause__ is not None
    assert [process.exit() for process in started] == ["was killed"]


async def test_a_config_that_the_process_cannot_read_is_a_load_that_failed(autojump_clock, monkeypatch):
    def unpack(_process, _data):
        raise ModuleNotFoundError("No module named 'settings_of_mine'")

    monkeypatch.setattr(InlineProcess, "unpack", unpack)
    with pytest.raises(ModelFailed, match=r"Shows: load\(\) raised ModuleNotFoundError: No module named 'settings_of_mine'"):
        async with open_server(Shows, isolation="process"):
            pass


@pytest.mark.parametrize(("how", "times"), [({}, (1, 0)), ({"isolation": "process"}, (1, 1))], ids=["thread", "process"])
async def test_each_process_checks_the_class_once_and_first(autojump_clock, monkeypatch, how, times):
    checks = []
    for module in (model_source, isolated_worker):
        check = module.check_model
        monkeypatch.setattr(module, "check_model", lambda *given, at=module, check=check: checks.append(at) or check(*given))
    async with open_server(Shows, **how):
        pass
    assert (checks.count(model_source), checks.count(isolated_worker)) == times


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["thread", "process"])
async def test_a_class_that_is_wrong_is_refused_before_it_is_made(autojump_clock, how):
    class Wrong(Shows):
        fps = -1

        def __init__(self):
            raise AssertionError("it was made")

    with pytest.raises(ModelFailed, match=r"Wrong\.fps must be a finite number above 0") as failed:
        async with open_server(Wrong, **how):
            pass
    assert isinstance(failed.value.__cause__, DeclarationError)
