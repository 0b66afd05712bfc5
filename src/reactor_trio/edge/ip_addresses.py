"""IP addresses in text: of a connection's other end, in a header, in a setting."""

from __future__ import annotations

import ipaddress

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_ip(text: str) -> IpAddress | None:
    """Parse `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`. An IPv4-mapped IPv6 address becomes IPv4."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_loopback(host: str) -> bool:
    """Whether a host is certainly this computer: `localhost`, a name below it, or a loopback address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = parse_ip(host)
    return address is not None and address.is_loopback


def is_everywhere(host: str) -> bool:
    """Whether `host` means all addresses of this machine (`0.0.0.0`, `::`)."""
    address = parse_ip(host)
    return address is not None and address.is_unspecified


def network(address: IpAddress) -> str:
    """The address, of IPv6 the /64 network of it, as text."""
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


def network_of(peer: str) -> str:
    """The address of a connection for the log, with or without limits: of IPv6 the /64. Other texts stay as they are."""
    address = parse_ip(peer)
    return peer if address is None else network(address)
