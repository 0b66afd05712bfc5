"""The model of the test that rewinds real ranks: each makes its half of a picture from a number of its own."""

MODEL = '''
import torch
import torch.distributed as dist
from reactor_trio import *
from reactor_trio.interface import Saves

class Picture(Output):
    main_video: Video

class Model(DistributedPipeline):
    output: Picture
    saves = Saves("number", "dice")
    fps = 30
    ranks = 2

    def load(self, config):
        pass

    @connected
    def begin(self):
        self.number = torch.tensor([self.rank])
        self.dice = torch.Generator()
        self.dice.manual_seed(self.rank)

    def inference(self):
        while True:
            drawn = torch.randint(0, 200, (1,), generator=self.dice)
            self.number = (self.number * 3 + drawn) % 199
            halves = torch.zeros((16, 16, 3), dtype=torch.int64)
            halves[self.rank * 8:(self.rank + 1) * 8] = self.number + 1
            dist.all_reduce(halves)
            yield halves.to(torch.uint8)
'''
