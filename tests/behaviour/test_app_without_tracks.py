"""An app without output tracks, such as a policy that steers a robot: it takes commands and sends messages."""

from __future__ import annotations

from typing import Any

from reactor_trio.interface import InputState, ModelMessage, ReactorApp, StepOutcome
from reactor_trio.testing import open_session


async def test_an_app_without_tracks(autojump_clock: object) -> None:
    class Target(InputState):
        goal: float = 0.0

    class Action(ModelMessage):
        torque: float

    class Policy(ReactorApp):
        state: Target

        def generate(self, input: Any) -> Any:  # noqa: A002
            return input.goal * 2

        async def process_output(self, outcome: StepOutcome) -> Any:
            await self.send(Action(torque=outcome.result))

    async with open_session(Policy) as client:
        assert client.tracks == []
        await client.command("set_goal", goal=1.5)
        while (await client.next_message()).data != {"torque": 3.0}:
            pass


