"""A model of black pictures, for tests in which it only matters that one is served."""

from __future__ import annotations

import numpy as np

from reactor_trio.interface import Output, ReactorPipeline, Video


class Picture(Output):
    main_video: Video


class Black(ReactorPipeline):
    output: Picture
    fps = 4

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)
