"""The base install has no PyAV and no OpenCV: its codecs work, and the errors of others name the package to install."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
sys.modules["av"] = sys.modules["cv2"] = None
import numpy as np
from reactor_trio.client import available, connecting, decoders
from reactor_trio.client.push import PushTrack, check_codec
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import InputDecoder, Undecodable, input_codecs
from reactor_trio.protocol import TrackInfo

assert available() == ("jpeg", "raw")
assert connecting.session_url("ws://h", audio=["opus", "pcm_s16le"]) == "ws://h/ws?video=jpeg&audio=pcm_s16le&role=control&worlds=1"
assert input_codecs("video") == ("jpeg", "raw")
picture = np.full((16, 32, 3), 90, np.uint8)
way = PushTrack(TrackInfo(1, "camera", "video", "in", None))
decoder = InputDecoder(TrackSpec("camera", "video", "in"))
for codec in ("jpeg", "raw"):
    check_codec(codec)
    payload = way.encode(picture, 0.0, codec, 85)
    assert abs(decoder.decode(payload.meta, memoryview(payload.data)).astype(int) - 90).max() <= 2

def refused(call):
    try:
        call()
    except (ValueError, Undecodable) as error:
        assert str(error).endswith('pip install "reactor-trio[video]"') or "brings more" in str(error), error
        return
    raise AssertionError(call)

refused(lambda: check_codec("h264"))
refused(lambda: decoders.wanted(["h264"]))
refused(lambda: decoder.decode({"codec": "vp8"}, memoryview(b"x")))
"""


def test_without_pyav():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
