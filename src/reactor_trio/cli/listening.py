"""What to do when the server cannot listen."""

from __future__ import annotations

import errno


def listen_remedy(error: OSError, port: int) -> str:
    """Return what to do about `error`, which binding the address raised."""
    return {
        errno.EADDRINUSE: f"stop what uses it (ss -ltnp 'sport = :{port}'), or choose another --port (0 picks a free one)",
        errno.EACCES: "choose a port from 1024 up, or allow it: AmbientCapabilities=CAP_NET_BIND_SERVICE",
    }.get(error.errno or 0, "correct runtime.host (--host): an address of this machine, or 0.0.0.0 for all of them")
