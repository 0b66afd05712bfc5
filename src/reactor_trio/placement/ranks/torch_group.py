"""The process group of `torch.distributed` that the ranks form.

The ranks find each other by a store in a file without a name, which each rank inherits open. So there is no port that
another program could take or reach, and nothing is left behind. Connections between ranks use the loopback interface.
"""

from __future__ import annotations

import os

from reactor_trio.processors import usable_processors


def join(rank: int, world_size: int, store: int) -> None:
    """Join the group, and select the GPU of this rank. Call it on the model thread, before the model is loaded.

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
    """Leave the group, if this process has joined it. No rank may be in a call."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def environment(rank: int, world_size: int, port: int) -> dict[str, str]:
    """Return the environment of a rank, with what `torchrun` sets for libraries; `port` is for stores of theirs."""
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
