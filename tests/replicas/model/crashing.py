"""A model that can be made to fail in each way, and says where it runs."""

import os
import signal
import sys
import time

import numpy as np

from reactor_trio import Output, ReactorPipeline, Video, event
from reactor_trio.server.runtime_host import ServerThread


class Picture(Output):
    picture: Video


class Crashing(ReactorPipeline):
    output: Picture
    fps = 30

    def load(self, config):
        self.version = config["version"]

    @event
    def who(self) -> dict:
        return {"process": os.getpid(), "version": self.version}

    @event
    def fault(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    @event
    def hang(self):
        """The loop of the sockets stands still, and everything else goes on."""
        the_host().post(time.sleep, 3600)

    @event
    def crash(self):
        """The runtime itself fails."""
        the_host().post(fail)

    def inference(self):
        while True:
            yield Picture(picture=np.full((48, 64, 3), 7, np.uint8))


def the_host() -> ServerThread:
    """The server around this model; a fault reaches it, a model does not."""
    for frame in sys._current_frames().values():
        while frame is not None:
            if isinstance(found := frame.f_locals.get("self"), ServerThread):
                return found
            frame = frame.f_back
    raise LookupError("no server here")


def fail() -> None:
    raise RuntimeError("a fault of the runtime")
