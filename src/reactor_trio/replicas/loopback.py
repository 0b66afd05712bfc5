"""`listen_on_loopback`: keeps Serve's internal port on loopback when Ray serves one machine only.

Ray's own servers listen on loopback if the node's address is a loopback address, as `cluster.LOCAL` makes it. Serve opens
one more port in each replica, for gRPC calls between deployments, which this package does not use. That port always listens
on all interfaces. `listen_on_loopback` moves it to loopback, in the process that calls it. The function that it replaces is
private to Ray; only this module touches it.
"""

from __future__ import annotations

from typing import Any

import ray

from reactor_trio.edge.ip_addresses import is_loopback


def listen_on_loopback() -> None:
    """Move Serve's port to loopback if the node's address is on loopback. Call this before Serve opens the port."""
    address = str(ray.util.get_node_ip_address())
    if not is_loopback(address):
        return
    from ray.serve._private import replica

    add_port = replica.add_port_to_grpc_server

    def add_loopback_port(server: Any, wanted: str) -> Any:
        return add_port(server, f"{address}:{wanted.rpartition(':')[2]}")

    replica.add_port_to_grpc_server = add_loopback_port
