"""The live view of `reactor client`: statistics, messages and a command line on one screen, redrawn a few times a second."""

from __future__ import annotations

import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import trio
from rich.console import Console
from rich.live import Live

from reactor_trio.cli.key_input import KeyLine, key_by_key, read_keys
from reactor_trio.cli.live_screen import LONGEST, Snapshot, draw
from reactor_trio.cli.terminal import Terminal, UsageError
from reactor_trio.client.client import Client
from reactor_trio.errors import CommandError, SessionEnded

#: Seconds between two redraws, without and with the picture.
INTERVAL = 0.25
PICTURE_INTERVAL = 0.1
#: Seconds over which a bitrate is averaged.
BITS_WINDOW = 2.0
#: Most commands that wait for an answer at the same time.
AT_ONCE = 8
#: Most lines of commands, and of messages, on the screen.
LINES = 4


class LiveView:
    """A full-screen view of one session. It runs until the session ends, is cancelled, or the person presses Ctrl-C.

    Args:
        terminal: where the view is drawn. At the end the last statistics are printed there as one line.
        command_of: parses a typed line into a command and its arguments. May raise UsageError.
        picture: also show the first video track, in half blocks.
        keys: the stream that the person types into; None means stdin.
    """

    def __init__(
        self, terminal: Terminal, command_of: Callable[[str], tuple[str, Any]], *, picture: bool = False, keys: Any = None
    ) -> None:
        self._terminal = terminal
        self._command_of = command_of
        self._picture = picture
        self._keys = sys.stdin if keys is None else keys
        self._line: KeyLine | None = None
        self._drawn = False
        self._changed = trio.Event()
        self._newest: npt.NDArray[np.uint8] | None = None
        self._warnings: deque[str] = deque(maxlen=2)
        self._commands: deque[str] = deque(maxlen=LINES)
        self._messages: deque[str] = deque(maxlen=LINES)
        self._unanswered = 0
        self._bits: dict[str, deque[tuple[float, int]]] = {}

    def report(self, line: str) -> None:
        """Show a line among the warnings while the view is on, otherwise print it."""
        if self._drawn:
            self._warnings.append(line[:LONGEST])
            self._redraw()
        else:
            self._terminal.say(line)

    async def run(self, client: Client) -> None:
        """Show the session of `client` and send typed commands.

        Raises an exception group with SessionEnded if the session ends with an error.
        """
        self._began = trio.current_time()
        console = Console(file=self._terminal.out)
        self._drawn = True
        try:
            with (
                # Signals come first: once the alternate screen is on, only leaving this block restores the terminal.
                trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGWINCH) as signals,
                Live(console=console, screen=True, auto_refresh=False) as live,
                key_by_key(self._keys) as fd,
            ):
                async with trio.open_nursery() as nursery:
                    if fd is not None:
                        self._line = KeyLine(lambda line: self._send(client, line, nursery), self._redraw)
                        nursery.start_soon(read_keys, fd, self._line)
                    nursery.start_soon(self._handle_signals, signals, nursery.cancel_scope)
                    nursery.start_soon(self._take_frames, client)
                    nursery.start_soon(self._draw, client, console, live)
                    await self._take_messages(client)
                    nursery.cancel_scope.cancel()
        finally:
            self._drawn = False
            self._terminal.say(str(client.statistics()))

    async def _handle_signals(self, signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        async for signum in signals:
            if signum != signal.SIGWINCH:
                scope.cancel()
            self._redraw()

    async def _take_messages(self, client: Client) -> None:
        async for message in client.messages():
            data = msgspec.json.encode(message.data)[:LONGEST].decode(errors="ignore")
            lines = self._warnings if message.type.startswith("reactor.") else self._messages
            lines.append(f"{message.type} {data}"[:LONGEST])

    async def _take_frames(self, client: Client) -> None:
        tracks = [track for track in client.tracks if track.direction == "out"]
        if not tracks:
            return
        first = next((track for track in tracks if track.kind == "video"), tracks[0])
        async for frame in client.frames(first.name):
            if first.kind == "video" and self._picture:
                self._newest = frame.data

    async def _draw(self, client: Client, console: Console, live: Live) -> None:
        interval = PICTURE_INTERVAL if self._picture else INTERVAL
        while True:
            width, height = console.size
            live.update(draw(self._snapshot(client), width, height), refresh=True)
            self._changed = trio.Event()
            with trio.move_on_after(interval):
                await self._changed.wait()

    def _snapshot(self, client: Client) -> Snapshot:
        now, statistics = trio.current_time(), client.statistics()
        bitrates = {name: self._bitrate(name, track.bytes, now) for name, track in statistics.tracks.items()}
        return Snapshot(
            client.name, client.session_id, client.role, client.tracks, statistics, bitrates, now - self._began,
            tuple(self._warnings), tuple(self._commands), tuple(self._messages),
            None if self._line is None else self._line.text, self._newest,
        )  # fmt: skip

    def _bitrate(self, name: str, total: int, now: float) -> float:
        seen = self._bits.setdefault(name, deque())
        seen.append((now, total))
        while len(seen) > 2 and seen[1][0] <= now - BITS_WINDOW:
            seen.popleft()
        then, before = seen[0]
        elapsed = now - then
        return 8 * (total - before) / elapsed if elapsed > 0 else 0.0

    def _send(self, client: Client, line: str, nursery: trio.Nursery) -> None:
        if self._unanswered >= AT_ONCE:
            self._commands.append(f"{line}: not sent, {AT_ONCE} commands have no answer yet")
            return
        try:
            name, arguments = self._command_of(line)
        except UsageError as error:
            self._commands.append(str(error)[:LONGEST])
            return
        self._unanswered += 1
        nursery.start_soon(self._command, client, line, name, arguments)

    async def _command(self, client: Client, line: str, name: str, arguments: Mapping[str, Any]) -> None:
        began = trio.current_time()
        try:
            reply = await client.command(name, **arguments)
        except CommandError as error:
            result = f"refused: {error}"
        except SessionEnded:  # `_take_messages` raises it, too
            return
        else:
            result = f"applied after {1000 * (trio.current_time() - began):.0f} ms" + ("" if reply is None else f": {reply}")
        finally:
            self._unanswered -= 1
        self._commands.append(f"{line}: {result}"[:LONGEST])
        self._redraw()

    def _redraw(self) -> None:
        self._changed.set()
