"""`DistributedPipeline`: one model on several processes of one machine, one for each GPU."""

from __future__ import annotations

from reactor_trio.interface.model import ReactorPipeline


class DistributedPipeline(ReactorPipeline):
    """A pipeline that runs on several *ranks* at once, each a process with an instance of its own.

    The runtime calls the same code with the same arguments in the same order on each rank: `load`, hooks, handlers,
    `inference()`. No step begins before all ranks have ended the one before. What rank 0 yields is shown, what the others
    yield is not looked at. `torch.distributed` is ready in `load`: NCCL where each rank has a GPU, Gloo for the CPU.

    What the code asks the runtime (`cancelled()`, `connected`, input tracks) is answered alike on all ranks. Clocks, random
    numbers and the environment are not the runtime's: seed generators alike, or broadcast what one rank has drawn.

    Class attributes, beside those of every pipeline:
        ranks: processes that one model takes, 1 by default; with 1 it is a `ReactorPipeline`. `runtime.ranks` lays over it.

    Attributes:
        rank: number of this process, from 0; set before `load`.
        world_size: how many there are; set before `load`.
    """

    ranks: int = 1
    rank: int = 0
    world_size: int = 1
