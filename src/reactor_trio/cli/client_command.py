"""`reactor client`: watch a server without a browser, as a live view or as a line a second."""

from __future__ import annotations

import argparse
import os
import re
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import trio

from reactor_trio.cli.signals import handled, in_loop
from reactor_trio.cli.terminal import FAILED, OK, Terminal, UsageError, leaves
from reactor_trio.configuration.yaml_values import parse_value
from reactor_trio.errors import CommandError, ConnectionRefused, ManifestError, ProtocolError, ReactorError, SessionEnded
from reactor_trio.plain_text import one_line
from reactor_trio.protocol.reasons import ENDS_WITHOUT_FAULT


def client(options: argparse.Namespace, terminal: Terminal) -> int:
    """Watch a server until the session ends, `options.seconds` have passed or Ctrl-C. Returns the exit code.

    A terminal gets the live view, unless `options.plain` is set; other outputs get a line a second. Raises UsageError.
    """
    from reactor_trio.cli.watching import StillWaiting, watch

    live = not options.plain and terminal.draws
    if options.picture and not live:
        raise UsageError("--picture: needs a terminal that shows UTF-8; it does not work with --plain")
    target, token = target_of(options)
    watching: dict[str, Any] = {"report": in_one_line(terminal.say)}
    if live:
        from reactor_trio.cli.live_view import LiveView

        view = LiveView(terminal, command_of, picture=options.picture)
        watching = {"report": in_one_line(view.report), "watching": view.run, "on_queued": in_one_line(terminal.live)}
    record = None if options.record is None else str(options.record)
    send = [_to_send(text) for text in options.send]
    try:
        watch_it = partial(watch, target, record=record, send=send, seconds=options.seconds, token=token, **watching)
        trio.run(until_signal, watch_it)
    except BaseException as error:
        for leaf in leaves(error):
            if isinstance(leaf, KeyboardInterrupt):
                return OK
            if isinstance(leaf, SessionEnded) and leaf.reason in ENDS_WITHOUT_FAULT:
                terminal.say(one_line(str(leaf)))
                return OK
            if isinstance(leaf, SessionEnded | ProtocolError | StillWaiting):
                terminal.fail(one_line(f"{target}: {leaf} ({leaf.link})"))
                return FAILED
            if isinstance(leaf, CommandError):
                raise UsageError(f"--send: {leaf}") from error
            if isinstance(leaf, ReactorError):
                hint = token_hint(leaf.status, token) if isinstance(leaf, ConnectionRefused) else ""
                raise UsageError(f"{target}: {leaf}{hint}", anchor=leaf.anchor) from error
            if isinstance(leaf, OSError):
                raise UsageError(f"{target}: {leaf}; does the server run?", anchor="no-server") from error
        raise
    return OK


def in_one_line(show: Callable[[str], object]) -> Callable[[str], object]:
    """Return a function that shows its text in one line: names, reasons and replies are the server's."""
    return lambda text: show(one_line(text))


async def until_signal(function: Callable[[], Awaitable[None]]) -> None:
    """Await `function()`, and cancel it on SIGINT or SIGTERM. A KeyboardInterrupt could be raised at any place instead."""
    with trio.CancelScope() as scope, handled(dict.fromkeys((signal.SIGINT, signal.SIGTERM), in_loop(scope.cancel))):
        await function()


def _to_send(text: str) -> tuple[str, dict[str, Any]]:
    try:
        return command_of(text)
    except UsageError as error:
        raise UsageError(f"--send {error}") from error


def command_of(text: str) -> tuple[str, dict[str, Any]]:
    """Parse `set_x=0.5` (a field), `jump={x: 1, y: 2}` (arguments) or `reset` (no arguments). Raises UsageError."""
    name, equals, value_text = text.partition("=")
    if not name.isidentifier():
        raise UsageError(f"{text}: expected set_field=value, command={{argument: value}} or command")
    if not equals:
        return name, {}
    try:
        value = parse_value(value_text)
    except ManifestError as error:
        raise UsageError(f"{text}: {error}") from error
    if isinstance(value, dict):
        if not all(isinstance(argument, str) for argument in value):
            raise UsageError(f"{text}: expected names of arguments before the colons: {name}={{argument: value}}")
        return name, value
    if not name.startswith("set_"):
        setting = f"did you mean set_{name}={value_text}? If {name} is a command, name its arguments"
        raise UsageError(f"{text}: {name} is not a set_ command; {setting}: {name}={{argument: value}}", anchor="send")
    return name, {name.removeprefix("set_"): value}


def token_hint(status: int, token: str | None) -> str:
    """How to give the token that a server wants; "" for a refusal with another HTTP status than 401."""
    if status != 401:
        return ""
    how = "put it into the variable REACTOR_TOKEN"
    return f"; {how}, or give --token" if token is None else "; the token of --token, the URL or REACTOR_TOKEN is not valid"


def target_of(options: argparse.Namespace) -> tuple[str, str | None]:
    """Return the server's URL, with a scheme and without a token, and the token: that of `--token`, of the URL or of the
    environment, the first that is given.

    `options.url` is an `http://`, `https://`, `ws://` or `wss://` URL, or `HOST:PORT`. Raises UsageError.
    """
    from reactor_trio.client.urls import is_visible_ascii, without_token

    url = options.url if "://" in options.url else f"ws://{options.url}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https", "ws", "wss") and parts.hostname is not None and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        plain = re.split("[?#]", options.url)[0]  # a query may hold a token
        raise UsageError(f"{plain!r} is not a URL such as http://127.0.0.1:8080/ or ws://127.0.0.1:8080/ws")
    target, token = without_token(url)
    if not is_visible_ascii(target):
        plain = target.partition("?")[0]
        raise UsageError(f"{plain!r}: a URL, its query included, has visible ASCII characters only; write a space as %20")
    token = options.token or token or os.environ.get("REACTOR_TOKEN") or None
    if token is not None and not is_visible_ascii(token):
        raise UsageError("the token has a space, a line break or another character that no token can have")
    return target, token
