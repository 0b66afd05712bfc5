"""A picture as a PNG file, for what a page loads."""

from __future__ import annotations

import io

import av
import numpy as np


def png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="image2pipe") as container:
        stream = container.add_stream("png", width=image.shape[1], height=image.shape[0], pix_fmt="rgb24")
        container.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
        container.mux(stream.encode())
    return file.getvalue()
