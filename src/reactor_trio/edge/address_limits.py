"""The limits of one client address: connections at a time; handshakes, requests and wrong credentials a minute.

An address is an IPv4 address, or the /64 network of an IPv6 address, because one user usually has the whole network. Behind
a proxy in `runtime.proxies`, the proxy's `X-Forwarded-For` gives the address: its last hop that is not such a proxy. From
any other peer the header proves nothing and is ignored.

Loopback addresses and the proxies themselves have no limit per address, because many clients may share them. The limit of
all connections counts them too, and each address behind a proxy has its own limits.

A request with a wrong credential counts as a failure, and not as a handshake or request. So failures of an address never
refuse a right credential from the same address.
"""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import trio

from reactor_trio.configuration.settings import LimitSettings
from reactor_trio.edge.allowances import Allowances
from reactor_trio.edge.ip_addresses import IpAddress, network, parse_ip
from reactor_trio.protocol.refusals import LimitKind
from reactor_trio.transport import Refusal, Refused
from reactor_trio.transport.request import Headers, items_of

#: Wrong credentials that one address may show in a minute.
FAILURES_PER_MINUTE = 60


class AddressLimits:
    """Counts and limits the client addresses of one port.

    Args:
        limits: 0 means no limit.
        proxies: addresses and networks whose `X-Forwarded-For` is trusted.

    Attributes:
        most: the number of each limit.
    """

    def __init__(self, limits: LimitSettings, proxies: Sequence[str]) -> None:
        self.most: dict[LimitKind, int] = {
            "connections": limits.connections, "address_connections": limits.connections_per_address,
            "address_waiting": limits.waiting_per_address, "address_handshakes": limits.handshakes_per_minute,
            "address_requests": limits.http_per_minute, "address_failures": FAILURES_PER_MINUTE,
        }  # fmt: skip
        minutely: tuple[LimitKind, ...] = ("address_handshakes", "address_requests", "address_failures")
        self._allowances = {kind: Allowances(self.most[kind]) for kind in minutely}
        self._proxies = [ipaddress.ip_network(proxy, strict=False) for proxy in proxies]
        self._open: Counter[str] = Counter()
        self._behind: Counter[str] = Counter()

    # ---- the address of a client --------------------------------------------------------------------------------------

    def of_peer(self, peer: str) -> str | None:
        """The address of a connection from `peer` (as in `WireStream.peer`), None if it has no limits."""
        address = parse_ip(peer)
        return None if address is None or self._is_proxy(address) else _key(address)

    def of_client(self, peer: str, headers: Headers) -> str | None:
        """The address of the client that sent these headers on a connection from `peer`, None if it has no limits."""
        for passed, hop in enumerate((peer, *reversed(items_of(headers, "x-forwarded-for")))):
            address = parse_ip(hop)
            if address is None:  # only a trusted proxy can send such a hop, and all of them share one limit; or no network
                return "unreadable" if passed else None
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
            raise Refused(Refusal(kind, after=math.ceil(wait)))

    # ---- inside -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _one_more(self, counter: Counter[str], address: str | None) -> Iterator[None]:
        most = self.most["address_connections"]
        if address is None or not most:
            yield
            return
        if counter[address] >= most:
            raise Refused(Refusal("address_connections"))
        counter[address] += 1
        try:
            yield
        finally:
            counter[address] -= 1
            if not counter[address]:
                del counter[address]

    def _is_proxy(self, address: IpAddress) -> bool:
        return any(address in network for network in self._proxies)


def _key(address: IpAddress) -> str | None:
    return None if address.is_loopback else network(address)
