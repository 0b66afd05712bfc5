"""A landscape with a sun that goes up and down, for those who have no camera at hand."""

import numpy as np

SKY = np.array([[30, 40, 110], [120, 90, 160], [255, 170, 120]], np.float32)  # from the top to the horizon
HILLS = [(0.55, 0.07, 5.0, (120, 90, 130)), (0.68, 0.09, 3.4, (70, 80, 95)), (0.82, 0.08, 2.3, (30, 50, 45))]


def draw(seconds: float, width: int, height: int) -> np.ndarray:
    """The landscape at a time, uint8 (height, width, 3)."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    x, y = x / width, y / height
    sky = np.stack([np.interp(y[:, 0] / 0.6, (0, 0.5, 1), channel) for channel in SKY.T], axis=1)
    picture = np.repeat(sky[:, None], width, axis=1)
    sun = np.hypot(x - 0.5 - 0.25 * np.sin(seconds / 5), (y - 0.38 - 0.12 * np.cos(seconds / 7)) * height / width)
    picture += np.exp(-8 * sun)[..., None] * np.array([120, 90, 40])
    picture[sun < 0.08] = (255, 235, 170)
    for number, (level, swing, waves, colour) in enumerate(HILLS):
        along = waves * x + seconds * 0.04 * (number + 1)
        ridge = level - swing * (0.6 * np.sin(3 * along + number) + 0.4 * np.sin(7.3 * along))
        picture[y > ridge] = colour
    return picture.clip(0, 255).astype(np.uint8)
