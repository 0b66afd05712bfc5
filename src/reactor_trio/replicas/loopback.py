"""Keeps a Ray that serves one machine on loopback, where Ray itself would listen on all interfaces.

Ray's own servers listen on loopback if the node's address is a loopback one, which `cluster.LOCAL` makes it. Serve opens one
more port in each replica, for calls between deployments over gRPC, which are not used here, always on all interfaces:
`narrow` makes that loopback, too, in the process that calls it. It is not public in Ray; what is used of it stands here
alone.
"""

from __future__ import annotations

from typing import Any

import ray

from reactor_trio.edge.address_limits import is_loopback


def narrow() -> None:
    """In a replica whose node is on loopback, before Serve opens its port; elsewhere nothing."""
    address = str(ray.util.get_node_ip_address())
    if not is_loopback(address):
        return
    from ray.serve._private import replica

    add_port = replica.add_port_to_grpc_server

    def add_loopback_port(server: Any, wanted: str) -> Any:
        return add_port(server, f"{address}:{wanted.rpartition(':')[2]}")

    replica.add_port_to_grpc_server = add_loopback_port
