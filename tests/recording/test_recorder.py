"""Packets into files and back: each codec, changes within a stream, sound beside pictures, and dropped packets."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import av
import msgspec
import numpy as np
import pytest
from tests.support.recording_streams import STEP, lines, look, opus, sound, video

import reactor_trio
from reactor_trio.errors import ReactorError
from reactor_trio.recording import Recorder


def record(path, *streams):
    """Record the streams, merged by time. Returns the number of dropped packets by reason."""
    recorder = Recorder(path, [track for track, _ in streams])
    for packet, track in sorted(((p, t) for t, ps in streams for p in ps), key=lambda entry: entry[0].pts_us):
        recorder.put(track, packet)
        recorder.write()
    recorder.close(9.0, "done")
    assert recorder.failure is None
    return recorder.left_out()


CODECS = ["h264", "vp9", "av1", "jpeg", "raw"]
NAMES = {"jpeg": "mjpeg", "raw": "h264"}


@pytest.mark.parametrize(
    ("codec", "suffix"),
    [(codec, suffix) for codec in CODECS for suffix in (".mp4", ".mkv")]
    + [("vp8", ".mkv")] + [(codec, ".webm") for codec in ("vp8", "vp9", "av1")],
)  # fmt: skip
def test_each_codec_is_read_back_picture_by_picture(tmp_path, codec, suffix):
    path = tmp_path / f"out{suffix}"
    assert record(path, video(codec, 40, begin=2_000_000)) == {}
    seen = look(path)
    assert seen.codecs == [NAMES.get(codec, codec)]
    assert seen.grays() == [i % 12 for i in range(40)]
    assert seen.pictures[0][0].shape == (48, 64, 3)
    exact = [round(i * STEP / 1e6, 6) for i in range(40)]
    assert seen.times[0] == (exact if suffix == ".mp4" else [round(at, 3) for at in exact])  # Matroska counts in ms


def test_raw_pictures_of_an_odd_size_keep_it(tmp_path):
    record(tmp_path / "odd.mp4", video("raw", 3, size=(33, 31)))
    assert look(tmp_path / "odd.mp4").pictures[0][0].shape == (31, 33, 3)


def test_compressed_packets_are_copied_unchanged(tmp_path):
    track, packets = video("vp9", 5)
    record(tmp_path / "out.mkv", (track, packets))
    with av.open(str(tmp_path / "out.mkv")) as file:
        assert [bytes(p) for p in file.demux(video=0) if p.size] == [bytes(p.payload) for p in packets]


def onset(samples, rate):
    """Seconds until the tone begins."""
    return int(np.argmax(np.abs(samples) > np.abs(samples).max() / 4)) / rate


@pytest.mark.parametrize("rate", [48_000, 16_000, 44_100, 50_000])
def test_samples_of_sound_are_encoded_and_stay_in_sync(tmp_path, rate):
    """The sound begins 0.4 s after the picture, in the file too."""
    left_out = record(tmp_path / "out.mp4", video("h264", 60, begin=1_000_000), sound(30, rate=rate, begin=1_400_000))
    seen = look(tmp_path / "out.mp4")
    assert left_out == {}
    assert seen.codecs == ["h264", "aac"]
    assert onset(seen.sound, seen.rate) == pytest.approx(0.4, abs=0.02)
    assert seen.times[0][:2] == [0, 0.033333]


def test_sound_before_the_first_picture_is_cut_where_the_file_begins(tmp_path):
    record(tmp_path / "out.mp4", sound(30, seconds_on=0.2), video("h264", 30, begin=500_000))
    seen = look(tmp_path / "out.mp4")
    assert np.abs(seen.sound).max() < 0.01  # the tone ended before the first picture
    assert len(seen.sound) / seen.rate == pytest.approx(0.7, abs=0.05)


def test_a_gap_in_the_sound_is_filled_with_silence(tmp_path):
    track, packets = sound(30)
    record(tmp_path / "out.mp4", video("h264", 40), (track, packets[:5] + packets[15:]))
    seen = look(tmp_path / "out.mp4")
    middle = seen.sound[int(0.25 * seen.rate) : int(0.55 * seen.rate)]
    after = seen.sound[int(0.65 * seen.rate) : int(0.9 * seen.rate)]
    assert np.abs(middle).max() < 0.01 < np.abs(after).max() / 10


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".webm"])
def test_opus_is_copied_and_a_gap_is_filled_with_silence(tmp_path, suffix):
    track, packets = opus(30)
    path = tmp_path / f"out{suffix}"
    record(path, video("vp9", 40), (track, packets[:5] + packets[15:]))
    seen = look(path)
    assert seen.codecs == ["vp9", "opus"]
    middle = seen.sound[int(0.27 * seen.rate) : int(0.55 * seen.rate)]
    after = seen.sound[int(0.65 * seen.rate) : int(0.9 * seen.rate)]
    assert np.abs(middle).max() < 0.01 < np.abs(after).max() / 10


def test_sound_alone(tmp_path):
    record(tmp_path / "out.mp4", sound(30, begin=7_000_000))
    seen = look(tmp_path / "out.mp4")
    assert onset(seen.sound, seen.rate) < 0.02


def test_a_silent_sound_track_does_not_delay_the_pictures(tmp_path):
    """The sound track has no packets; the pictures are in the file at once nevertheless."""
    (silent, _), (track, packets) = sound(0), video("h264", 90)
    recorder = Recorder(tmp_path / "out.mp4", [track, silent])
    for packet in packets:
        recorder.put(track, packet)
    recorder.write()
    assert look(tmp_path / "out.mp4").times[0][-1] >= 2.0
    recorder.close(3.0, "done")
    assert len(look(tmp_path / "out.mp4").times[0]) == 90


def test_a_change_of_size_or_codec_begins_a_new_file_at_a_keyframe(tmp_path):
    first, second = video("h264", 10), video("h264", 10, size=(32, 24), begin=10 * STEP, first=10)
    third = video("jpeg", 5, size=(32, 24), begin=20 * STEP, first=20)
    second = second[0], [*second[1][:6], *second[1][6:]]
    assert record(tmp_path / "out.mp4", first, second, third, sound(25, block=STEP / 1e6)) == {}
    files = [look(tmp_path / name) for name in ("out.mp4", "out-2.mp4", "out-3.mp4")]
    assert [seen.codecs for seen in files] == [["h264", "aac"], ["h264", "aac"], ["mjpeg", "aac"]]
    assert [seen.grays() for seen in files] == [[*range(10)], [10, 11, *range(8)], [8, 9, 10, 11, 0]]
    assert [seen.pictures[0][0].shape for seen in files] == [(48, 64, 3), (24, 32, 3), (24, 32, 3)]
    told = [line for line in lines(tmp_path / "out.jsonl") if line["type"] == "file"]
    assert [(line["file"], line["t"]) for line in told] == [
        ("out.mp4", 0), ("out-2.mp4", 10 * STEP / 1e6), ("out-3.mp4", 20 * STEP / 1e6)
    ]  # fmt: skip


def test_pictures_before_a_keyframe_are_dropped_and_a_keyframe_is_requested(tmp_path):
    track, packets = video("h264", 10)
    other, more = video("h264", 10, size=(32, 24), begin=10 * STEP)
    recorder = Recorder(tmp_path / "out.mp4", [track])
    for packet in packets[1:4]:
        recorder.put(track, packet)
    recorder.write()
    assert (recorder.left_out(), recorder.left_out()) == ({"before_keyframe": 3}, {})
    assert (recorder.keyframes_wanted(), recorder.keyframes_wanted()) == ({0}, set())
    for packet in packets:
        recorder.put(track, packet)
    recorder.put(other, more[1])
    recorder.write()
    assert recorder.keyframes_wanted() == {0}
    recorder.put(other, more[0])
    recorder.close(1.0, "done")
    assert len(look(tmp_path / "out.mp4").times[0]) == 10
    assert len(look(tmp_path / "out-2.mp4").times[0]) == 1
    assert lines(tmp_path / "out.jsonl")[-1] == {
        "type": "end", "t": 1.0, "reason": "done", "frames": {"video_0": 11}, "left_out": {"before_keyframe": 4}
    }  # fmt: skip


def test_two_video_tracks_wait_for_each_other_and_keep_their_distance(tmp_path):
    first, second = video("h264", 30), video("vp9", 30, index=1, begin=200_000)
    assert record(tmp_path / "out.mp4", first, second) == {}
    seen = look(tmp_path / "out.mp4")
    assert seen.codecs == ["h264", "vp9"]
    # a fragmented file cannot start late: its first picture is shown from time 0
    assert [times[:2] for times in seen.times] == [[0, 0.033333], [0, 0.233333]]


def test_a_video_track_that_starts_much_later_begins_a_new_file(tmp_path):
    first = video("jpeg", 60)
    assert record(tmp_path / "out.mp4", first, video("jpeg", 30, index=1, begin=45 * STEP + 1)) == {}
    assert (look(tmp_path / "out.mp4").codecs, look(tmp_path / "out-2.mp4").codecs) == (["mjpeg"], ["mjpeg", "mjpeg"])


def test_a_codec_that_the_file_cannot_carry_ends_the_recording_with_one_line(tmp_path, caplog):
    track, packets = video("vp8", 2)
    recorder = Recorder(tmp_path / "out.mp4", [track])
    for packet in packets:
        recorder.put(track, packet)
        recorder.write()
    recorder.close(1.0, "done")
    (entry,) = caplog.records
    assert entry.getMessage().endswith("MP4 cannot carry vp8 of track video_0; record to a .mkv file")
    assert lines(tmp_path / "out.jsonl")[-1]["left_out"] == {"failed": 1}


def test_broken_data_ends_the_recording_and_raises_nothing(tmp_path, caplog):
    track, packets = video("h264", 1)
    packets[0].payload = memoryview(b"no picture at all")
    recorder = Recorder(tmp_path / "out.mp4", [track])
    recorder.put(track, packets[0])
    recorder.write()
    recorder.close(0.0, "done")
    assert recorder.failure
    assert len(caplog.records) == 1


def test_a_full_queue_drops_packets_until_the_next_keyframe(tmp_path, monkeypatch):
    monkeypatch.setattr("reactor_trio.recording.recorder.MAX_PACKETS", 3)
    track, packets = video("h264", 6)
    recorder = Recorder(tmp_path / "out.mp4", [track])
    for packet in packets:
        recorder.put(track, packet)
    assert recorder.left_out() == {"disk_too_slow": 1, "until_keyframe": 2}
    assert recorder.keyframes_wanted() == {0}
    recorder.write()
    recorder.put(track, packets[5])
    assert recorder.left_out() == {"until_keyframe": 1}
    _, again = video("h264", 2, begin=20 * STEP, first=6)
    for packet in again:
        recorder.put(track, packet)
    recorder.close(1.0, "done")
    assert look(tmp_path / "out.mp4").grays() == [0, 1, 2, 6, 7]


def test_the_bytes_in_the_queue_are_bounded_too(tmp_path, monkeypatch):
    track, packets = video("raw", 4)
    monkeypatch.setattr("reactor_trio.recording.recorder.MAX_BYTES", 2 * packets[0].payload.nbytes)
    recorder = Recorder(tmp_path / "out.mp4", [track])
    for packet in packets:
        recorder.put(track, packet)
    assert recorder.left_out() == {"disk_too_slow": 2}
    recorder.close(1.0, "done")


@pytest.mark.parametrize(("name", "what"), [("out.avi", ".mp4, .mkv, .webm"), ("no/out.mp4", "No such file")])
def test_an_unusable_file_name_is_refused(tmp_path, name, what):
    with pytest.raises(ReactorError, match=what):
        Recorder(tmp_path / name, [])


@pytest.mark.parametrize("there", ["out.mp4", "out.jsonl"])
def test_a_recording_never_overwrites_another(tmp_path, there):
    (tmp_path / there).write_text("precious")
    with pytest.raises(ReactorError, match="there is a recording of this name"):
        Recorder(tmp_path / "out.mp4", [])
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(there, "precious")]


def test_without_pyav_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("reactor_trio.recording.containers.find_spec", lambda name: None)
    with pytest.raises(ReactorError, match=r'pip install "reactor-trio\[video\]"'):
        Recorder(tmp_path / "out.mp4", [])


# ---- what is left after a hard end ------------------------------------------------------------------------------------


def in_a_process(tmp_path, code, **options):
    """Run `code`, with the names of this module imported, in a process of its own."""
    head = (
        "import sys, os, signal, logging; from pathlib import Path\n"
        "from tests.support.recording_streams import *; from reactor_trio.recording import Recorder\n"
        f"folder = Path({str(tmp_path)!r})\n"
    )
    roots = (Path(reactor_trio.__file__).parents[1], Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, roots))}
    return subprocess.run(
        [sys.executable, "-c", head + code], env=environment, capture_output=True, text=True, timeout=120, check=False,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
@pytest.mark.parametrize("codec", ["h264", "raw"])
def test_after_a_kill_the_file_lacks_at_most_the_last_second(tmp_path, codec, suffix):
    done = in_a_process(
        tmp_path,
        f"(video_track, pictures), (sound_track, blocks) = video({codec!r}, 150), sound(125)\n"
        f"recorder = Recorder(folder / 'out{suffix}', [video_track, sound_track])\n"
        "merged = [(video_track, p) for p in pictures] + [(sound_track, p) for p in blocks]\n"
        "for number, (track, packet) in enumerate(sorted(merged, key=lambda entry: entry[1].pts_us)):\n"
        "    recorder.put(track, packet)\n"
        "    recorder.note({'type': 'number', 'number': number})\n"
        "    recorder.write()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    seen = look(tmp_path / f"out{suffix}")
    assert seen.times[0][-1] > 150 * STEP / 1e6 - 1
    assert len(seen.sound) / seen.rate > 4
    assert seen.grays() == [i % 12 for i in range(len(seen.times[0]))]
    assert lines(tmp_path / "out.jsonl")[-1] == {"type": "number", "number": 274}


def test_a_full_disk_ends_the_recording_with_one_line_and_keeps_what_was_written(tmp_path):
    limit = 40_000
    done = in_a_process(
        tmp_path,
        "logging.basicConfig(format='%(message)s')\n"
        "track, packets = video('jpeg', 200)\n"
        "recorder = Recorder(folder / 'out.mp4', [track])\n"
        "for packet in packets:\n"
        "    recorder.put(track, packet)\n"
        "    recorder.write()\n"
        "recorder.close(7.0, 'done')\n"
        "print(recorder.failure)\n",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 0
    assert done.stdout == "File too large\n"
    assert done.stderr == f"the recording {tmp_path / 'out.mp4'} ended, the session goes on: File too large\n"
    assert len(look(tmp_path / "out.mp4").times[0]) >= 15
    end = lines(tmp_path / "out.jsonl")[-1]
    assert (end["type"], end["failure"]) == ("end", "File too large")


# ---- a timeline that is full ------------------------------------------------------------------------------------------


def size_of(*entries):
    return sum(len(msgspec.json.encode(entry)) + 1 for entry in entries)


def test_a_timeline_may_have_exactly_its_bytes(tmp_path, caplog):
    entries = [{"type": "message", "t": 0.5, "name": "hello", "data": "x" * size} for size in (10, 1000)]
    for name, most in (("fits", size_of(*entries)), ("full", size_of(*entries) - 1)):
        recorder = Recorder(tmp_path / f"{name}.mp4", [], most)
        for entry in entries:
            recorder.note(entry)
        recorder.close(1.0, "done")
    assert lines(tmp_path / "fits.jsonl")[:-1] == entries
    assert "failure" not in lines(tmp_path / "fits.jsonl")[-1]
    first, end = lines(tmp_path / "full.jsonl")
    assert first == entries[0]
    why = f"its timeline has the {size_of(*entries) - 1} bytes that it may have (runtime.limits.timeline_bytes)"
    assert (end["type"], end["reason"], end["failure"]) == ("end", "done", why)
    (entry,) = caplog.records
    assert entry.getMessage() == f"the recording {tmp_path / 'full.mp4'} ended, the session goes on: {why}"


def test_a_full_timeline_ends_the_film_cleanly_and_later_frames_are_counted(tmp_path):
    track, packets = video("h264", 8)
    recorder = Recorder(tmp_path / "out.mp4", [track], 1000)
    for packet in packets[:4]:
        recorder.put(track, packet)
    recorder.note({"type": "message", "t": 0.5, "name": "hello", "data": "x" * 1000})
    for packet in packets[4:6]:
        recorder.put(track, packet)
    recorder.write()
    assert look(tmp_path / "out.mp4").grays() == [0, 1, 2, 3], "the film has its end at once, not with the session"
    assert not recorder.waiting
    for packet in packets[6:]:
        recorder.put(track, packet)
    recorder.note({"type": "message", "t": 0.6, "name": "hello", "data": ""})
    recorder.close(1.0, "done")
    assert recorder.left_out() == {"timeline_full": 4}
    file, end = lines(tmp_path / "out.jsonl")
    assert file["type"] == "file"
    assert (end["frames"], end["left_out"]) == ({"video_0": 4}, {"timeline_full": 4})


def test_the_bytes_of_lines_in_the_queue_are_bounded(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("reactor_trio.recording.recorder.MAX_LINE_BYTES", 10_000)
    recorder = Recorder(tmp_path / "out.mp4", [])
    for _ in range(4):
        recorder.note({"type": "message", "t": 0.5, "name": "hello", "data": "x" * 2400})
    recorder.note_later(lambda: {"type": "frames"}, 60_000, lambda: {"type": "frames"})
    assert recorder.failure is None, "frames have a bound of their own"
    recorder.note({"type": "message", "t": 0.5, "name": "hello", "data": "x" * 2400})
    assert recorder.failure == "the disk is too slow: too many lines of the timeline wait"
    assert not recorder.waiting
    recorder.close(1.0, "done")
