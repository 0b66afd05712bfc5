"""The body as a FastRTC 0.0.34 stream: a generator with `mode="receive"`, its way to send a client what nobody filmed.

FastRTC takes each frame with `next()` on its event loop, sends it, and only then asks for the next one. It gives the
generator its inputs once, when it begins, so a value that changes meanwhile is the application's own to keep.
`--thread` runs the body in a thread of its own, so that the loop waits for none but the first frame: where the next one is
not there yet, FastRTC, whose generator must yield one, sends the last one again.
"""

from __future__ import annotations

import argparse
import os
import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
sys.path.insert(0, str(Path(__file__).parents[1]))
import uvicorn
from fastapi import FastAPI
from fastrtc import Stream, VideoStreamHandler
from pydantic import BaseModel
from stamp import Body, Frame

#: frames a second of its clock, where the author declares none: what it has by itself; 1000 lifts it for a free body
DEFAULT_FPS, FREE_FPS = 30, 1000


class Input(BaseModel):
    """What the client posts: once to start the stream, then to change it."""

    webrtc_id: str
    brightness: float


class Pictures:
    """The body, loaded once, and the brightness of each connection."""

    def __init__(self) -> None:
        self.body = Body()
        self.brightness: dict[str, float] = {}

    def generate(self, webrtc_id: str) -> Iterator[Frame]:
        """A batch frame by frame: FastRTC takes no more at a time."""
        while True:
            yield from self._step(webrtc_id)

    def generate_in_thread(self, webrtc_id: str) -> Iterator[Frame]:
        """The same frames, at most a batch ahead of the one that is next."""
        ahead: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        # With room for a batch alone, a step as long as its frames last would begin only when they are all taken.
        room, over = threading.Semaphore(self.body.frames + 1), threading.Event()

        def run() -> None:
            while True:
                room.acquire()
                for index, picture in enumerate(self._step(webrtc_id)):
                    if index:
                        room.acquire()
                    if over.is_set():
                        return
                    ahead.put(picture)

        threading.Thread(target=run, daemon=True).start()
        try:
            last = ahead.get()
            while True:
                room.release()
                yield last
                while ahead.empty():
                    yield last
                last = ahead.get()
        finally:
            over.set()
            room.release()

    def _step(self, webrtc_id: str) -> Iterable[Frame]:
        batch = self.body.step(self.brightness[webrtc_id])
        return batch if batch.ndim == 4 else [batch]


def serve(port: int, thread: bool) -> None:
    """Until it is killed."""
    pictures = Pictures()
    fps = float(os.environ.get("BENCH_FPS") or (DEFAULT_FPS if pictures.body.rate else FREE_FPS))
    handler = VideoStreamHandler(pictures.generate_in_thread if thread else pictures.generate, fps=round(fps))
    stream = Stream(handler, modality="video", mode="receive", server_rtc_configuration={"iceServers": []})
    app = FastAPI()
    stream.mount(app)

    @app.post("/input_hook")
    async def _(given: Input) -> None:
        pictures.brightness[given.webrtc_id] = given.brightness
        # What a handler is called with, less the first, which is for its user interface.
        stream.set_input(given.webrtc_id, None, given.webrtc_id)

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--thread", action="store_true")
    given = parser.parse_args()
    serve(given.port, given.thread)
