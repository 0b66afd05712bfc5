"""The app around the world: its clients, their controls, and what they see. Nothing here draws a picture."""

from pathlib import Path

import simplejpeg
import yaml
from world import Action, Crash, Picture, World

from reactor_trio import (
    ApplicationError,
    ClientInfo,
    CommandError,
    InputField,
    InputState,
    MessageField,
    ModelMessage,
    Output,
    ReactorApp,
    StepOutcome,
    UploadedFile,
    Video,
    connected,
    event,
    get_logger,
    session_ended,
)
from reactor_trio.interface import Saves

log = get_logger(__name__)


class View(Output):
    view: Video


class MapLoaded(ModelMessage):
    width: int
    height: int


class Crashed(ModelMessage):
    flights: int = MessageField(description="How many flights of this session have ended so")


class Help(ModelMessage):
    text: str


class Pilot(InputState):
    speed: float = InputField(40.0, ge=0, le=120, unit="cells/s", description="Cells of the map a second")
    paused: bool = InputField(False, description="The last picture stays")
    _turn: float = 0.0
    _climb: float = 0.0
    _crashes: int = 0


class FlightApp(ReactorApp):
    state: Pilot
    output: View
    fps = 30
    saves = Saves("world.heights", "world.colours", "world.place", "world.altitude", "world.heading")

    def load(self, config_path: Path | None) -> None:
        config = yaml.safe_load(config_path.read_text()) if config_path else {}
        self.world = World(config["width"], config["height"], config["map"], config["batch"])
        log.info("the world is made", cells=self.world.size**2)

    @connected
    async def greet(self, client: ClientInfo) -> None:
        await client.send(Help(text="arrow keys steer, space begins again; upload a JPEG as a landscape of your own"))

    # ---- one step ------------------------------------------------------------------------------------------------------

    async def process_input(self) -> Action:
        if self.state.paused:
            raise ApplicationError("paused")
        return Action(self.state._turn, self.state._climb, self.state.speed)

    def generate(self, action: Action) -> Picture:
        return self.world.generate(action)

    async def process_output(self, outcome: StepOutcome) -> View | None:
        if isinstance(outcome.error, Crash):
            self.state._crashes += 1
            await self.send(Crashed(flights=self.state._crashes))
            self.begin_again()
            return None
        if outcome.error is not None:
            raise outcome.error
        return View(view=outcome.result)

    # ---- commands ------------------------------------------------------------------------------------------------------

    @event(name="key_left", description="Turn left")
    def left(self, down: bool = True) -> None:
        self.state._turn = -1.0 if down else 0.0

    @event(name="key_right", description="Turn right")
    def right(self, down: bool = True) -> None:
        self.state._turn = 1.0 if down else 0.0

    @event(name="key_up", description="Climb")
    def up(self, down: bool = True) -> None:
        self.state._climb = 1.0 if down else 0.0

    @event(name="key_down", description="Sink")
    def down(self, down: bool = True) -> None:
        self.state._climb = -1.0 if down else 0.0

    @event(name="key_space", description="Begin again above the middle")
    def begin_again(self) -> None:
        self.world.reset()
        self.output.flush(hold=True)  # what is queued belongs to the flight before; its last picture stays meanwhile

    @event(name="gamepad_axes", description="Steer")
    def steer(self, left_x: float = 0.0, left_y: float = 0.0) -> None:
        self.state._turn, self.state._climb = left_x, -left_y

    @event(name="gamepad_a", description="Begin again above the middle")
    def begin_again_with_the_gamepad(self) -> None:
        self.begin_again()

    @event(name="load_map", description="Fly over a picture: its brightness is the height")
    def load_map(self, image: UploadedFile = InputField(accept=["image/jpeg"])) -> MapLoaded:
        try:
            picture = simplejpeg.decode_jpeg(image.data)
        except ValueError as error:
            raise CommandError("not_a_picture", f"{image.name} is no JPEG that can be read: {error}") from None
        self.world.load_map(picture)
        self.output.flush(hold=True)
        return MapLoaded(width=picture.shape[1], height=picture.shape[0])

    @session_ended
    def land(self) -> None:
        log.info("a flight is over", crashes=self.state._crashes)
        self.world.reset()
