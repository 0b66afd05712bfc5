"""The body as a model of reactor-runtime 3.10.0."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from reactor_runtime import InputField, InputState, Output, ReactorApp, Video
from stamp import Body


class State(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness")


class Picture(Output):
    main_video: Video


class Bench(ReactorApp):
    state: State
    if "BENCH_FPS" in os.environ:
        fps = float(os.environ["BENCH_FPS"])

    def load(self, config_path):
        self.body = Body()

    def generate(self, input):  # noqa: A002 - the peer's name
        return Picture(main_video=self.body.step(input.brightness))
