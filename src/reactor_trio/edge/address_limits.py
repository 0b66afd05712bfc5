"""The limits of one client address: connections at a time; handshakes, requests and wrong credentials a minute.

An address is an IPv4 address, or the /64 network of an IPv6 address, because one user usually has the whole network. Behind
a proxy in `runtime.proxies`, the proxy's `X-Forwarded-For` gives the address: its last hop that is not such a proxy. From
any other peer the header proves nothing and is ignored.

Loopback addresses and the proxies themselves have no limit per address, because many clients may share them. The limit of
all connections counts them too, and each address behind a proxy has its own limits.

A request with a wrong credential counts as a failure, and not as a handshake or request. So failures of an address never
refuse a right credential from the same address.

This module also knows this machine's own addresses: which ones it has, and at which of them a browser finds the page.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import math
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import trio

from reactor_trio.configuration.settings import LimitSettings
from reactor_trio.edge.allowances import Allowances
from reactor_trio.edge.request_metrics import LimitKind
from reactor_trio.transport import Refusal, Refused, Request

log = logging.getLogger("reactor_trio.server")

#: Wrong credentials that one address may show in a minute.
FAILURES_PER_MINUTE = 60
#: errors that say that the system has nothing left, and nothing about an address
_SHORT = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
#: Seconds in which the log has one line for a limit.
LINE_PAUSE = 60.0


class Addresses:
    """Counts and limits the client addresses of one server.

    Args:
        limits: 0 means no limit.
        proxies: addresses and networks whose `X-Forwarded-For` is trusted.
        limited: counts refusals.
    """

    def __init__(self, limits: LimitSettings, proxies: Sequence[str], limited: Callable[[LimitKind], None]) -> None:
        self._bounds: dict[LimitKind, int] = {
            "connections": limits.connections, "address_connections": limits.connections_per_address,
            "address_waiting": limits.waiting_per_address, "address_handshakes": limits.handshakes_per_minute,
            "address_requests": limits.http_per_minute, "address_failures": FAILURES_PER_MINUTE,
        }  # fmt: skip
        minutely: tuple[LimitKind, ...] = ("address_handshakes", "address_requests", "address_failures")
        self._allowances = {kind: Allowances(self._bounds[kind]) for kind in minutely}
        self._proxies = [ipaddress.ip_network(proxy, strict=False) for proxy in proxies]
        self._limited = limited
        self._open: Counter[str] = Counter()
        self._behind: Counter[str] = Counter()
        self._logged_at: dict[LimitKind, float] = {}

    # ---- the address of a client --------------------------------------------------------------------------------------

    def of_peer(self, peer: str) -> str | None:
        """The address of a connection from `peer` (as in `WireStream.peer`), None if it has no limits."""
        address = _parse(peer)
        return None if address is None or self._is_proxy(address) else _key(address)

    def of_request(self, request: Request) -> str | None:
        """The address of the client that made a request, None if it has no limits."""
        for place, hop in enumerate((request.peer, *reversed(request.tokens("x-forwarded-for")))):
            address = _parse(hop)
            if address is None:  # only a trusted proxy can send such a hop, and all of them share one limit; or no network
                return "unreadable" if place else None
            if not self._is_proxy(address):
                return _key(address)
        return None

    # ---- limits -------------------------------------------------------------------------------------------------------

    def connection(self, peer: str) -> AbstractContextManager[None]:
        """Count a connection during the block. Raises Refused if its address has all that it may have."""
        return self._one_more(self._open, self.of_peer(peer))

    def socket(self, address: str | None, peer: str) -> AbstractContextManager[None]:
        """The same for a WebSocket of `address` that comes through a proxy: `connection` does not count those."""
        return self._one_more(self._behind, address if address != self.of_peer(peer) else None)

    def count(self, address: str | None, kind: LimitKind | None) -> None:
        """Count a request in one of the limits by the minute. Raises Refused if its address has used that up."""
        if kind is None or address is None:
            return
        if wait := self._allowances[kind].take(address, trio.current_time()):
            raise Refused(self.refusal(kind, address, math.ceil(wait)))

    def refusal(self, kind: LimitKind, address: str, after: int | None = None) -> Refusal:
        """Return the refusal by a limit; count it, and log it at most once in `LINE_PAUSE` seconds."""
        self._limited(kind)
        refusal = Refusal(kind, after=after)
        most, setting = self._bounds[kind], refusal.kind.setting
        bound = f"{setting}: {most}" if setting else f"at most {most} a minute"
        now = trio.current_time()
        if now - self._logged_at.get(kind, -LINE_PAUSE) >= LINE_PAUSE:
            self._logged_at[kind] = now
            hint = "" if kind == "connections" else "; if a proxy brings the clients of many, name it in runtime.proxies"
            log.warning(
                "%s was refused: %s (%s)%s; more of this kind is not logged for %g s",
                address, refusal.message, bound, hint, LINE_PAUSE,
            )  # fmt: skip
        return refusal

    # ---- inside -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _one_more(self, counter: Counter[str], address: str | None) -> Iterator[None]:
        most = self._bounds["address_connections"]
        if address is None or not most:
            yield
            return
        if counter[address] >= most:
            raise Refused(self.refusal("address_connections", address))
        counter[address] += 1
        try:
            yield
        finally:
            counter[address] -= 1
            if not counter[address]:
                del counter[address]

    def _is_proxy(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        return any(address in network for network in self._proxies)


def is_loopback(host: str) -> bool:
    """Whether a host is certainly this computer: `localhost`, a name below it, or a loopback address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _parse(host)
    return address is not None and address.is_loopback


def is_everywhere(host: str) -> bool:
    """Whether `host` means all addresses of this machine (`0.0.0.0`, `::`)."""
    address = _parse(host)
    return address is not None and address.is_unspecified


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
    """The URLs of the page of a server that listens at `host`: one for each of `reachable_hosts`."""
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


def _family(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


def _parse(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
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


def _key(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str | None:
    return None if address.is_loopback else _network(address)


def _network(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


def network_of(peer: str) -> str:
    """The address of a connection for the log, with or without limits: of IPv6 the /64. Other texts stay as they are."""
    address = _parse(peer)
    return peer if address is None else _network(address)
