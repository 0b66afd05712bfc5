"""Reactor's page on `inference()`: each code block exactly as on the page, and the page's promises about it."""

from __future__ import annotations

import threading

import pytest
import trio

from reactor_trio.testing import open_server

PIPELINE = """
@dataclass
class MyOutput(Output):
    main_video: Video

@dataclass
class MyState(InputState):
    prompt: str = InputField(default="")

@dataclass
class Progress(ModelMessage):
    step: int

class MyModel(ReactorPipeline):
    state: MyState

    def load(self, config):
        self.pipe = Pipe(config.get("batch"))
        self._step = 0
        self.log = []

"""

HOOKS = """
    @connected
    def on_connected(self):
        self.log.append(("connected", self.pipe.calls, self.state.prompt))

    @disconnected
    def on_disconnected(self):
        self.log.append(("disconnected", self.pipe.calls, self.state.prompt))
"""

METHOD = PIPELINE + "    <block>\n"
STATEMENT = PIPELINE + """
    def inference(self):
        while True:
            frame = self.pipe.forward(prompt=self.state.prompt)
            <block>
"""


def red(frames):
    return [int(frame.data[0, 0, 0]) for frame in frames]


def green(frames):
    return [int(frame.data[0, 0, 1]) for frame in frames]


async def test_block_1_basic_pattern(autojump_clock, model_of, thread):
    """Each iteration reads the state, runs forward and sends the yield; frames come at the rate of the compute time."""
    model = model_of(METHOD, block=("000", 1))
    async with open_server(model, step_cost=0.1, thread=thread) as server, server.connect() as client:
        frames = await client.take(3)
        assert [frame.pts for frame in frames] == [0.1, 0.2, 0.3]
        assert (red(frames), green(frames)) == ([0, 0, 0], [0, 1, 2])
        await client.command("set_prompt", prompt="a cat")
        frames = await client.take(4)
        changed = next(frame for frame in frames if frame.command_id == 1)
        assert red([changed]) == [5]
        assert changed.seq <= 5  # the frame under way and one that waits, not a buffer full of old ones


async def test_block_2_async_with_messages(autojump_clock, model_of, thread):
    """An async generator may await: a message sent before a yield arrives before that frame."""
    model = model_of(METHOD, block=("000", 2))
    async with open_server(model, step_cost=0.25, thread=thread) as server, server.connect() as client:
        frames = await client.take(3)
        messages = [await client.next_message() for _ in range(3)]
        assert green(frames) == [0, 1, 2]
        assert [(m.type, m.data) for m in messages] == [("progress", {"step": step}) for step in (0, 1, 2)]


async def test_block_3_yield_an_output(autojump_clock, model_of, thread):
    model = model_of(STATEMENT, block=("000", 3))
    async with open_server(model, step_cost=0.25, thread=thread) as server, server.connect() as client:
        frames = await client.take(2)
        assert [(frame.track, frame.data.shape) for frame in frames] == [("main_video", (8, 8, 3))] * 2


async def test_block_4_yield_the_raw_frame(autojump_clock, model_of, thread):
    model = model_of(STATEMENT, block=("000", 4))
    async with open_server(model, step_cost=0.25, thread=thread) as server, server.connect() as client:
        frames = await client.take(2)
        assert [(frame.track, green([frame])) for frame in frames] == [("main_video", [0]), ("main_video", [1])]


async def test_block_5_batch_yields(autojump_clock, model_of, thread, capfd):
    """The runtime splits the batch and shows each frame at the target rate."""
    model = model_of(METHOD, block=("000", 5))
    async with open_server(model, config={"batch": 4}, step_cost=1.0, thread=thread) as server:
        async with server.connect() as client:
            frames = await client.take(8)
            assert [frame.pts for frame in frames] == [1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75]
            assert green(frames) == [0, 0, 0, 0, 1, 1, 1, 1]
            assert [frame.step for frame in frames] == green(frames)
    assert capfd.readouterr().out.startswith("(4, 8, 8, 3)\n(4, 8, 8, 3)\n")


async def test_block_6_idling(autojump_clock, model_of, thread):
    """`yield Idle` skips an iteration: nothing is sent until the prompt is set, then frames come at once."""
    model = model_of(METHOD, block=("000", 6))
    async with open_server(model, step_cost=0.25, thread=thread) as server, server.connect() as client:
        with trio.move_on_after(5) as waiting:
            await client.take(1)
        assert waiting.cancelled_caught
        await client.command("set_prompt", prompt="a cat")
        at = trio.current_time()
        frames = await client.take(2)
        assert (red(frames), [frame.step for frame in frames]) == ([5, 5], [0, 1])
        assert trio.current_time() - at == 0.5


async def test_block_6_none_idles_too(autojump_clock, model_of, thread):
    model = model_of(PIPELINE + """
    def inference(self):
        while not self.state.prompt:
            yield None
        while True:
            yield MyOutput(main_video=self.pipe.forward(prompt=self.state.prompt))
""")
    async with open_server(model, step_cost=0.25, thread=thread) as server, server.connect() as client:
        with trio.move_on_after(1) as waiting:
            await client.take(1)
        assert waiting.cancelled_caught
        await client.command("set_prompt", prompt="a cat")
        assert red(await client.take(1)) == [5]


@pytest.mark.parametrize("number", [1, 2])
async def test_lifecycle_connect_and_disconnect(autojump_clock, model_of, thread, number):
    """The generator starts after @connected and closes when the client leaves; each connection has a new state."""
    model = model_of(METHOD + HOOKS, block=("000", number))
    async with open_server(model, step_cost=0.25, thread=thread) as server:
        async with server.connect() as client:
            await client.command("set_prompt", prompt="a cat")
            await client.take(2)
            await client.close()
        made = server.model.pipe.calls
        assert server.model.log == [("connected", 0, ""), ("disconnected", made, "a cat")]
        async with server.connect() as client:
            assert red(await client.take(1)) == [0]
        assert server.model.log[2] == ("connected", made, "")


async def test_lifecycle_a_finite_loop_is_restarted(autojump_clock, model_of, thread):
    """While the client is connected, a generator that returns is replaced by a new one of the same instance."""
    model = model_of(PIPELINE + """
    def inference(self):
        for step in range(2):
            yield MyOutput(main_video=self.pipe.forward(step=step))
""")
    async with open_server(model, step_cost=0.25, thread=thread) as server, server.connect() as client:
        frames = await client.take(5)
        assert [int(frame.data[0, 0, 2]) for frame in frames] == [0, 1, 0, 1, 0]
        assert green(frames) == [0, 1, 2, 3, 4]


async def test_state_consistency(autojump_clock, model_of, thread):
    """Handlers run only between two yields: the state does not change inside an iteration, not even across an await."""
    model = model_of(PIPELINE + """
    async def inference(self):
        while True:
            first = self.state.prompt
            await trio.sleep(0.5)
            second = self.state.prompt
            self.log.append((first, second))
            yield MyOutput(main_video=self.pipe.forward(prompt=second))
""")
    async with open_server(model, thread=thread) as server, server.connect() as client:
        await trio.sleep(0.25)
        await client.command("set_prompt", prompt="a cat")
        assert trio.current_time() == 0.5
        await client.take(2)
        assert server.model.log[:2] == [("", ""), ("a cat", "a cat")]


@pytest.mark.parametrize("number", [1, 2], ids=["sync", "async"])
async def test_a_forward_that_blocks_does_not_block_the_server(autojump_clock, model_of, number):
    """`async def inference` calls it directly, as on the page. Meanwhile clients connect, and a disconnect is noticed."""
    model = model_of(METHOD, block=("000", number))
    entered, token = trio.Event(), trio.lowlevel.current_trio_token()
    release = threading.Event()

    def hold():
        token.run_sync_soon(entered.set)
        assert release.wait(120)

    async with open_server(model, step_cost=0.25, thread=True) as server:
        server.model.pipe.hold = hold
        async with server.connect() as client:
            await entered.wait()  # the model's thread is inside forward, and stays there
            assert server.http("/health").status == 200
            async with server.connect(role="viewer") as viewer:
                assert viewer.session_id == client.session_id
            waiting = []
            async with trio.open_nursery() as nursery:

                async def queue():
                    async with server.connect(on_queued=lambda *place: waiting.append(place)) as second:
                        assert green(await second.take(1)) == [server.model.pipe.calls - 1]

                nursery.start_soon(queue)
                await trio.testing.wait_all_tasks_blocked()
                assert waiting == [(1, 1)]
                await client.vanish()
                release.set()
