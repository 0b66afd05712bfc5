"""The entry point of the model's process: `python -m reactor_trio.placement.isolation.process_main LINK AHEAD WORDS MEMORY`.

A service manager sends its signals to all processes of a service. This process ignores them: the server handles them, and
sends `StopModelProcess` when it is time. A terminal's signals do not come here: this process leads a group of its own.

An exception that ends the process, or the stack of a crash, goes into the file WORDS. The server logs it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TextIO

import trio

from reactor_trio.concurrency import ModelHost, open_model_host
from reactor_trio.concurrency.bounded_prints import bounded_prints
from reactor_trio.concurrency.python_warnings import log_warnings
from reactor_trio.crossing.socket_link import IpcLink, SocketLink
from reactor_trio.interpreter import prepare_to_serve
from reactor_trio.media import keep_frames_in
from reactor_trio.memory.shared_mapping import SharedMapping
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.isolated_worker import work
from reactor_trio.placement.isolation.log_lines import LinkHandler
from reactor_trio.placement.isolation.shared_clock import shared_clock
from reactor_trio.placement.isolation.shared_frames import MODEL, FrameExchange
from reactor_trio.standard_streams import optional_output

#: `prctl`: the signal that a process gets when its parent ends
_PR_SET_PDEATHSIG = 1


#: what the process does with its link, its model loop and the frames that it shares
Serve = Callable[[IpcLink, ModelHost, FrameExchange], Awaitable[None]]


async def serve_alone(link: IpcLink, host: ModelHost, frames: FrameExchange) -> None:
    """Serve as the only process of the model: accepted frames lie in the memory that the server maps, too."""
    keep_frames_in(frames.empty)
    await work(link, host, frames)


def main(link: int, ahead: float, words: int, memory: int, serve: Serve = serve_alone) -> None:
    """Run `serve` with the server at the other end of the descriptor `link`.

    The server's clock is `ahead` seconds ahead of the system's. `words` is the descriptor of the file for what the process
    says as it dies, and `memory` that of the `SharedMapping` of both.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    last_words = os.fdopen(words, "w", encoding="utf-8", errors="backslashreplace")
    faulthandler.enable(last_words)
    os.register_at_fork(after_in_child=_crash_on_stderr)
    prepare_to_serve()
    try:
        frames = SharedMapping(memory)
        os.close(memory)
        with optional_output():
            trio.run(_main, socket.socket(fileno=link), frames, serve, clock=shared_clock(ahead))
    except SystemExit:
        raise
    except BaseException:  # a group may be none
        traceback.print_exc(file=last_words)
        last_words.flush()
        sys.exit(1)


def _crash_on_stderr() -> None:
    """A process that the model has forked is another: the server does not look for its last words."""
    with suppress(RuntimeError, OSError, ValueError):  # without a standard error
        faulthandler.enable()


async def _main(sock: socket.socket, memory: SharedMapping, serve: Serve) -> None:
    link = SocketLink(sock, ipc_messages.ToProcess)
    frames = FrameExchange(memory, MODEL, link.send)
    link.wire.share(frames)
    handler = LinkHandler(link)
    logging.basicConfig(handlers=[handler], force=True)  # the levels come with `LoadModel`
    log_warnings()
    try:
        with bounded_prints(before_line=_line_cleared(sys.stdout)):
            async with open_model_host() as host:
                await serve(link, host, frames)
    finally:
        handler.flush()  # what the server has to know of prints that were left out


def _line_cleared(stdout: TextIO) -> Callable[[], object]:
    """What clears the line of a terminal, in which the server may be showing how long the load takes."""
    if not stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return lambda: None

    def clear() -> None:
        stdout.write("\r\x1b[K")
        stdout.flush()

    return clear


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
