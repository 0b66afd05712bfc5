"""The model that the tests with real processes serve, and what they ask of it."""

MODEL = '''
import asyncio
import ctypes
import logging
import os
import time
import anyio
import anyio.to_thread
import numpy as np
import sniffio
import trio
from reactor_trio import *

log = logging.getLogger("author")

class Picture(Output):
    main_video: Video

class Camera(Input):
    webcam: Video

class State(InputState):
    level: int = InputField(default=0, ge=0, le=255)
    file: UploadedFile | None = InputField(default=None)

class Note(ModelMessage):
    text: str

class Model(ReactorPipeline):
    state: State
    fps = 60
    camera: Camera

    def load(self, config):
        self.buffer = np.zeros((240, 320, 3), np.uint8)

    @event
    def process(self) -> dict:
        names = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.islink(entry.path)]
        descriptors = len([name for name in names if "reactor-frames" not in name])
        return {"pid": os.getpid(), "descriptors": descriptors, "threads": len(os.listdir("/proc/self/task"))}

    @event
    def logs(self) -> list:
        logger = logging.getLogger("a.library")
        return [logger.isEnabledFor(level) for level in (logging.DEBUG, logging.INFO)]

    @event
    async def note(self, text: str):
        log.warning("about %s", text)
        await self.send(Note(text=text))

    @event
    def file_size(self) -> int:
        return len(self.state.file.data)

    @event
    def raises(self):
        raise ValueError("no")

    @event
    def on_asyncio(self) -> list:
        async def name():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, int, "3")
            return sniffio.current_async_library()
        return [asyncio.run(name()), sniffio.current_async_library()]

    @event
    def segfault(self):
        ctypes.string_at(0)

    @event
    async def break_loop(self):
        def fail():
            raise KeyError("raised in the loop")

        trio.lowlevel.current_trio_token().run_sync_soon(fail)

    @event
    def scribble(self):
        with open("/proc/self/cmdline", "rb") as given:  # the link's number follows the name of the module
            os.write(int(given.read().split(b"\\0")[4]), b"\\5\\0\\0\\0\\0\\0\\0\\0oops!")

    @event
    def exit(self):
        os._exit(7)

    @event
    def hang(self):
        ctypes.PyDLL(None).sleep(60)  # the interpreter is not let go

    def inference(self):
        number = 0
        while True:
            frames = self.camera.webcam.try_read(1)
            if frames:
                self.buffer[:] = frames[0].data.mean().astype(np.uint8)
            else:
                self.buffer[:] = self.state.level
            self.buffer[0, 0] = number % 256  # one buffer, used again at once
            number += 1
            yield self.buffer
'''
