"""What all variants of `reactor run` share: the manifest with the command line's options, and texts about the address."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import trio

from reactor_trio.cli.access_token import with_token
from reactor_trio.cli.listening import listen_remedy
from reactor_trio.cli.terminal import Terminal, UsageError
from reactor_trio.configuration.manifest import Manifest, load_manifest
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.own_addresses import page_urls

#: what to do about a model that ends the server, since it runs in the same process
ALONE = "with --isolation process (runtime.isolation) the server would go on, and load the model again"


def manifest_of(options: argparse.Namespace, terminal: Terminal) -> Manifest:
    """Load the manifest and override it with the options. `hosts` and `origins` are added to those of the manifest.

    `options.drawn_token` becomes the token that is drawn.

    Raises ManifestError, UsageError.
    """
    if options.keyfile is not None and options.certfile is None:
        raise UsageError("--keyfile: give the certificate too, with --certfile")
    tls = {name: str(file.absolute()) for name in ("certfile", "keyfile") if (file := getattr(options, name)) is not None}
    record = None if options.record is None else str(options.record.absolute())
    given = {"host": options.host, "port": options.port, "record": record, "tls": tls or None,
             "management": options.management, "max_sessions": options.max_sessions, "isolation": options.isolation,
             "fps": options.fps}  # fmt: skip
    manifest = load_manifest(options.path, options.overrides, given)
    settings = manifest.settings
    if options.token is not None:
        settings, drawn = with_token(settings, options.token, terminal)
        options.drawn_token = drawn or options.drawn_token  # under --reload this is called again
    hosts, origins = (*settings.hosts, *options.hosts), (*settings.origins, *options.origins)
    return replace(manifest, settings=msgspec.structs.replace(settings, hosts=hosts, origins=origins))


def page_urls_of(listeners: Sequence[trio.SocketListener], settings: Settings) -> list[str]:
    """The URLs of the page that answers at these sockets, from before the load on."""
    if not listeners or listeners[0].socket.family not in (socket.AF_INET, socket.AF_INET6):
        return []
    host, port, *_ = listeners[0].socket.getsockname()
    return page_urls(host, port, secure=settings.tls is not None)


def where(urls: Sequence[str]) -> str:
    """Format the URL to open; a second line has the other URLs of a server that listens on all addresses."""
    *others, here = urls
    if not others:
        return here
    first, *more = others
    return f"{first}\nalso at {', '.join([*more, here])} (the last one on this machine)"


async def listen(manifest: Manifest) -> list[trio.SocketListener]:
    """Open the sockets at the address that the manifest asks for. Raises UsageError."""
    try:
        return await trio.open_tcp_listeners(manifest.settings.port, host=manifest.settings.host)
    except OSError as error:
        raise cannot_listen(manifest, error) from error


def cannot_listen(manifest: Manifest, error: OSError) -> UsageError:
    """Make the error that explains why the server cannot listen, and what to do."""
    settings = manifest.settings
    return UsageError(
        f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; {listen_remedy(error, settings.port)}"
    )
