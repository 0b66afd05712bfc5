"""`RequestPolicy`: the hosts for which a port answers, and the pages of which it takes requests."""

from __future__ import annotations

import shlex
from urllib.parse import urlsplit

from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.ip_addresses import is_everywhere, is_loopback
from reactor_trio.edge.own_addresses import is_own_address, own_name
from reactor_trio.protocol import printable_ascii
from reactor_trio.transport import Refusal, Refused, Request

_MAX_LOGGED = 200  # characters of an Origin or a Host header in the log


class RequestPolicy:
    """The hosts and origins that a port accepts, from the settings.

    Args:
        settings: of the server.
        bound: addresses at which the server listens, if they are known; `settings.host` is always one.
    """

    def __init__(self, settings: Settings, *bound: str) -> None:
        self._hosts = {host.lower().strip("[]") for host in (settings.host, *bound, *settings.hosts)}
        self._everywhere = any(map(is_everywhere, (settings.host, *bound)))
        if self._everywhere:
            self._hosts.add(own_name())
        self._origins = set(settings.origins)

    def takes_host(self, request: Request) -> bool:
        """Whether this server answers for the request's host; HTTP/1.0 need not name one."""
        return not request.authority or self.hosts_allowed(request.host)

    def wrong_host(self, request: Request) -> Refusal:
        """The refusal of a request for another host."""
        # By it the operator sees which name is missing. The client chose it, and a terminal may show the log.
        asked_for = printable_ascii(f"a request for the host {request.host}")
        return Refusal(
            "wrong_host", f"this server does not answer for the host {request.host}; if it is this server's own, start "
            f"it with --allow-host {shlex.quote(request.host)}, or list it in runtime.hosts",
            client=asked_for[:_MAX_LOGGED],
        )  # fmt: skip

    def hosts_allowed(self, host: str) -> bool:
        """Accept a loopback name, the bound address, a host of the manifest, and this machine's own if bound to all.

        A foreign page can point a name of its own at this machine (DNS rebinding), and a browser then sends that name.
        Therefore names are only compared with known names, never looked up. An IP address is safe: no DNS
        record can point it elsewhere.
        """
        return host in self._hosts or is_loopback(host) or (self._everywhere and is_own_address(host))

    def check_origin(self, request: Request, what: str) -> None:
        """Raise Refused if the page that made the request may not do `what`."""
        origins = request.header_values("origin")
        if len(origins) > 1 or not self.origin_allowed(origins[0] if origins else None, request):
            # The client chose these bytes, and a terminal may show the log.
            page = printable_ascii(f"a page of {', '.join(origins) or 'no origin'}")
            raise Refused(Refusal("wrong_origin", f"{page} may not {what}", client=page[:_MAX_LOGGED]))

    def origin_allowed(self, origin: str | None, request: Request) -> bool:
        """Accept no origin, the same origin, and an origin of the manifest.

        The scheme is not compared: behind a proxy that ends TLS, the page has https and this request has http.
        """
        if origin is None or origin in self._origins or "*" in self._origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:  # `http://[`
            return False
        if parts.scheme not in ("http", "https"):
            return False
        default = ":443" if parts.scheme == "https" else ":80"
        return parts.netloc.lower().removesuffix(default) == request.authority.removesuffix(default)

    def listed_origin(self, request: Request) -> str | None:
        """Return the origin of the requesting page if the manifest lists it. No origin has other characters than ASCII's."""
        match request.header_values("origin"):
            case [origin] if origin.isascii() and (origin in self._origins or "*" in self._origins):
                return origin
        return None
