"""The body as a pipeline of ours."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from stamp import Body

from reactor_trio import InputField, InputState, Output, ReactorPipeline, Video, disconnected


class Picture(Output):
    main_video: Video


class State(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness")


class Model(ReactorPipeline):
    state: State
    output: Picture
    if "BENCH_FPS" in os.environ:
        fps = float(os.environ["BENCH_FPS"])
    elif not float(os.environ["BENCH_RATE"]):
        max_fps = 1000

    def load(self, config):
        self.body = Body()

    @disconnected
    def note(self):
        print(f"drawn {self.body.drawn}", flush=True)

    def inference(self):
        while True:
            yield self.body.step(self.state.brightness)
