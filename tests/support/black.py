"""A model of black pictures, for tests in which it only matters that one is served."""

from __future__ import annotations

import numpy as np

from reactor_trio.interface import ReactorPipeline
from tests.support.models import Picture


class Black(ReactorPipeline):
    output: Picture
    fps = 4

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)
