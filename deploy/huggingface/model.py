"""A picture whose colour a slider sets; put your model in its place."""

import numpy as np

from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video


class Picture(Output):
    main_video: Video


class SkyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0)


class Sky(ReactorPipeline):
    state: SkyState
    fps = 30

    def load(self, config):
        rows, columns = np.mgrid[0:360, 0:640]
        self.picture = np.stack([columns * 0.1 + 40, rows * 0.2 + 40, 120 - rows * 0.2], axis=-1)

    def inference(self):
        while True:
            self.picture = np.roll(self.picture, 4, axis=1)
            yield Picture(main_video=(self.picture * self.state.brightness).astype(np.uint8))
