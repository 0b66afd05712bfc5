"""The entry point of a rank's process: `python -m reactor_trio.execution.ranks.rank_main DESCRIPTOR AHEAD STORE LINK...`.

Rank 0 has a link to each other rank, and each other rank has one to rank 0. The environment gives the number of this rank.
"""

from __future__ import annotations

import os
import socket
import sys
from functools import partial

from reactor_trio.concurrency import ModelHost
from reactor_trio.execution.isolation.process_link import IpcLink
from reactor_trio.execution.isolation.process_main import main
from reactor_trio.execution.isolation.shared_frames import SharedFrames
from reactor_trio.execution.ranks import torch_group
from reactor_trio.execution.ranks.rank_link import RankLink
from reactor_trio.execution.ranks.rank_messages import FromLeader, RankCallDone
from reactor_trio.execution.ranks.rank_worker import follow, lead


async def _serve(store: int, links: list[int], link: IpcLink, host: ModelHost, frames: SharedFrames) -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    message_types = RankCallDone if rank == 0 else FromLeader
    others = [RankLink(socket.socket(fileno=descriptor), message_types) for descriptor in links]
    join, leave = partial(torch_group.join, rank, world_size, store), torch_group.leave
    if rank == 0:
        await lead(link, host, frames, others=others, join=join, leave=leave)
    else:
        await follow(link, host, rank=rank, world_size=world_size, first=others[0], join=join, leave=leave)


if __name__ == "__main__":
    descriptor, ahead, *own = sys.argv[1:]
    store, *links = map(int, own)
    main(int(descriptor), float(ahead), partial(_serve, store, links))
