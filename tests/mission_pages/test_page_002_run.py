"""Reactor's page on `run()`: each code block exactly as on the page, and the page's promises about it."""

from __future__ import annotations

import threading

import pytest
import trio

from reactor_trio.client import connect
from reactor_trio.server.serve import Serving, serve
from reactor_trio.testing import open_server, open_session

CLASS = """
@dataclass
class MyOutput(Output):
    main_video: Video

@dataclass
class Progress(ModelMessage):
    step: int
    total: int = 0

"""
BODY = """
    def load(self, config):
        self.pipe = Pipe(config.get("batch"))
        self.prompt = ""
        self.log = []
        self._step = 0

    @connected
    def on_connected(self):
        self.log.append(("connected", self.connected.is_set()))

    @disconnected
    def on_disconnected(self):
        self.log.append(("disconnected", self.connected.is_set()))

    @event
    def set_prompt(self, prompt: str):
        self.prompt = prompt

"""
MODEL = CLASS + "class MyModel(ReactorModel):\n" + BODY
METHOD = MODEL + "    <block>\n"
STATEMENT = MODEL + """
    async def run(self):
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                frame = self.pipe.forward(prompt=self.prompt)
                <block>
                self.log.append(trio.current_time())
"""
#: blocks that compute their own frames
WHOLE = STATEMENT.replace("                frame = self.pipe.forward(prompt=self.prompt)\n", "")


def red(frames):
    return [int(frame.data[0, 0, 0]) for frame in frames]


def green(frames):
    return [int(frame.data[0, 0, 1]) for frame in frames]


async def test_block_1_basic_pattern(autojump_clock, model_of):
    """`run` is called once after `load`, for the model's life: it serves one client after the other."""
    async with open_server(model_of(METHOD, block=("002", 1)), step_cost=0.1) as server:
        await trio.sleep(5)
        assert server.model.pipe.calls == 0  # it blocks until a client connects
        async with server.connect() as client:
            frames = await client.take(3)
            assert (green(frames), [frame.seq for frame in frames]) == ([0, 1, 2], [0, 1, 2])
            await client.close()
        await trio.sleep(1)
        calls = server.model.pipe.calls
        await trio.sleep(5)
        assert server.model.pipe.calls == calls
        async with server.connect() as client:
            frames = await client.take(1)
            assert (green(frames), frames[0].seq) == ([calls], 0)


async def test_block_1_the_default_run_waits_for_ever(autojump_clock, model_of):
    """Useful for event-driven models: all logic is in the handlers."""
    model = model_of(CLASS + """
class MyModel(ReactorModel):
    @event
    async def paint(self, value: int):
        await self.emit(np.full((8, 8, 3), value, np.uint8))
        return value + 1
""")
    async with open_session(model) as client:
        await trio.sleep(100)
        assert await client.command("paint", value=7) == 8
        assert red(await client.take(1)) == [7]


async def test_block_2_connection_signal(autojump_clock, model_of):
    """Set before @connected fires and cleared before @disconnected does. The page's `...` stands for the work."""
    model = model_of(METHOD + "                await self.emit(MyOutput(main_video=self.pipe.forward()))\n",
                     block=("002", 2))  # fmt: skip
    async with open_server(model, step_cost=0.25) as server:
        assert server.model.connected.is_set() is False
        async with server.connect() as client:
            await client.take(2)
            assert server.model.log == [("connected", True)]
            await client.close()
            assert server.model.log == [("connected", True), ("disconnected", False)]
        assert server.model.connected.is_set() is False


async def test_connected_is_an_event_for_every_waiter(autojump_clock, model_of):
    """Like `asyncio.Event`: `wait` returns at once while it is set, and setting it wakes all waiters."""
    model = model_of(MODEL + """
    async def run(self):
        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(self.watch, name)

    async def watch(self, name):
        await self.connected.wait()
        self.log.append(name)
        await self.connected.wait()
        self.log.append(name)
        await trio.sleep_forever()
""")
    async with open_server(model) as server:
        await trio.sleep(1)
        assert server.model.log == []
        async with server.connect():
            await trio.sleep(1)
            assert sorted(server.model.log[1:]) == list("aabbcc")
            assert server.model.log[0] == ("connected", True)


async def test_connected_is_set_while_an_async_hook_still_runs(autojump_clock, model_of):
    model = model_of(CLASS + """
class MyModel(ReactorModel):
    def load(self, config):
        self.log = []

    @connected
    async def on_connected(self):
        self.log.append("hook begins")
        await trio.sleep(1)
        self.log.append("hook ends")

    async def run(self):
        while True:
            await self.connected.wait()
            self.log.append("run wakes")
            await trio.sleep_forever()
""")
    async with open_server(model) as server, server.connect():
        await trio.sleep(2)
        assert sorted(server.model.log[:2]) == ["hook begins", "run wakes"]
        assert server.model.log[2] == "hook ends"


async def test_block_3_emitting(autojump_clock, model_of):
    """The buffer sends at `fps`, whatever the model's own speed."""
    async with open_session(model_of(STATEMENT, block=("002", 3)), fps=10) as client:
        frames = await client.take(4)
        assert [frame.pts for frame in frames] == [0.0, 0.1, 0.2, 0.3]
        assert (green(frames), frames[0].track) == ([0, 1, 2, 3], "main_video")


async def test_block_4_batches(autojump_clock, model_of, capfd):
    """A batch, also one larger than the buffer, is split and shown frame by frame; nothing is lost."""
    async with open_session(model_of(WHOLE, block=("002", 4)), config={"batch": 10}, fps=10, step_cost=1.0) as client:
        frames = await client.take(20)
        assert green(frames) == [0] * 10 + [1] * 10
        assert [frame.seq for frame in frames] == list(range(20))
        assert [round(frame.pts * 10) for frame in frames] == list(range(10, 30))
    assert capfd.readouterr().out.startswith("(10, 8, 8, 3)\n")


async def test_block_5_emit_blocks_while_the_queue_is_full(autojump_clock, model_of):
    """A model faster than the rate pauses in emit(): no more frames than the buffer holds are ahead of what is shown."""
    async with open_server(model_of(STATEMENT, block=("002", 5)), fps=10) as server, server.connect() as client:
        await client.take(3)
        assert server.model.pipe.calls <= 3 + 4 + 1  # shown, buffered (4 by default), and the one that waits
        await trio.sleep(10)
        emitted = [at for at in server.model.log if isinstance(at, float)]
        assert len(emitted) <= 103 + 4
        assert emitted[-1] - emitted[-11] == pytest.approx(1.0)


async def test_block_6_drop_discards_instead_of_blocking(autojump_clock, model_of):
    template = STATEMENT + "                await trio.sleep(0.025)\n"
    async with open_server(model_of(template, block=("002", 6)), fps=10) as server, server.connect() as client:
        frames = await client.take(20)
        emitted = [at for at in server.model.log if isinstance(at, float)]
        assert emitted[:40] == pytest.approx([0.025 * i for i in range(40)])  # it never waits
        assert server.runtime.metrics.drops()["buffer", "full"] > 20
        seqs = [frame.seq for frame in frames]
        assert seqs == green(frames)
        assert seqs[-1] - seqs[-2] == 4  # the gap shows what was discarded


async def test_block_7_adaptive_frame_rate(autojump_clock, model_of):
    """`compute_time` adapts the rate to the model: 4 frames in 1 s are shown at 4 a second, not at 30."""
    async with open_server(model_of(WHOLE, block=("002", 7)), config={"batch": 4}, step_cost=1.0) as server:
        async with server.connect() as client:
            frames = await client.take(8)
            assert [frame.pts for frame in frames] == [1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75]
            assert server.model.output_buffer.fps == 4


async def test_block_8_fps_and_buffer_size(autojump_clock, model_of):
    """The page's `...` stands for a loop; frames come at the class's fps, 4 of them buffered."""
    template = CLASS + "<block>\n" + """
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                await self.emit(MyOutput(main_video=self.pipe.forward()))
""" + BODY
    async with open_server(model_of(template, block=("002", 8))) as server, server.connect() as client:
        frames = await client.take(25)
        assert frames[24].pts == pytest.approx(1.0, abs=2e-6)
        assert (server.model.fps, server.model.buffer_size, server.model.output_buffer.fps) == (24, 4, 24)
        assert server.model.pipe.calls <= 25 + 4 + 1


async def test_block_8_the_defaults_are_30_and_4(autojump_clock, model_of):
    async with open_server(model_of(STATEMENT, block=("002", 3))) as server, server.connect() as client:
        assert (server.model.fps, server.model.buffer_size) == (30, 4)
        assert (await client.take(31))[30].pts == pytest.approx(1.0, abs=2e-6)


async def test_block_9_a_buffer_for_batches(autojump_clock, model_of):
    """With room for two batches the model computes the next one while the first is shown."""
    template = CLASS + "<block>\n" + """
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                await self.emit(MyOutput(main_video=self.pipe.forward()))
""" + BODY
    model = model_of(template, block=("002", 9))
    async with open_server(model, config={"batch": 10}, step_cost=0.25) as server, server.connect() as client:
        frames = await client.take(40)
        assert (server.model.fps, server.model.buffer_size) == (30, 20)
        assert frames[39].pts - frames[0].pts == pytest.approx(39 / 30, abs=2e-6)  # no pause between the batches
        assert green(frames) == [n // 10 for n in range(40)]


async def test_block_10_dynamic_fps(autojump_clock, model_of):
    """`set_fps` takes effect at once, also for what is queued."""
    template = STATEMENT + """
    @event
    def change(self, new_fps: float):
        <change>
"""
    model = model_of(template, block=("002", 3), change=("002", 10))
    async with open_server(model, fps=10) as server, server.connect() as client:
        frames = await client.take(3)
        await client.command("change", new_fps=2)
        frames += await client.take(3)
        assert [frame.pts for frame in frames] == [0.0, 0.1, 0.2, 0.7, 1.2, 1.7]
        assert server.model.output_buffer.fps == 2


async def test_block_11_sending_messages(autojump_clock, model_of):
    template = MODEL + """
    async def run(self):
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                <block>
                await self.emit(MyOutput(main_video=self.pipe.forward()))
                self._step += 1
"""
    async with open_session(model_of(template, block=("002", 11)), step_cost=0.25) as client:
        await client.take(2)
        messages = [await client.next_message() for _ in range(2)]
        assert [(m.type, m.data) for m in messages] == [("progress", {"step": n, "total": 100}) for n in (0, 1)]


async def test_block_12_concurrency(autojump_clock, model_of):
    """Handlers run at any await of run(); values that run() read before stay the same for the frame."""
    async with open_server(model_of(METHOD, block=("002", 12)), fps=10, step_cost=1.0) as server:
        async with server.connect() as client:
            await trio.sleep(0.5)  # run() waits in its first emit
            await client.command("set_prompt", prompt="a cat")
            assert trio.current_time() == 0.5
            assert server.model.prompt == "a cat"
            frames = await client.take(2)
            assert red(frames) == [0, 5]
            assert [int(frame.data[0, 0, 2]) for frame in frames] == [0, 1]


async def test_a_forward_that_blocks_does_not_block_the_server(model_of):
    """`async def run` calls it directly, as on the page. Over real sockets: viewers connect while the model blocks."""
    model = model_of(METHOD.replace("self.pipe = Pipe(", "self.pipe = config['pipe']("), block=("002", 1))
    entered, token, release = trio.Event(), trio.lowlevel.current_trio_token(), threading.Event()
    pipes = []

    def hold():
        token.run_sync_soon(entered.set)
        assert release.wait(120)

    def pipe(batch):
        pipes.append(__import__(model.__module__).Pipe(batch))
        pipes[0].hold = hold
        return pipes[0]

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            serving: Serving = await nursery.start(lambda task_status: serve(
                model, host="127.0.0.1", port=0, config={"pipe": pipe}, task_status=task_status
            ))  # fmt: skip
            async with connect(serving.url, video=["raw"]) as client:
                await entered.wait()  # the model's thread is inside forward, and stays there
                async with connect(serving.url, video=["raw"], role="viewer") as viewer:
                    assert viewer.session_id == client.session_id
                release.set()
                pipes[0].hold = None
                assert green([await anext(client.frames())]) == [0]
            nursery.cancel_scope.cancel()
