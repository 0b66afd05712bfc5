"""This machine's own addresses: which ones it has, and at which of them clients find a server."""

from __future__ import annotations

import errno
import ipaddress
import socket

from reactor_trio.edge.ip_addresses import IpAddress, is_everywhere, is_loopback

#: errors that say that the system has nothing left, and nothing about an address
_SHORT = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}


def is_own_address(host: str) -> bool:
    """Whether `host` is an IP address, not a name, that this machine has now.

    It looks up no name and sends nothing: the system binds a socket only to an address of this machine. Without a free
    descriptor for that it says yes, because no DNS record can point an address elsewhere, and probes come by address.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if address.is_unspecified or address.is_multicast or "%" in host:
        return False
    try:
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:  # refused by a system without IPv6
            probe.bind((str(address), 0))
            probe.connect((str(address), 9))  # refused to a broadcast address, which may be bound
    except OSError as error:
        return error.errno in _SHORT
    return True


def page_urls(host: str, port: int, *, secure: bool) -> list[str]:
    """The URLs of the page of a server that listens at `host`: one for each of `reachable_hosts`.

    If `host` is the path of a Unix socket: `unix:` and that path.
    """
    if "/" in host:
        return [f"unix:{host}"]
    scheme = "https" if secure else "http"
    return [f"{scheme}://{f'[{one}]' if ':' in one else one}:{port}/" for one in reachable_hosts(host)]


def reachable_hosts(host: str) -> list[str]:
    """The hosts at which clients reach a server that listens at `host`. The first one works for most clients.

    If it listens at all addresses: the address from which this machine reaches others, this machine's name, and loopback.
    Without a network: only loopback.
    """
    if not is_everywhere(host):
        return [host]
    address = ipaddress.ip_address(host)
    # Addresses for documentation (RFC 5737, RFC 3849). Connecting a datagram socket looks for a route and sends nothing.
    far, loopback = ("192.0.2.1", "127.0.0.1") if address.version == 4 else ("2001:db8::1", "::1")
    try:
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            outward: str = probe.getsockname()[0]
    except OSError:
        return [loopback]
    found = [outward, own_name(), loopback]
    return [one for one in dict.fromkeys(found) if one and (one == loopback or not is_loopback(one))]


def own_name() -> str:
    """This machine's name, as `hostname` prints it, in lower case; "" without one."""
    return socket.gethostname().lower()


def _family(address: IpAddress) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6
