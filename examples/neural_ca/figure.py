"""The figure that the automaton learns to grow: a flower with a face, in a pot, drawn from a few shapes."""

import numpy as np

HEIGHT, WIDTH = 40, 32  # cells
SCALE = 0.88  # leaves at least four empty cells on all sides: a rule that uses the grid's edge fails in a wider grid
FINE = 8  # points along a cell's edge, averaged


def draw() -> np.ndarray:
    """The figure, float32 (4, HEIGHT, WIDTH): red, green, blue premultiplied by alpha, and alpha; all 0 to 1."""
    y, x = (np.mgrid[0 : HEIGHT * FINE, 0 : WIDTH * FINE] + 0.5) / FINE
    y, x = (y - 20) / SCALE + 20, (x - 16) / SCALE + 16
    picture = np.zeros((*x.shape, 4))

    def paint(shape, *colour):
        """Paint a shape; its colours are numbers or arrays of 0 to 1."""
        for channel, value in enumerate((*colour, 1.0)):
            picture[..., channel] = np.where(shape, value, picture[..., channel])

    def ellipse(cx, cy, rx, ry, turn=0.0):
        """The distance from the middle of an ellipse: below 1 inside."""
        dx, dy = x - cx, y - cy
        along, across = dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)
        return np.hypot(along / rx, across / ry)

    # stem and leaves
    stem = 16 + 0.8 * np.sin((y - 20) / 4)
    paint((abs(x - stem) < 1.1) & (y > 16) & (y < 32), 0.20, 0.55, 0.24)
    for side in (-1, 1):
        leaf = ellipse(16 + side * 5, 26.2 - side * 0.8, 5, 2.1, -side * 0.5)
        paint(leaf < 1, 0.24 + 0.1 * leaf, 0.72 - 0.16 * leaf, 0.28)

    # pot
    width = 6.4 - (y - 30) * 0.25
    paint((abs(x - 16) < width) & (y > 30) & (y < 37.5), 0.80 - 0.03 * (x - 13), 0.42 - 0.018 * (x - 13), 0.26)
    paint((abs(x - 16) < 7.4) & (y > 29) & (y < 31.8), 0.90 - 0.025 * (x - 13), 0.52 - 0.018 * (x - 13), 0.32)

    # petals: pale at their ends, deep towards the heart
    away = np.hypot(x - 16, y - 13)
    for k in (0, 2, 4, 6, 1, 3, 5, 7):
        turn = k * np.pi / 4 + np.pi / 8
        petal = ellipse(16 + 7.1 * np.cos(turn), 13 + 7.1 * np.sin(turn), 4.0, 3.1, turn)
        fade = np.clip((away - 5) / 6, 0, 1)
        shade = 0.0 if k % 2 else 0.10
        paint(petal < 1, 0.86 - shade + 0.13 * fade, 0.20 - shade + 0.44 * fade, 0.52 - shade + 0.30 * fade)

    # heart and face
    heart = ellipse(16, 13, 5.3, 5.3)
    paint(heart < 1, 1.0, 0.86 - 0.20 * heart**2, 0.25 - 0.1 * heart)
    for side in (-1, 1):
        paint(ellipse(16 + side * 2.0, 11.9, 0.8, 1.1) < 1, 0.25, 0.13, 0.10)
    smile = ellipse(16, 13.4, 2.9, 2.6)
    paint((abs(smile - 0.92) < 0.16) & (y > 14.4), 0.45, 0.20, 0.10)

    picture[..., :3] = np.clip(picture[..., :3], 0, 1) * picture[..., 3:]
    cells = picture.reshape(HEIGHT, FINE, WIDTH, FINE, 4).mean(axis=(1, 3))
    return cells.transpose(2, 0, 1).astype(np.float32)
