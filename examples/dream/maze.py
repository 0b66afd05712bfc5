"""The game that the network learns: a small maze, seen through the eyes of who walks in it, with instruments below.

All of a moment's state is in its picture: a map whose dot says in which cell the walker is, two dials whose hands turn once
for each cell to the right and each cell down, and a compass. So the network can know where it is from what it has drawn,
and `read` can measure where a dreamed picture believes itself to be.
Functions take and return batches: many mazes move and are drawn at once.
"""

import colorsys

import numpy as np

SIZE = 64  # of the picture, in pixels: the view is 40 high, the panel below it 24
VIEW = 40
MAP = """
########
#......#
#......#
#..#...#
##...#.#
#....#.#
#..#...#
########
"""
WALLS = np.array([list(row) for row in MAP.split()]) == "#"
HEADINGS = 32  # a step turns by one of them, so that a heading is exact for ever
STEP = 0.2  # cells
RADIUS = 0.3  # of the walker, in cells: how near the eye comes to a wall
FIELD = np.tan(np.radians(36))  # half the width of the view, one cell ahead

KEYS = ("up", "down", "left", "right")

_ANGLES = 2 * np.pi * np.arange(HEADINGS) / HEADINGS
_RAYS = 2 * SIZE  # two for each column, averaged: edges move smoothly
_CELL = 3  # pixels of the map
_MAP = slice(0, 24)  # columns of the panel
_DIALS = slice(24, 40)
_COMPASS = slice(40, 64)
_DOT = 1.1  # pixels
_EMPTY = np.array([24, 26, 36], np.float32) / 255


def _colours() -> np.ndarray:
    """Each wall cell has a colour of its own, float32 (rows, columns, 3)."""
    hues = np.random.default_rng(3).permutation(WALLS.size)
    flat = [
        colorsys.hsv_to_rgb(hue / WALLS.size, 0.5 + 0.4 * (hue % 2), 0.75 + 0.2 * (hue % 3 == 0)) for hue in hues
    ]
    return np.array(flat, np.float32).reshape(*WALLS.shape, 3)


def _background() -> np.ndarray:
    """The picture without walls, dot and needle, float32 (SIZE, SIZE, 3)."""
    picture = np.zeros((SIZE, SIZE, 3), np.float32)
    height = np.abs(np.arange(VIEW) + 0.5 - VIEW / 2)[:, None, None] / (VIEW / 2)
    sky, ground = np.array([0.45, 0.65, 0.9]), np.array([0.42, 0.38, 0.34])
    picture[: VIEW // 2] = (sky * (1.15 - 0.35 * height[: VIEW // 2])).clip(0, 1)
    picture[VIEW // 2 : VIEW] = ground * (0.45 + 0.55 * height[VIEW // 2 :])
    picture[VIEW:] = _EMPTY
    small = np.where(WALLS[..., None], COLOURS * 0.5, np.float32(0.06))
    picture[VIEW:, _MAP] = small.repeat(_CELL, 0).repeat(_CELL, 1)
    return picture


def _compasses() -> np.ndarray:
    """The compass at each heading, float32 (HEADINGS, 24, 24, 3)."""
    y, x = np.mgrid[-11.5:12, -11.5:12]
    disc = (10.5 - np.hypot(x, y)).clip(0, 1)
    panel = _EMPTY + disc[..., None] * (_FACE - _EMPTY)
    pictures = []
    for angle in _ANGLES:
        along = (x * np.cos(angle) + y * np.sin(angle)).clip(-4, 8.5)
        away = np.hypot(x - along * np.cos(angle), y - along * np.sin(angle))
        ink = (1.8 - away).clip(0, 1)[..., None]
        tip = ((along + 4) / 12.5)[..., None]  # pale at the tail, red at the tip
        needle = tip * np.array([1.0, 0.25, 0.2]) + (1 - tip) * np.array([0.75, 0.8, 0.9])
        pictures.append(panel * (1 - ink) + ink * needle)
    return np.array(pictures, np.float32)


def _hands(turns: np.ndarray) -> np.ndarray:
    """How much of a hand is in each pixel of a dial, float32 (N, 12, 16), after so many turns, (N,)."""
    angle = 2 * np.pi * turns[:, None, None]
    along = (_DIAL_X * np.cos(angle) + _DIAL_Y * np.sin(angle)).clip(0, 4.5)
    away = np.hypot(_DIAL_X - along * np.cos(angle), _DIAL_Y - along * np.sin(angle))
    return (1.6 - away).clip(0, 1).astype(np.float32)


_FACE = np.array([0.13, 0.15, 0.22], np.float32)
_HAND = np.array([1.0, 0.8, 0.35], np.float32)
_DIAL_Y, _DIAL_X = np.mgrid[-5.5:6, -7.5:8].astype(np.float32)
_DIAL = _EMPTY + (6 - np.hypot(_DIAL_X, _DIAL_Y)).clip(0, 1)[..., None] * (_FACE - _EMPTY)  # (12, 16, 3)
COLOURS = _colours()
BACKGROUND = _background()
COMPASSES = _compasses()
_PANEL_MAP = BACKGROUND[VIEW:, _MAP]
_OPEN = np.argwhere(~WALLS)


class Maze:
    """A batch of walkers, each alone in the maze. Places are in cells: `x` to the right and `y` down on the map.

    Attributes:
        x, y: float64 (N,).
        heading: int64 (N,), of HEADINGS; 0 looks to the right, a quarter of them looks down.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, heading: np.ndarray) -> None:
        self.x, self.y, self.heading = x, y, heading

    @classmethod
    def scattered(cls, number: int, dice: np.random.Generator) -> "Maze":
        """Walkers at random places."""
        cells = _OPEN[dice.integers(len(_OPEN), size=number)]
        inside = dice.uniform(RADIUS, 1 - RADIUS, (2, number))
        return cls(cells[:, 1] + inside[0], cells[:, 0] + inside[1], dice.integers(HEADINGS, size=number))

    def step(self, keys: np.ndarray) -> None:
        """Move on by a step; keys are bool (N, 4), in the order of KEYS."""
        up, down, left, right = keys.T.astype(int)
        self.heading = (self.heading + right - left) % HEADINGS
        angle, way = _ANGLES[self.heading], STEP * (up - down)
        x = self.x + way * np.cos(angle)
        self.x = np.where(_free(x, self.y), x, self.x)  # along a wall one slides
        y = self.y + way * np.sin(angle)
        self.y = np.where(_free(self.x, y), y, self.y)

    def draw(self) -> np.ndarray:
        """The pictures, float32 (N, SIZE, SIZE, 3), from 0 to 1."""
        pictures = np.repeat(BACKGROUND[None], len(self.x), axis=0)
        distance, colour = self._look()
        height = (VIEW / 2) * 0.7 / distance  # from the horizon, in pixels
        rows = np.abs(np.arange(VIEW, dtype=np.float32) + 0.5 - VIEW / 2)
        cover = (height[:, None, :] - rows[:, None] + 0.5).clip(0, 1)[..., None]  # (N, VIEW, rays, 1)
        seen = cover * colour[:, None]
        view = pictures[:, :VIEW]
        view *= 1 - (cover[:, :, ::2] + cover[:, :, 1::2]) / 2
        view += (seen[:, :, ::2] + seen[:, :, 1::2]) / 2
        panel = pictures[:, VIEW:]
        panel[:, :, _MAP] += self._dots()[..., None] * (1 - panel[:, :, _MAP])
        hands = self._both_hands()[..., None]
        panel[:, :, _DIALS] = np.concatenate([_DIAL, _DIAL]) * (1 - hands) + _HAND * hands
        panel[:, :, _COMPASS] = COMPASSES[self.heading]
        return pictures

    def free(self) -> np.ndarray:
        """Whether there is room where they are, bool (N,)."""
        return _free(self.x, self.y)

    def _dots(self) -> np.ndarray:
        """How white the dot makes the map, (N, 24, 24)."""
        pixels = np.arange(SIZE - VIEW) + 0.5
        across = np.exp(-(((pixels - _CELL * self.x[:, None]) / _DOT) ** 2) / 2)
        down = np.exp(-(((pixels - _CELL * self.y[:, None]) / _DOT) ** 2) / 2)
        return (down[:, :, None] * across[:, None, :]).astype(np.float32)

    def _both_hands(self) -> np.ndarray:
        """How much of a hand is in the pixels of both dials, the upper for `x`: (N, 24, 16)."""
        return np.concatenate([_hands(self.x), _hands(self.y)], axis=1)

    def _look(self) -> tuple[np.ndarray, np.ndarray]:
        """For each ray the distance of the wall, and its colour there: float32 (N, rays) and (N, rays, 3)."""
        across = FIELD * ((np.arange(_RAYS) + 0.5) / _RAYS * 2 - 1)
        cosine, sine = np.cos(_ANGLES[self.heading])[:, None], np.sin(_ANGLES[self.heading])[:, None]
        dx, dy = cosine - across * sine, sine + across * cosine
        dx, dy = (np.where(np.abs(d) < 1e-9, 1e-9, d) for d in (dx, dy))
        column, row = (np.repeat(place.astype(int)[:, None], _RAYS, 1) for place in (self.x, self.y))
        per_x, per_y = np.abs(1 / dx), np.abs(1 / dy)
        step_x, step_y = np.sign(dx).astype(int), np.sign(dy).astype(int)
        next_x = np.where(dx > 0, column + 1 - self.x[:, None], self.x[:, None] - column) * per_x
        next_y = np.where(dy > 0, row + 1 - self.y[:, None], self.y[:, None] - row) * per_y
        distance, upright = np.zeros_like(dx), np.zeros(dx.shape, bool)
        going = np.ones(dx.shape, bool)
        while going.any():  # from one line of the grid to the next, until all rays have met a wall
            in_x = going & (next_x < next_y)
            in_y = going & ~in_x
            distance = np.where(in_x, next_x, np.where(in_y, next_y, distance))
            upright = np.where(going, in_x, upright)
            next_x, next_y = next_x + in_x * per_x, next_y + in_y * per_y
            column, row = column + in_x * step_x, row + in_y * step_y
            going &= ~WALLS[row, column]
        light = np.where(upright, 1.0, 0.72) / (1 + 0.09 * distance)
        return distance.astype(np.float32).clip(0.05), COLOURS[row, column] * light[..., None].astype(np.float32)


def _free(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whether a walker has room there."""
    free = np.ones(len(x), bool)
    for across in (-RADIUS, RADIUS):
        for down in (-RADIUS, RADIUS):
            row, column = ((place.clip(0, len(WALLS) - 1)).astype(int) for place in (y + down, x + across))
            free &= ~WALLS[row, column]
    return free


def read(pictures: np.ndarray) -> tuple[Maze, np.ndarray]:
    """Where pictures (N, SIZE, SIZE, 3) believe themselves to be, and how clear that is: from 0 to 1, the game's.

    The middle of the dot says in which cell, the dials say where in it; the heading is that of the most similar compass.
    """
    panel = pictures[:, VIEW:]
    missing = 1 - _PANEL_MAP
    white = ((panel[:, :, _MAP] - _PANEL_MAP) * missing).sum(-1) / (missing**2).sum(-1)
    peak = white.reshape(len(white), (SIZE - VIEW) ** 2).argmax(1)
    row, column = np.divmod(peak, SIZE - VIEW)
    y, x = np.mgrid[0 : SIZE - VIEW, 0 : SIZE - VIEW] + 0.5
    near = np.hypot(y - row[:, None, None] - 0.5, x - column[:, None, None] - 0.5) < 4 * _DOT
    weight = white.clip(0.02) * near - 0.02 * near
    total = weight.sum((1, 2)).clip(1e-6)
    face = np.concatenate([_DIAL, _DIAL])
    ink = ((panel[:, :, _DIALS] - face) * (_HAND - face)).sum(-1) / ((_HAND - face) ** 2).sum(-1)
    half = len(_DIAL)
    x, y = (
        _exactly((weight * rough).sum((1, 2)) / total / _CELL, _turned(hand))
        for rough, hand in ((x, ink[:, :half]), (y, ink[:, half:]))
    )
    compass = panel[:, :, _COMPASS].reshape(len(pictures), COMPASSES[0].size)
    known = COMPASSES.reshape(HEADINGS, -1)
    # einsum, for the threads of a matrix product would wait at the cost of others
    apart = (compass**2).sum(1)[:, None] - 2 * np.einsum("np,hp->nh", compass, known) + (known**2).sum(1)
    maze = Maze(x, y, apart.argmin(1))
    # One dot and nothing else on the map, and whole hands:
    dot, hands = maze._dots(), maze._both_hands()
    stray = np.sqrt(np.square(white - dot).sum((1, 2)) / np.square(dot).sum((1, 2)).clip(1e-6))
    loose = np.sqrt(np.square(ink - hands).sum((1, 2)) / np.square(hands).sum((1, 2)))
    bent = np.sqrt(apart.min(1).clip(0) / _QUARTER)
    return maze, (1 - np.maximum(np.maximum(stray, loose), bent)).clip(0, 1)


def _turned(hand: np.ndarray) -> np.ndarray:
    """How far a dial's hand, (N, 12, 16), has turned: 0 to 1."""
    inside = hand.clip(0, 1) * (np.hypot(_DIAL_X, _DIAL_Y) < 6)
    return np.arctan2((inside * _DIAL_Y).sum((1, 2)), (inside * _DIAL_X).sum((1, 2))) / (2 * np.pi) % 1


def _exactly(rough: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """The place nearest to a rough one at which a dial has turned so far."""
    return turned + np.round(rough - turned)


#: squared difference of two compasses a quarter apart
_QUARTER = ((COMPASSES[0] - COMPASSES[HEADINGS // 4]) ** 2).sum()


class Fingers:
    """Random keys as a player holds them: each choice lasts a while. For a batch of players."""

    CHOICES = np.array(  # up, down, left, right
        [[1, 0, 0, 0]] * 5 + [[1, 0, 1, 0], [1, 0, 0, 1]] * 2 + [[0, 0, 1, 0], [0, 0, 0, 1]] * 3
        + [[0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]], bool,
    )  # fmt: skip

    def __init__(self, number: int, dice: np.random.Generator) -> None:
        self.dice = dice
        self.held = self.CHOICES[dice.integers(len(self.CHOICES), size=number)]

    def next(self) -> np.ndarray:
        """The keys of the next step, bool (N, 4)."""
        other = self.dice.random(len(self.held)) < 1 / 8
        choice = self.CHOICES[self.dice.integers(len(self.CHOICES), size=len(self.held))]
        self.held = np.where(other[:, None], choice, self.held)
        return self.held
