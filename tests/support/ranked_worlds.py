"""The model of the tests of real ranks' worlds: each makes its half of a picture from numbers of its own, 2.4 MB of them."""

MODEL = '''
import torch
import torch.distributed as dist
from reactor_trio import *
from reactor_trio.interface import Saves

class Picture(Output):
    main_video: Video

class Model(DistributedPipeline):
    output: Picture
    saves = Saves("number", "dice", "past")
    fps = 30
    ranks = 2

    def load(self, config):
        pass

    @connected
    def begin(self):
        self.number = torch.tensor([self.rank])
        self.dice = torch.Generator()
        self.dice.manual_seed(self.rank)
        self.past = torch.zeros(300_000, dtype=torch.int64)

    def inference(self):
        while True:
            drawn = torch.randint(0, 200, (1,), generator=self.dice)
            self.past[-1] += drawn[0]
            self.number = (self.number * 3 + self.past[-1:]) % 199
            halves = torch.zeros((16, 16, 3), dtype=torch.int64)
            halves[self.rank * 8:(self.rank + 1) * 8] = self.number + 1
            dist.all_reduce(halves)
            yield halves.to(torch.uint8)
'''
