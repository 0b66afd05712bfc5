"""Links that are slow on purpose, between processes of one machine.

The rate is a token bucket filter on a veth pair between two network namespaces, where the machine permits that (root, and
`tc` of iproute2). Delay and stalls come from a proxy process on the client's side whose sockets have buffers of 16 KiB;
where there are no namespaces it limits the rate, too. The rate is that of the way from the server; both ways are delayed and
stall.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import trio

from benchmarks.peers import environment

BUFFER = 16 * 1024
CHUNK = 1400


class ShapedLink:
    """The way to a server: `prefix` and `address` are where the server runs, `client_prefix` where the client does."""

    def __init__(self, namespaces: tuple[str, str] | None, delay: float) -> None:
        self.namespaces = namespaces
        self.delay = delay
        self.address = "10.77.0.1" if namespaces else "127.0.0.1"
        self.prefix: Sequence[str] = ("ip", "netns", "exec", namespaces[0]) if namespaces else ()
        self.client_prefix: Sequence[str] = ("ip", "netns", "exec", namespaces[1]) if namespaces else ()
        self._proxy: subprocess.Popen[str] | None = None

    @property
    def manner(self) -> str:
        """How the rate is limited, in words."""
        return "tc tbf between network namespaces" if self.namespaces else "in the proxy: no network namespaces here"

    @contextmanager
    def proxy(self, port: int) -> Iterator[int]:
        """Run the proxy to the server's port; gives its own, for the client."""
        command = [
            *self.client_prefix, sys.executable, "-m", "benchmarks.shaping", self.address, str(port), str(self.delay),
        ]  # fmt: skip
        with subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                self._proxy = process
                yield int(process.stdout.readline())
            finally:
                self._proxy = None
                process.kill()

    def rate(self, bits_per_second: int | None) -> None:
        """Limit what the server sends from now on; None for no limit."""
        if self.namespaces is None:
            self._tell(f"rate {bits_per_second or 0}")
            return
        there = ("tc", "-n", self.namespaces[0], "qdisc")
        if bits_per_second is None:
            _run(*there, "del", "dev", "rtserver", "root")
        else:
            _run(*there, "replace", "dev", "rtserver", "root", *_filter(bits_per_second))

    def stall(self) -> None:
        """Nothing passes, either way."""
        self._tell("stall")

    def resume(self) -> None:
        """It passes again."""
        self._tell("resume")

    def _tell(self, line: str) -> None:
        assert self._proxy is not None
        assert self._proxy.stdin is not None
        self._proxy.stdin.write(line + "\n")
        self._proxy.stdin.flush()


@contextmanager
def shaped_link(delay: float, namespaces: bool = True) -> Iterator[ShapedLink]:
    """A link of `delay` seconds each way and any rate, until the block ends."""
    if not namespaces or not _permitted():
        yield ShapedLink(None, delay)
        return
    server, client = (f"reactor-{side}-{os.getpid()}" for side in ("server", "client"))
    try:
        for name in (server, client):
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "-n", server, "link", "add", "rtserver", "type", "veth", "peer", "name", "rtclient", "netns", client)
        for name, device, address in ((server, "rtserver", "10.77.0.1/30"), (client, "rtclient", "10.77.0.2/30")):
            _run("ip", "-n", name, "address", "add", address, "dev", device)
            _run("ip", "-n", name, "link", "set", device, "up")
        yield ShapedLink((server, client), delay)
    finally:
        for name in (server, client):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _permitted() -> bool:
    if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("tc")):
        return False
    name = f"reactor-probe-{os.getpid()}"
    try:
        _run("ip", "netns", "add", name)
        _run("ip", "-n", name, "link", "add", "probe", "type", "veth", "peer", "name", "eborp")
        _run("tc", "-n", name, "qdisc", "add", "dev", "probe", "root", *_filter(1_000_000))
    except subprocess.CalledProcessError:
        return False
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return True


def _filter(bits_per_second: int) -> Sequence[str]:
    """With a queue as deep as a modest router's, 64 kB: a sender that fills it has old pictures to show for it."""
    return ("tbf", "rate", str(bits_per_second), "burst", "4kb", "limit", "64kb")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


# ---- the proxy -------------------------------------------------------------------------------------------------------


class _Proxy:
    def __init__(self, host: str, port: int, delay: float) -> None:
        self._to = (host, port)
        self._delay = delay
        self._rate = 0
        self._flowing = trio.Event()
        self._flowing.set()

    async def serve(self) -> None:
        listener = trio.socket.socket()
        _set_small(listener)
        await listener.bind(("127.0.0.1", 0))
        listener.listen()
        print(listener.getsockname()[1], flush=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._obey)
            while True:
                client, _ = await listener.accept()
                nursery.start_soon(self._carry, client)

    async def _obey(self) -> None:
        async with trio.lowlevel.FdStream(os.dup(0)) as commands:
            async for data in commands:
                for line in data.decode().splitlines():
                    what, _, value = line.partition(" ")
                    if what == "rate":
                        self._rate = int(value)
                    elif what == "stall":
                        self._flowing = trio.Event()
                    else:
                        self._flowing.set()

    async def _carry(self, client: trio.socket.SocketType) -> None:
        server = trio.socket.socket()
        _set_small(server)
        for one in (client, server):
            one.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
        with client, server:
            await server.connect(self._to)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(self._one_way, server, client, True, nursery.cancel_scope))
                nursery.start_soon(partial(self._one_way, client, server, False, nursery.cancel_scope))

    async def _one_way(
        self, source: trio.socket.SocketType, sink: trio.socket.SocketType, shaped: bool, over: trio.CancelScope
    ) -> None:
        under_way: deque[tuple[float, bytes]] = deque()
        more = trio.Semaphore(0)

        async def deliver() -> None:
            while True:
                await more.acquire()
                due, data = under_way.popleft()
                await trio.sleep_until(due)
                view = memoryview(data)
                while view:
                    await self._flowing.wait()
                    view = view[await sink.send(view) :]
                if not data:
                    over.cancel()

        free = 0.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(deliver)
            data = b"begin"
            while data:
                await self._flowing.wait()
                try:
                    data = await source.recv(CHUNK)
                except OSError:
                    data = b""
                if shaped and self._rate:
                    free = max(free, trio.current_time()) + 8 * len(data) / self._rate
                    await trio.sleep_until(free)
                under_way.append((trio.current_time() + self._delay, data))
                more.release()


def _set_small(socket: trio.socket.SocketType) -> None:
    """Before it connects or listens. Segments as on a real network: the loopback's own would not fit the buffers."""
    for side in (trio.socket.SO_RCVBUF, trio.socket.SO_SNDBUF):
        socket.setsockopt(trio.socket.SOL_SOCKET, side, BUFFER)
    socket.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_MAXSEG, 1448)


def main() -> None:
    """The proxy process: prints its port, then obeys `rate N`, `stall` and `resume` on its standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("delay", type=float)
    options = parser.parse_args()
    trio.run(_Proxy(options.host, options.port, options.delay).serve)


if __name__ == "__main__":
    main()
