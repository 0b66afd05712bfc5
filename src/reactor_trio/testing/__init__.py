"""Test kit for model authors: sessions and servers in virtual time, without sockets, sleeps or retries.

    async def test_brightness(autojump_clock):
        async with open_session(MyModel, step_cost=0.25) as client:
            await client.command("set_brightness", brightness=0.5)
            frames = await client.take(3)

See `docs/reference/model/testing.md`.
"""

from reactor_trio.offline.executor import PipelineExecutor as PipelineExecutor
from reactor_trio.offline.executor import StepResult as StepResult
from reactor_trio.testing.memory_server import TestServer as TestServer
from reactor_trio.testing.memory_server import assert_nothing_left as assert_nothing_left
from reactor_trio.testing.memory_server import open_server as open_server
from reactor_trio.testing.memory_server import open_session as open_session
from reactor_trio.testing.replay_checks import assert_replays as assert_replays
from reactor_trio.testing.replay_checks import replayed_frames as replayed_frames
from reactor_trio.testing.session_client import SessionClient as SessionClient
from reactor_trio.testing.simulated_link import Link as Link
from reactor_trio.testing.virtual_time import StepCost as StepCost
from reactor_trio.testing.virtual_time import hold_clock as hold_clock
from reactor_trio.testing.world_checks import assert_restores as assert_restores
