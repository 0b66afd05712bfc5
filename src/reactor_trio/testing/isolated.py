"""A model's process that is none: it runs in the test's loop, and each word to and from it is encoded all the same.

So what crosses between two processes is tested in virtual time, by the tests of the model in one. What only a process has,
its death, is here `kill`.
"""

from __future__ import annotations

import trio

from reactor_trio.interface.model import Model
from reactor_trio.model_host import ModelHost
from reactor_trio.server.isolation import words
from reactor_trio.server.isolation.link import Link, memory_links
from reactor_trio.server.isolation.worker import Given, work
from reactor_trio.server.loading import LoadedModel


class InlineProcess:
    """See `server.isolation.process.ModelProcess`; `model` is what it loads, on `host`."""

    def __init__(self, host: ModelHost, nursery: trio.Nursery, model: type[Model]) -> None:
        ours, theirs = memory_links(words.FromModel, words.ToModel)
        self.link: Link = ours
        self.path: list[str] = []
        self._theirs = theirs
        self._host = host
        self._model = model
        self._running = trio.CancelScope()
        self._ended = trio.Event()
        self._killed = False
        self._given: Given | None = None
        #: the model instance, once it is loaded
        self.loaded: Model | None = None
        nursery.start_soon(self._run)

    def pack(self, given: Given) -> bytes:
        """Nothing: it stays as it is, since a test may give what cannot be pickled."""
        self._given = given
        return b""

    def kill(self) -> None:
        """End it at once."""
        self._killed = True
        self._running.cancel()

    async def end(self) -> None:
        """Wait for its end."""
        await self._ended.wait()

    def exit(self) -> str:
        """How it ended."""
        return "was killed" if self._killed else "ended"

    def _unpack(self, _data: bytes) -> Given:
        assert self._given is not None
        return self._given

    def _is_loaded(self, loaded: LoadedModel) -> None:
        self.loaded = loaded.model

    async def _run(self) -> None:
        try:
            with self._running:
                await work(
                    self._theirs, self._host, find=lambda _path: self._model, unpack=self._unpack, loaded=self._is_loaded
                )
        finally:
            self._theirs.close()
            self._ended.set()
