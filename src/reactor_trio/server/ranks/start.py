"""The first lines of a rank's process: `python -m reactor_trio.server.ranks.start DESCRIPTOR AHEAD STORE LINK...`.

Rank 0 has a link to each of the others, the others have one to it. Which rank this is stands in the environment.
"""

from __future__ import annotations

import os
import socket
import sys
from functools import partial

from reactor_trio.model_host import ModelHost
from reactor_trio.server.isolation.link import Link
from reactor_trio.server.isolation.shared import SharedFrames
from reactor_trio.server.isolation.start import main
from reactor_trio.server.ranks import torch_group
from reactor_trio.server.ranks.link import RankLink
from reactor_trio.server.ranks.words import Done, FromLead
from reactor_trio.server.ranks.worker import follow, lead


async def _serve(store: int, links: list[int], link: Link, host: ModelHost, frames: SharedFrames) -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    heard = Done if rank == 0 else FromLead
    others = [RankLink(socket.socket(fileno=descriptor), heard) for descriptor in links]
    join, leave = partial(torch_group.join, rank, world_size, store), torch_group.leave
    if rank == 0:
        await lead(link, host, frames, others=others, join=join, leave=leave)
    else:
        await follow(link, host, rank=rank, world_size=world_size, first=others[0], join=join, leave=leave)


if __name__ == "__main__":
    descriptor, ahead, *own = sys.argv[1:]
    store, *links = map(int, own)
    main(int(descriptor), float(ahead), partial(_serve, store, links))
