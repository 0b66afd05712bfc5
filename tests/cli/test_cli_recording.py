"""`--record` of server and client, as processes over real sockets; the tests read the files as a player would."""

from __future__ import annotations

import importlib.util
import itertools
import json
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import av
import numpy as np
from tests.support.cli_doubles import reactor
from tests.support.forked_command import ForkedCommand

GRADIENT = Path(__file__).parents[2] / "examples" / "gradient"


@contextmanager
def running(*arguments):
    """Run the gradient example, small and at 20 frames a second. Yields the process and its URL."""
    with ForkedCommand(
        ["run", "--path", GRADIENT, "--port", "0", "--set", "width=160", "--set", "height=96", *arguments]
    ) as process:
        try:
            url = next((line.split()[-1] for line in process.stdout if " is ready: " in line), None)
            assert url is not None, process.stderr.read()
            yield process, url
        finally:
            if process.poll() is None:
                process.kill()


def pictures(path):
    """Return times in seconds and RGB pictures of the film."""
    with av.open(str(path)) as film:
        frames = list(film.decode(video=0))
        return [float(f.pts * f.time_base) for f in frames], [f.to_ndarray(format="rgb24") for f in frames]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def expected(number, brightness):
    """Compute frame `number` as the example's model does."""
    spec = importlib.util.spec_from_file_location("recorded_gradient", GRADIENT / "pipeline.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.render_batch(160, 96, 1, number, brightness)[0][0].astype(float)


def check(film, timeline):
    """Check a film of the gradient: its size, growing times, the first picture, as many frames as the timeline says."""
    times, shown = pictures(film)
    told = lines(timeline)
    assert (told[0]["type"], told[-1]["type"]) == ("session", "end")
    assert told[-1]["frames"]["main_video"] == len(times)
    assert {picture.shape for picture in shown} == {(96, 160, 3)}
    assert times[0] == 0
    assert all(after > before for before, after in itertools.pairwise(times))
    assert 0.9 < times[-1] < 30
    return told, shown


def test_server_and_client_record_the_same_session(tmp_path):
    mine = tmp_path / "mine.mp4"
    with running("--record", tmp_path / "films") as (process, url):
        done = reactor("client", url, "--record", mine, "--send", "set_brightness=0.25", "--seconds", "1.5")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"recorded {mine}: main_video " in done.stdout.splitlines()[-1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    (film,) = (tmp_path / "films").glob("*.mp4")
    theirs, server_pictures = check(film, film.with_suffix(".jsonl"))
    ours, client_pictures = check(mine, mine.with_suffix(".jsonl"))
    assert theirs[0]["session_id"] == ours[0]["session_id"]
    (applied,) = (line for line in theirs if line["type"] == "command")
    (sent,) = (line for line in ours if line["type"] == "command")
    assert (sent["name"], sent["arguments"]) == ("set_brightness", {"brightness": 0.25})
    assert (sent["name"], sent["arguments"], sent["step"]) == (applied["name"], applied["arguments"], applied["step"])
    first = expected(0, brightness=1.0 if applied["step"] else 0.25)
    assert np.abs(server_pictures[0].astype(float) - first).mean() < 8
    for shown in (server_pictures, client_pictures):
        assert shown[-1].mean() < expected(0, brightness=1.0).mean() * 0.4


def test_a_killed_server_leaves_all_but_the_last_second(tmp_path):
    with running("--record", tmp_path / "films") as (process, url):
        with ForkedCommand(["client", url]) as client:
            try:
                for _ in range(4):  # the session's line and three seconds of figures
                    assert client.stdout.readline()
                process.kill()
                process.wait(120)
            finally:
                client.kill()
    (film,) = (tmp_path / "films").glob("*.mp4")
    times, shown = pictures(film)
    assert times[-1] > 1.5
    assert shown[0].shape == (96, 160, 3)
    assert lines(film.with_suffix(".jsonl"))[0]["type"] == "session"


def test_a_file_that_exists_is_refused_before_anything_is_recorded(tmp_path):
    (tmp_path / "out.mp4").write_text("precious")
    with running() as (_, url):
        done = reactor("client", url, "--record", tmp_path / "out.mp4", "--seconds", "1")
    assert done.returncode == 2
    assert done.stderr.endswith("there is a recording of this name; choose another\n")
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "out.mp4").read_text() == "precious"


def test_a_kind_of_file_that_cannot_be_written_is_exit_code_2(tmp_path):
    done = reactor("client", "127.0.0.1:1", "--record", tmp_path / "out.gif")
    assert done.returncode == 2
    assert "name a file that ends in .mp4, .mkv, .webm" in done.stderr


def test_a_folder_that_cannot_be_made_is_exit_code_2(tmp_path):
    (tmp_path / "file").write_text("")
    done = reactor("run", "--path", GRADIENT, "--port", "0", "--record", tmp_path / "file" / "films")
    assert done.returncode == 2
    assert done.stderr == f"reactor: runtime.record: {tmp_path / 'file' / 'films'}: Not a directory\n"
