"""`DistributedPipeline`: one model on several processes of one machine, one process for each GPU."""

from __future__ import annotations

from reactor_trio.interface.model import ReactorPipeline


class DistributedPipeline(ReactorPipeline):
    """A pipeline that runs on several *ranks* at once. Each rank is a process with its own instance of the model.

    On each rank the runtime calls the same code with the same arguments in the same order: `load`, hooks, handlers,
    `inference()`. No step begins before all ranks have finished the previous one. Clients see the frames of rank 0; the
    runtime ignores those of the other ranks. `torch.distributed` is ready in `load`, with NCCL if each rank has a GPU, else
    with Gloo.

    Calls of the runtime (`cancelled()`, `connected`, input tracks) return the same values on all ranks. The runtime does not
    control clocks, random numbers and the environment: give all ranks the same seed, or broadcast one rank's values.

    A task or thread that goes on between steps belongs to the step or hook in which it begins, and to no later one. From the
    end of that call on, it gets what its own rank knows, and frames of input tracks come on rank 0 alone: on the other ranks
    a `read` waits until its timeout. A result that all ranks need, the step itself must ask for.

    Class attributes, beside those of every pipeline:
        ranks: number of processes, 1 by default: the model is then a plain `ReactorPipeline`. `runtime.ranks` overrides it.

    Attributes:
        rank: number of this process, from 0; set before `load`.
        world_size: number of processes; set before `load`.
    """

    ranks: int = 1
    rank: int = 0
    world_size: int = 1
