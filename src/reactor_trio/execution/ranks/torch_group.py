"""The process group of `torch.distributed` that the ranks are.

The store in which they find each other is a file without a name, that each has open from its start: no port that another
program could take first or reach, and nothing is left of it. Connections between ranks are on the loopback interface.
"""

from __future__ import annotations

import os

from reactor_trio.execution.processors import usable_processors


def join(rank: int, world_size: int, store: int) -> None:
    """Join the group, and take the GPU of this rank; on the model thread, before the model is loaded.

    `store` is the descriptor of the file. Blocks until all ranks have joined.
    """
    import torch
    from torch import distributed

    backend = "gloo"
    if torch.cuda.is_available() and torch.cuda.device_count() >= world_size:
        torch.cuda.set_device(rank)
        backend = "cpu:gloo,cuda:nccl"
    file = distributed.FileStore(  # type: ignore[attr-defined]  # its stubs do not export it
        f"/proc/self/fd/{store}", world_size
    )
    distributed.init_process_group(backend, store=file, rank=rank, world_size=world_size)


def leave() -> None:
    """Leave it, if it was joined; no rank is in a call."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def environment(rank: int, world_size: int, port: int) -> dict[str, str]:
    """What `torchrun` would set, for libraries that read it; `port` is for a store of their own."""
    threads = max(1, usable_processors() // world_size)
    return {
        "OMP_NUM_THREADS": str(threads),
        "GLOO_SOCKET_IFNAME": "lo",
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
