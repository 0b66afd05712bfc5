"""An app: the model makes a step from an input, and the app decides when, with what, and what clients see of it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from reactor_trio import (
    ApplicationError,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorApp,
    StepOutcome,
    Video,
    event,
    session_ended,
)


@dataclass(frozen=True)
class StepInput:
    """What the model needs for one step."""

    speed: float
    colour: tuple[float, float, float]


class Waves:
    """The model. It knows nothing of clients: replace it by yours."""

    def __init__(self, width: int, height: int) -> None:
        self.y, self.x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
        self.reset()

    def reset(self) -> None:
        self.time = 0.0

    def generate(self, given: StepInput) -> np.ndarray:
        """Return a batch of two frames, uint8 (2, H, W, 3)."""
        frames = []
        for _ in range(2):
            self.time += given.speed / 30
            wave = np.sin(6 * np.hypot(self.x, self.y) - 4 * self.time) * np.cos(3 * self.x + self.time)
            frames.append((127 + 100 * wave[..., None] * np.array(given.colour)).astype(np.uint8))
        return np.stack(frames)


class MyOutput(Output):
    main_video: Video


class Restarted(ModelMessage):
    runs: int


class MyState(InputState):
    speed: float = InputField(1.0, ge=0, le=4, unit="×", description="How fast the waves move")
    warmth: float = InputField(0.5, ge=0, le=1, description="From blue to red")
    paused: bool = InputField(False, description="The last picture stays")
    _runs: int = 1


class MyApp(ReactorApp):
    state: MyState
    output: MyOutput

    def load(self, config_path: Path | None) -> None:
        config = yaml.safe_load(config_path.read_text()) if config_path else {}
        self.waves = Waves(config.get("width", 640), config.get("height", 480))

    async def process_input(self) -> StepInput:
        if self.state.paused:
            raise ApplicationError("paused")
        return StepInput(self.state.speed, (self.state.warmth, 0.6, 1 - self.state.warmth))

    def generate(self, given: StepInput) -> np.ndarray:
        return self.waves.generate(given)

    async def process_output(self, outcome: StepOutcome) -> MyOutput:
        if outcome.error is not None:
            raise outcome.error
        return MyOutput(main_video=outcome.result)

    @event(name="restart", description="Begin again")
    def restart(self) -> Restarted:
        self.waves.reset()
        self.output.flush(hold=True)
        self.state._runs += 1
        return Restarted(runs=self.state._runs)

    @session_ended
    def end(self) -> None:
        self.waves.reset()
