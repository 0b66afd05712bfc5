"""A world model: a network dreams the game that it has learned, and each session walks in a dream of its own.

In each step the network draws the next picture from its own last four and from the held keys. The game draws only where a
dream begins, and beside it if one asks for it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from maze import KEYS, SIZE, Maze, read

from reactor_trio import (
    InputField,
    InputState,
    MessageField,
    ModelMessage,
    Output,
    ReactorPipeline,
    Video,
    connected,
    event,
)
from reactor_trio.interface import Saves

WEIGHTS = Path(__file__).with_name("dream.onnx")
PAST = 4  # pictures that the network sees
NOISE = 0.4  # standard deviation at temperature 1, the strongest of the training; pictures are from -1 to 1
LEGIBLE = 0.2  # a picture whose place and heading are less clear is blurred
PATIENCE = 15  # steps for which a dream may be blurred


class Pictures(Output):
    dream: Video
    game: Video | None = None


class Woken(ModelMessage):
    steps: int = MessageField(description="How long the dream had lasted when it was lost")


class Sleeper(InputState):
    let_it_dream: bool = InputField(default=False, description="While no key is held, the dream walks by itself")
    temperature: float = InputField(
        default=0.0, ge=0.0, le=1.0, description="How noisily the network remembers its last pictures; 0: exactly"
    )
    seed: int = InputField(default=11, ge=0, description="Where the dream begins, and all that is random in it")
    true_game: bool = InputField(default=False, description="Show the true game beside it, played with the same keys")
    smooth: bool = InputField(default=False, group="Picture", description="Blend the pixels; off: show each as a square")

    _held: frozenset[str] = frozenset()
    _begun_with: int | None = None
    _dice: Any = None
    _dreams: Any = None  # Dreams, of one
    _game: Any = None  # Maze
    _place: Any = None  # Maze: where the dream was when that could last be read
    _wanderer: Any = None
    _steps: int = 0
    _blurred: int = 0


class Dreams:
    """A batch of dreams, which begin with a past of standing still in the game.

    Attributes:
        past: float32 (N, PAST * 3, SIZE, SIZE) from -1 to 1, oldest first.
        keys: float32 (N, PAST, 4) of the steps to these pictures.
    """

    def __init__(self, network: onnxruntime.InferenceSession, begun: Maze, dice: np.random.Generator) -> None:
        self.network, self.dice = network, dice
        self.past = np.tile(begun.draw().transpose(0, 3, 1, 2) * 2 - 1, (1, PAST, 1, 1))
        self.keys = np.zeros((len(begun.x), PAST, len(KEYS)), np.float32)

    def step(self, keys: np.ndarray, temperature: float) -> np.ndarray:
        """Dream the next pictures: float32 (N, SIZE, SIZE, 3) from 0 to 1. Keys are bool (N, 4)."""
        self.keys = np.concatenate([self.keys[:, 1:], keys[:, None].astype(np.float32)], axis=1)
        number, noise, past = len(keys), np.float32(temperature * NOISE), self.past
        if noise:
            past = past + noise * self.dice.standard_normal(past.shape, np.float32)
        inputs = {"past": past, "keys": self.keys.reshape(number, -1), "noise": np.full((number, 1), noise)}
        new = self.network.run(["picture"], inputs)[0].clip(-1, 1)
        self.past = np.concatenate([self.past[:, 3:], new], axis=1)
        return new.transpose(0, 2, 3, 1) / 2 + 0.5


class Wanderer:
    """Presses the keys while nobody plays: ahead, with a turn now and then, and round where the picture stands still."""

    def __init__(self, dice: np.random.Generator) -> None:
        self.dice = dice
        self.turn, self.steps = "", 0

    def keys(self, change: float) -> frozenset[str]:
        """The keys of the next step; `change` is how much the last two pictures differ, on average."""
        if self.steps == 0 or (change < 0.004 and not self.turn):
            self.turn = str(self.dice.choice(["left", "right"])) if change < 0.004 or self.dice.random() < 0.5 else ""
            self.steps = int(self.dice.integers(6, 18))
        self.steps -= 1
        return frozenset({self.turn} if self.turn and change < 0.004 else {"up", self.turn} - {""})


def held(key: str, description: str):
    """Make an event that holds a key down until it comes up."""

    def press(self, down: bool = True) -> None:
        state = self.state
        state._held = state._held | {key} if down else state._held - {key}

    return event(f"key_{key}", description)(press)


class Dream(ReactorPipeline):
    state: Sleeper
    output: Pictures
    fps = 15
    saves = Saves("state._dreams.past", "state._dreams.keys", types=(Maze, Wanderer))

    key_up = held("up", "Ahead")
    key_down = held("down", "Back")
    key_left = held("left", "Turn left")
    key_right = held("right", "Turn right")

    def load(self, config: dict[str, Any]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = config.get("threads", 2)
        # Threads that wait for the next step would take the processor from the video encoder:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.network = onnxruntime.InferenceSession(WEIGHTS, options, onnxruntime.get_available_providers())
        self.scale = config.get("scale", 8)
        self.blend = blending(self.scale)

    @connected
    def begin(self) -> None:
        state = self.state
        state._begun_with = state.seed
        state._dice = np.random.default_rng(state.seed)
        state._wanderer = Wanderer(state._dice)
        self.wake(Maze.scattered(1, state._dice))

    @event(name="key_space", description="Begin again")
    def restart(self) -> None:
        self.begin()

    async def inference(self):
        state = self.state
        while True:
            if state.seed != state._begun_with:
                self.begin()
            keys = self.pressed()
            picture = self.step(keys)
            state._game.step(keys)
            if state._blurred >= PATIENCE:
                await self.send(Woken(steps=state._steps))
                self.wake(state._place)
            output = Pictures(dream=self.enlarge(picture))
            if state.true_game:
                output.game = self.enlarge(state._game.draw()[0])
            yield output

    def wake(self, place: Maze) -> None:
        """Let the game draw a past of standing still at a place, from which the dream goes on."""
        state = self.state
        state._game = Maze(place.x, place.y, place.heading)
        state._place = place
        state._dreams = Dreams(self.network, place, state._dice)
        state._steps = state._blurred = 0

    def pressed(self) -> np.ndarray:
        """The keys of the next step, bool (1, 4)."""
        state = self.state
        keys = state._held
        if state.let_it_dream and not keys:
            past = state._dreams.past
            keys = state._wanderer.keys(np.abs(past[:, -3:] - past[:, -6:-3]).mean())
        return np.array([[key in keys for key in KEYS]])

    def step(self, keys: np.ndarray) -> np.ndarray:
        """Dream the next picture: float32 (SIZE, SIZE, 3) from 0 to 1."""
        state = self.state
        picture = state._dreams.step(keys, state.temperature)
        state._steps += 1
        place, clarity = read(picture)
        if clarity[0] < LEGIBLE:
            state._blurred += 1
        else:
            state._blurred = 0
            if place.free()[0]:
                state._place = place
        return picture[0]

    def enlarge(self, picture: np.ndarray) -> np.ndarray:
        """The picture as uint8, `scale` times as wide and high."""
        if not self.state.smooth:
            return to_bytes(picture).repeat(self.scale, 0).repeat(self.scale, 1)
        rows = np.tensordot(self.blend, picture, 1)
        return to_bytes(np.tensordot(rows, self.blend, (1, 1)).transpose(0, 2, 1))


def to_bytes(picture: np.ndarray) -> np.ndarray:
    return (picture * 255 + 0.5).clip(0, 255).astype(np.uint8)


def blending(scale: int) -> np.ndarray:
    """How much of each pixel's row is in each row of the enlarged picture: float32 (SIZE * scale, SIZE), linear."""
    places = ((np.arange(SIZE * scale) + 0.5) / scale - 0.5).clip(0, SIZE - 1)
    return (1 - np.abs(places[:, None] - np.arange(SIZE))).clip(0, 1).astype(np.float32)
