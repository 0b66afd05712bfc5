"""`reactor client`: watch a server without a browser, as a live view or as a line a second."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from reactor_trio.cli.terminal import FAILED, OK, Terminal, UsageError, leaves
from reactor_trio.configuration.manifest import parse_value
from reactor_trio.errors import CommandError, ManifestError, ProtocolError, ReactorError, SessionEnded

if TYPE_CHECKING:
    from reactor_trio.cli.live_view import LiveView

__all__ = ["client", "command_of", "full_url", "until_signal"]

# Reasons of sessions that ended without an error.
POLITE = ("done", "client_left", "expired", "idle", "draining")


def client(
    url: str,
    record: Path | None,
    send: Sequence[str],
    seconds: float | None,
    terminal: Terminal,
    *,
    plain: bool = False,
    picture: bool = False,
    token: str | None = None,
) -> int:
    """Watch `url` until the session ends, `seconds` have passed or Ctrl-C. Returns the exit code. Raises UsageError.

    A terminal gets the live view, unless `plain` is set; other outputs get a line a second.
    """
    from reactor_trio.client.urls import without_token
    from reactor_trio.client.watch import NotAdmitted, watch

    live = not plain and terminal.draws
    if picture and not live:
        raise UsageError("--picture: needs a terminal that shows UTF-8; it does not work with --plain")
    target, in_url = without_token(full_url(url))
    token = in_url or token or os.environ.get("REACTOR_TOKEN") or None
    commands = [command_of(text) for text in send]
    view = _live_view(terminal, picture) if live else None
    recording = None if record is None else str(record)
    try:
        anyio.run(
            until_signal,
            partial(
                watch, target, record=recording, send=commands, seconds=seconds, token=token,
                report=terminal.say if view is None else view.report,
                watching=None if view is None else view.run,
                on_queued=None if view is None else terminal.live,
            ),
            backend="trio",
        )
    except KeyboardInterrupt:
        return OK
    except (Exception, BaseExceptionGroup) as error:
        for leaf in leaves(error):
            if isinstance(leaf, KeyboardInterrupt):
                return OK
            if isinstance(leaf, SessionEnded) and leaf.reason in POLITE:
                terminal.say(str(leaf))
                return OK
            if isinstance(leaf, SessionEnded | ProtocolError | NotAdmitted):
                terminal.fail(f"{target}: {leaf}")
                return FAILED
            if isinstance(leaf, CommandError):
                raise UsageError(f"--send: {leaf}") from error
            if isinstance(leaf, ReactorError):
                raise UsageError(f"{target}: {leaf}") from error
            if isinstance(leaf, OSError):
                raise UsageError(f"{target}: cannot connect: {leaf.strerror or leaf}; does the server run?") from error
        raise
    return OK


async def until_signal(function: Callable[[], Awaitable[None]]) -> None:
    """Await `function()`, and cancel it on SIGINT or SIGTERM. A KeyboardInterrupt could be raised at any place instead."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                async for _ in signals:
                    tasks.cancel_scope.cancel()

            tasks.start_soon(leave)
            await function()
            tasks.cancel_scope.cancel()


def _live_view(terminal: Terminal, picture: bool) -> LiveView:
    from reactor_trio.cli.live_view import LiveView

    return LiveView(terminal, command_of, picture=picture)


def command_of(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a command for `--send`: `set_x=0.5` (a field), `jump={x: 1, y: 2}` (arguments) or `reset` (no arguments)."""
    name, equals, value_text = text.partition("=")
    if not name.isidentifier():
        raise UsageError(f"--send {text}: expected set_field=value, command={{argument: value}} or command")
    if not equals:
        return name, {}
    try:
        value = parse_value(value_text)
    except ManifestError as error:
        raise UsageError(f"--send {text}: {error}") from error
    if isinstance(value, dict):
        return name, value
    if not name.startswith("set_"):
        raise UsageError(f"--send {text}: {name} is not a set_ command, so name its arguments: {name}={{argument: value}}")
    return name, {name.removeprefix("set_"): value}


def full_url(url: str) -> str:
    """Check a typed URL and add a scheme if it has none. Takes `http://`, `https://`, `ws://`, `wss://` or `HOST:PORT`."""
    full = url if "://" in url else f"ws://{url}"
    try:
        parts = urlsplit(full)
        usable = parts.scheme in ("http", "https", "ws", "wss") and parts.hostname is not None and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"{re.split('[?#]', url)[0]!r} is not a URL such as http://127.0.0.1:8080/ or ws://127.0.0.1:8080/ws")
    return full
