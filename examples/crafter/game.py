"""Crafter, the open-world survival game, as a real-time model: each session plays a world of its own with the keyboard.

A game takes actions and gives pictures, like a world model, so a network could take its place. A pressed key acts at
once; a held key acts again at every tick of the world. Between two ticks there is nothing to show, so the generator
idles, and the runtime wakes it for the next command.
"""

import random
from typing import Any

import crafter
import trio
from crafter.constants import actions as ACTIONS

from reactor_trio import (
    Idle,
    InputField,
    InputState,
    MessageField,
    ModelMessage,
    Output,
    ReactorPipeline,
    Video,
    connected,
    event,
    progress,
)

ACHIEVEMENTS = 22
VITALS = ("health", "food", "drink", "energy")


class Picture(Output):
    world: Video


class World(ModelMessage):
    seed: int = MessageField(description="set it as `seed` and reset to come back to this world")


class Vitals(ModelMessage):
    health: int
    food: int
    drink: int
    energy: int


class Achievement(ModelMessage):
    name: str
    unlocked: int = MessageField(description="how many there are now in this world")
    of: int = ACHIEVEMENTS


class GameOver(ModelMessage):
    steps: int
    achievements: int


class Play(InputState):
    speed: float = InputField(default=5.0, ge=1.0, le=20.0, unit="/s", description="Ticks of the world a second")
    autoplay: bool = InputField(default=True, description="The world goes on while no key is pressed")
    seed: int = InputField(default=0, ge=0, advanced=True, description="World to begin at the next reset; 0: a new one")

    _env: Any = None
    _opening: Any = None  # the first picture of a world that has just been made
    _pressed: list[str] = []
    _held: list[str] = []
    _vitals: Any = None
    _achieved: set[str] = set()
    _steps: int = 0
    _next_tick: float = 0.0
    _over: bool = False


class Env(crafter.Env):
    """Crafter's world, made reproducible: Crafter draws creatures from a set, whose order depends on memory addresses."""

    def _balance_chunk(self, chunk, objs):
        super()._balance_chunk(chunk, sorted(objs, key=lambda creature: tuple(creature.pos)))


def tapped(key: str, action: str, description: str):
    """Make an event that does one action."""

    async def press(self):
        await self.act(action)

    return event(f"key_{key}", description)(press)


def held(key: str, action: str, description: str):
    """Make an event that does an action now, and at each tick until the key comes up."""

    async def press(self, down: bool):
        if down:
            self.state._held.append(action)
            await self.act(action)
        elif action in self.state._held:
            self.state._held.remove(action)

    return event(f"key_{key}", description)(press)


class Crafter(ReactorPipeline):
    state: Play
    fps = 30

    key_w = held("w", "move_up", "Up")
    key_a = held("a", "move_left", "Left")
    key_s = held("s", "move_down", "Down")
    key_d = held("d", "move_right", "Right")
    key_space = held("space", "do", "Use (collect, drink, eat or attack what you face)")
    key_z = tapped("z", "sleep", "Sleep")
    key_n = tapped("n", "noop", "Wait")
    key_1 = tapped("1", "place_stone", "Place a stone")
    key_2 = tapped("2", "place_table", "Place a table (wood)")
    key_3 = tapped("3", "place_furnace", "Place a furnace (stone, near a table)")
    key_4 = tapped("4", "place_plant", "Plant a sapling")
    key_5 = tapped("5", "make_wood_pickaxe", "Make a wood pickaxe (near a table)")
    key_6 = tapped("6", "make_stone_pickaxe", "Make a stone pickaxe (near a table)")
    key_7 = tapped("7", "make_iron_pickaxe", "Make an iron pickaxe (near table and furnace)")
    key_8 = tapped("8", "make_wood_sword", "Make a wood sword (near a table)")
    key_9 = tapped("9", "make_stone_sword", "Make a stone sword (near a table)")
    key_0 = tapped("0", "make_iron_sword", "Make an iron sword (near table and furnace)")

    def load(self, config: dict[str, Any]) -> None:
        self.size = config.get("size", 512)
        self.area = config.get("area", 64)
        self.seeds = random.Random(config.get("seed"))
        progress(None, "making the first world")
        self.first: tuple[int, Env, Any] | None = self.make(self.next_seed())

    @connected
    async def begin(self):
        await self.new_world()

    @event(description="Begin another world, or the one whose seed is set")
    async def reset(self):
        await self.new_world()

    async def inference(self):
        state = self.state
        while True:
            if state._opening is not None:
                picture, state._opening = state._opening, None
                yield picture
            elif (action := self.next_action()) is not None:
                yield await self.step(action)
            else:
                yield Idle

    def next_action(self) -> str | None:
        """The action to do now: that of a pressed key at once; at a tick that of a held key, or "noop". None: wait."""
        state, now = self.state, trio.current_time()
        if state._over:
            return None
        if state._pressed:
            action = state._pressed.pop(0)
        elif now < state._next_tick:
            return None
        elif state._held:
            action = state._held[-1]
        elif state.autoplay:
            action = "noop"
        else:
            return None
        state._next_tick = now + 1 / state.speed
        return action

    async def act(self, action: str) -> None:
        """Queue the action; in a world that is over, begin another instead."""
        if self.state._over:
            await self.new_world()
        else:
            self.state._pressed = [*self.state._pressed, action][-3:]  # so that the world does not lag behind fast typing

    async def new_world(self) -> None:
        state = self.state
        made = None
        if not state.seed:
            made, self.first = self.first, None
        seed, state._env, state._opening = made or self.make(state.seed or self.next_seed())
        state._pressed, state._vitals, state._achieved, state._steps = [], None, set(), 0
        state._over = False
        state._next_tick = trio.current_time() + 1 / state.speed
        await self.send(World(seed=seed))

    def next_seed(self) -> int:
        return self.seeds.randrange(1, 2**31 - 1)

    def make(self, seed: int) -> tuple[int, Env, Any]:
        """A world: its seed, the world itself and its first picture."""
        env = Env(area=(self.area, self.area), size=(self.size, self.size), seed=seed, length=None)
        return seed, env, env.reset()

    async def step(self, action: str):
        """Move the world on by one tick, send messages about the changes, and return the picture."""
        state = self.state
        picture, _, dead, info = state._env.step(ACTIONS.index(action))
        state._steps += 1
        vitals = {name: int(info["inventory"][name]) for name in VITALS}
        if vitals != state._vitals:
            state._vitals = vitals
            await self.send(Vitals(**vitals))
        for name, count in info["achievements"].items():
            if count and name not in state._achieved:
                state._achieved.add(name)
                await self.send(Achievement(name=name, unlocked=len(state._achieved)))
        if dead:
            state._over = True
            await self.send(GameOver(steps=state._steps, achievements=len(state._achieved)))
        return picture
