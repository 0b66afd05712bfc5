"""Paints in the colours of a prompt: your camera, or a landscape that it makes up. Needs numpy alone.

It stands for a model that takes a text and a video, such as a diffusion model; everything that a page needs of one is here.
"""

import colorsys
import zlib
from typing import Any

import numpy as np

from reactor_trio import Input, InputField, InputState, ModelMessage, Output, ReactorPipeline, Video, event

#: colours from the shadows to the lights
PALETTES = {
    "sunset": "1b1035 6a1b5e d6455d ff9a56 ffe6a8",
    "sea": "04101f 0b3c5d 1f7a8c 7fd1c7 f2fbf0",
    "night": "05060f 12153a 2f3c7e 7b84d8 e9ecff",
    "neon": "0a0018 4b0082 ff2e88 00e5ff f8ff6a",
    "forest": "0b1a12 1f4d2e 5b8c3a b7c35a fbf6c8",
    "fire": "120303 5c0a0a c81d11 ff7b1c fff0a0",
    "ice": "0a1a2a 2d5f8b 7fb2d9 c9e6f5 ffffff",
    "candy": "3a1c5a 9b4fb0 ff7ab8 ffc2a6 fff5dc",
    "desert": "2a130b 7a3b1e c8783a efc07b fff1d0",
    "ink": "0c0c10 33333b 77747a bfb9ae faf6ec",
}
WORDS = {
    "ocean": "sea", "lake": "sea", "water": "sea", "evening": "sunset", "dawn": "sunset", "moon": "night", "stars": "night",
    "cyberpunk": "neon", "jungle": "forest", "garden": "forest", "lava": "fire", "autumn": "fire", "snow": "ice",
    "winter": "ice", "spring": "candy", "dream": "candy", "sand": "desert", "mars": "desert", "noir": "ink", "paper": "ink",
}  # fmt: skip
#: steepness of the landscape, from waves to towers
TERRAINS = {"sea": 0.15, "desert": 0.45, "hills": 0.6, "forest": 1.0, "mountains": 1.6, "city": 2.0}
PAINTING_FRAMES = 36  # that a new prompt takes, as it takes a model that has to encode it
CAMERA_FRAMES = 30  # without one of a camera after which there is no camera
LUMA = np.array([0.3, 0.59, 0.11], np.float32)


class Devices(Input):
    camera: Video


class Picture(Output):
    main_video: Video


class Look(InputState):
    prompt: str = InputField(default="sunset over the sea", min_length=1, max_length=120, description="What you want to see")
    strength: float = InputField(default=1.0, ge=0.0, le=1.0, description="How much of the prompt's colours")
    colours: int = InputField(default=24, ge=2, le=32, description="Few make a poster, many a photograph")
    lines: float = InputField(default=0.3, ge=0.0, le=1.0, description="Ink along the edges")
    trails: float = InputField(default=0.0, ge=0.0, le=0.98, description="Light stays where it was")
    speed: float = InputField(default=1.0, ge=0.0, le=4.0, description="Of the landscape")
    mirror: bool = InputField(default=True, description="Show the camera as a mirror does")


class Painting(ModelMessage):
    """How far a new prompt is, and its colours from the shadows to the lights."""

    prompt: str
    done: float
    palette: list[str]


class Studio(ReactorPipeline):
    state: Look
    input: Devices
    fps = 30
    buffer_size = 1  # of a camera the newest frame counts

    def load(self, config: dict[str, Any]) -> None:
        self.height = config.get("height", 360)
        self.width = self.height * 16 // 9 // 2 * 2
        self.y, self.x = np.mgrid[: self.height, : self.width].astype(np.float32) / self.height

    async def inference(self):
        prompt, time, painted, missed = "", 0.0, PAINTING_FRAMES, CAMERA_FRAMES
        style = start = goal = imagine(self.state.prompt)
        light = np.zeros((self.height, self.width), np.float32)
        while True:
            look = self.state
            if look.prompt != prompt:
                prompt, painted = look.prompt, 0
                start, goal = style, imagine(prompt)
            if painted < PAINTING_FRAMES:
                painted += 1
                done = painted / PAINTING_FRAMES
                style = [a + (b - a) * done**2 * (3 - 2 * done) for a, b in zip(start, goal, strict=True)]
                if painted % 6 == 0:
                    await self.send(Painting(prompt=prompt, done=done, palette=palette(goal[0])))
            frames = self.input.camera.try_read()
            missed = 0 if frames else missed + 1
            if frames:
                plain = self.fit(frames[-1].data, look.mirror)
            elif missed >= CAMERA_FRAMES:  # there is no camera, or it was switched off
                time += look.speed / self.fps
                plain = self.landscape(time, *style[1:])[..., None].repeat(3, axis=2)
            light = np.maximum(plain @ LUMA, light * look.trails)
            yield Picture(main_video=paint(plain, light, style[0], look))

    @event(description="Everything but the prompt as it was at first")
    def reset(self) -> None:
        self.state = Look(prompt=self.state.prompt)

    def fit(self, picture: np.ndarray, mirror: bool) -> np.ndarray:
        """The middle of a camera's picture in the shape of ours, as floats from 0 to 1."""
        height, width = picture.shape[:2]
        scale = min(height / self.height, width / self.width)
        rows = ((np.arange(self.height) - self.height / 2 + 0.5) * scale + height / 2).astype(int)
        columns = ((np.arange(self.width) - self.width / 2 + 0.5) * scale + width / 2).astype(int)
        return picture[rows[:, None], columns[:: -1 if mirror else 1]].astype(np.float32) / 255

    def landscape(self, time: float, steepness: float, phases: np.ndarray) -> np.ndarray:
        """Ranges of hills before a low sun, as light from 0 to 1."""
        x, y = self.x, self.y
        sun = np.hypot(x - 0.9 - 0.4 * np.sin(time / 9 + phases[0]), y - 0.36 - 0.06 * np.sin(time / 13))
        light = 0.25 + 0.55 * y + 0.6 * np.exp(-5 * sun)
        light[sun < 0.11] = 1.1
        for layer in range(5):
            near = (layer + 1) / 5
            along = x[0] * (5 - 3 * near) + time * near * 0.35 + phases[layer]
            waves = np.sin(along) + 0.5 * np.sin(2.3 * along + phases[layer]) + 0.25 * np.sin(5.1 * along)
            towers = np.sin(7 * np.floor(along * 4)) * np.clip(steepness - 1, 0, 1)
            ridge = 0.47 + 0.11 * layer - 0.05 * steepness * (waves + towers)
            glitter = 0.12 * np.sin(90 * y + 14 * x + 5 * time) * np.exp(-6 * np.abs(x - 0.9)) * max(0.0, 0.6 - steepness)
            light = np.where(y > ridge, 0.62 - 0.56 * near + 0.35 * (y - ridge) + glitter, light)
        return light.clip(0, 1)


def imagine(prompt: str) -> list[Any]:
    """What a text means: 256 colours from dark to light, how steep the land is, and where its hills are."""
    words = [word.strip(".,;:!?\"'") for word in prompt.lower().split()]
    known = [PALETTES[WORDS.get(word, word)] for word in words if WORDS.get(word, word) in PALETTES]
    number = zlib.crc32(prompt.lower().encode())
    colours_of = [parse(colours) for colours in known] or [tinted(number / 2**32)]
    stops = np.average(colours_of, axis=0, weights=0.3 ** np.arange(len(colours_of)))  # the first word counts most
    places = np.linspace(0, len(stops) - 1, 256)
    colours = np.stack([np.interp(places, range(len(stops)), channel) for channel in stops.T], axis=1)
    terrain = [TERRAINS[WORDS.get(word, word)] for word in words if WORDS.get(word, word) in TERRAINS]
    phases = np.random.default_rng(number).uniform(0, 6, 5).astype(np.float32)
    return [colours.astype(np.float32), float(np.mean(terrain or [0.8])), phases]


def parse(colours: str) -> np.ndarray:
    return np.array([list(bytes.fromhex(colour)) for colour in colours.split()]) / 255


def tinted(hue: float) -> np.ndarray:
    """A palette for words that have none: of two hues, the same for the same text."""
    tones = [(0.0, 0.7, 0.1), (0.03, 0.75, 0.35), (0.08, 0.65, 0.65), (0.16, 0.5, 0.9), (0.2, 0.2, 1.0)]
    return np.array([colorsys.hsv_to_rgb((hue + shift) % 1, saturation, value) for shift, saturation, value in tones])


def palette(colours: np.ndarray) -> list[str]:
    return [bytes((255 * colours[i]).astype(np.uint8)).hex() for i in (16, 72, 128, 184, 240)]


def paint(plain: np.ndarray, light: np.ndarray, colours: np.ndarray, look: Look) -> np.ndarray:
    """The picture in these colours, with lines along its edges."""
    steps = np.round(np.linspace(0, look.colours - 1, 256)) / (look.colours - 1)
    painted = colours[np.round(255 * steps).astype(int)][(255 * light.clip(0, 1)).astype(np.uint8)]
    if look.lines > 0:
        edges = np.abs(np.diff(light, axis=1, append=light[:, -1:])) + np.abs(np.diff(light, axis=0, append=light[-1:]))
        painted *= (1 - look.lines * np.clip(6 * edges - 0.3, 0, 1))[..., None]
    picture = painted if look.strength == 1 else plain + look.strength * (painted - plain)
    return (255 * picture).clip(0, 255).astype(np.uint8)
