"""The model that the tests with real ranks serve: a picture of which each rank makes its half."""

MODEL = '''
import os
import time
import numpy as np
import torch
import torch.distributed as dist
from reactor_trio import *

class Picture(Output):
    main_video: Video

class Camera(Input):
    webcam: Video

class State(InputState):
    level: int = InputField(default=0, ge=0, le=255)

class Model(DistributedPipeline):
    state: State
    output: Picture
    camera: Camera
    fps = 60
    ranks = 2

    def load(self, config):
        self.todo = ""
        seed = torch.tensor([os.getpid()])
        dist.broadcast(seed, 0)
        self.pids = [None] * self.world_size
        dist.all_gather_object(self.pids, os.getpid())

    @event
    def processes(self) -> dict:
        holds = [None] * self.world_size
        names = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.islink(entry.path)]
        own = len([name for name in names if "reactor-frames" not in name])  # of which now more, now less are seen
        dist.all_gather_object(holds, own)
        return {"pids": self.pids, "holds": holds, "rank": os.environ["RANK"], "of": os.environ["WORLD_SIZE"]}

    @event
    def levels(self) -> list:
        found = [None] * self.world_size
        dist.all_gather_object(found, self.state.level)
        return found

    @event
    def act(self, what: str, rank: int = -1):
        self.todo = what if rank in (-1, self.rank) else ""

    @event
    async def in_step(self):
        pass

    def inference(self):
        number = 0
        while True:
            match self.todo:
                case "raise":
                    self.todo = ""
                    raise ValueError("in a step")
                case "hang":
                    time.sleep(1000)
                case "exit":
                    os._exit(7)
                case "poll":  # as long as the client is there, with a collective call in each turn
                    while not self.cancelled():
                        dist.barrier()
                        time.sleep(0.001)
                    self.todo = ""
            half = torch.zeros((240, 320, 3), dtype=torch.int32)
            half[self.rank * 120:(self.rank + 1) * 120] = self.state.level + 100 * self.rank
            frames = self.camera.webcam.try_read(1)
            if frames:
                half[0, 0] = int(frames[0].data.mean())
            dist.all_reduce(half)
            half[-1, -1] = number % 256
            number += 1
            yield half.to(torch.uint8)
'''
