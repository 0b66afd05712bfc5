"""`WorldStore`: saved worlds by their ids, signed, bounded in bytes, until they expire.

All methods read and write files, so they are called on worker threads; several may run at once. The file of a world has the
name of its id's digest: who can list the folder learns no id, and so cannot restore anything.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, NamedTuple

from reactor_trio.errors import CommandError
from reactor_trio.world_store.shelves import Shelf
from reactor_trio.worlds import World
from reactor_trio.worlds.file_header import Header, Origin, check_origin, world_digest
from reactor_trio.worlds.packing import pack
from reactor_trio.worlds.unpacking import read_head, read_header, read_world


def new_id() -> str:
    """Return an id of 128 random bits. Whoever has it may have the world, so it stands in no log."""
    return secrets.token_urlsafe(16)


class SavedFile(NamedTuple):
    """A file that was written: its bytes, and the digest by which a recording names its world."""

    size: int
    digest: str


class StoredWorld(NamedTuple):
    """A world of a file: what is put, where it comes from, what may make a difference, and the digest that names it."""

    world: World
    origin: Origin
    warnings: list[str]
    digest: str


class WorldStore:
    """The saved worlds of one server, or of one session without a folder.

    Args:
        shelf: keeps the files.
        keys: sign worlds; the first one signs new ones.
        most_bytes: what all files may have together.
        world_bytes: what one file may have.
        now: the time of the world, in seconds since 1970.
    """

    def __init__(
        self, shelf: Shelf, keys: Sequence[bytes], *, most_bytes: int, world_bytes: int, now: Callable[[], float] = time.time
    ) -> None:
        self._shelf = shelf
        self._keys = keys
        self._most_bytes = most_bytes
        self._world_bytes = world_bytes
        #: the time of the world
        self.now = now
        self._lock = threading.Lock()
        #: bytes of the files that are being written
        self._promised = 0

    def save(self, id: str, world: World, origin: Origin, expires: float) -> SavedFile:  # noqa: A002
        """Pack a world and keep it until `expires`.

        Raises CommandError: `too_big`, `too_many` if the store is full, or `store_failed`. Then nothing is kept.
        """
        parts = pack(world, origin, self._keys[0], most_bytes=self._world_bytes)
        size = sum(map(len, parts))
        if size > self._world_bytes:
            raise CommandError("too_big", f"the world has {size} bytes, and {self._world_bytes} may be saved")
        with _failing("written", in_folder=True), self._room(size):
            self._shelf.write(_name_of(id), parts, expires)
        return SavedFile(size, world_digest(bytes(parts[0])))

    def load(
        self, id: str, here: Callable[[Origin], Origin], classes: Mapping[str, type],  # noqa: A002
        *, reads: Sequence[int] = (), accept: Sequence[str] = (),
    ) -> StoredWorld:  # fmt: skip
        """Read a world.

        Args:
            id: its id.
            here: what a file of today's model would say, given what this one says.
            classes, reads, accept: see `read_world` and `check_origin`.

        Raises CommandError: `no_such_world`, also for another subject's; `damaged_world`, `foreign_world`, `old_world`,
        `too_big` or `store_failed`.
        """
        with self._opened(id, here, reads, accept) as (file, header, warnings):
            world = read_world(file, header, classes)
            return StoredWorld(world, header.origin, warnings, world_digest(read_head(file, self._world_bytes)))

    def check(
        self, id: str, here: Callable[[Origin], Origin], *, reads: Sequence[int] = (), accept: Sequence[str] = ()  # noqa: A002
    ) -> None:
        """Raise what `load` would raise for what the head of the file says."""
        with self._opened(id, here, reads, accept):
            pass

    def forget(self, id: str, here: Callable[[Origin], Origin]) -> None:  # noqa: A002
        """Remove a world. Raises CommandError `no_such_world`, also for another subject's, or `store_failed`."""
        name = _name_of(id)
        with _failing("removed"):
            with self._shelf.open(name) as file:
                origin = read_header(file, self._keys, self._world_bytes).origin
            if origin.subject not in ("", here(origin).subject):
                raise _none_such()
            self._shelf.remove(name)

    def clean(self) -> None:
        """Remove what has expired. Raises CommandError `store_failed`."""
        with _failing("removed", in_folder=True):
            self._clean()

    def remove(self, id: str) -> None:  # noqa: A002
        """Remove a world that its session has saved, if it is still there."""
        with suppress(FileNotFoundError):
            self._shelf.remove(_name_of(id))

    # ---- inside -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(
        self, id: str, here: Callable[[Origin], Origin], reads: Sequence[int], accept: Sequence[str]  # noqa: A002
    ) -> Iterator[tuple[BinaryIO, Header, list[str]]]:
        name = _name_of(id)
        with _failing("read"):
            kept = self._shelf.kept().get(name)
            if kept is None or kept.expires <= self.now():
                raise _none_such()
            with self._shelf.open(name) as file:
                header = read_header(file, self._keys, self._world_bytes)
                saved, mine = header.origin, here(header.origin)
                if saved.subject not in ("", mine.subject):
                    raise _none_such()
                yield file, header, check_origin(saved, mine, reads=reads, accept=accept)

    def _clean(self) -> int:
        """Remove what has expired; returns the bytes of the rest."""
        now, total = self.now(), 0
        for name, kept in self._shelf.kept().items():
            if kept.expires > now:
                total += kept.size
                continue
            try:
                self._shelf.remove(name)
            except FileNotFoundError:  # another server was first
                continue
        return total

    @contextmanager
    def _room(self, size: int) -> Iterator[None]:
        """A block in which a file of this size is written. Raises CommandError `too_many`."""
        with self._lock:
            if self._clean() + self._promised + size > self._most_bytes:
                raise CommandError("too_many", f"the store of worlds is full: it has {self._most_bytes} bytes; forget some")
            self._promised += size
        try:
            yield
        finally:
            with self._lock:
                self._promised -= size


@contextmanager
def _failing(what: str, *, in_folder: bool = False) -> Iterator[None]:
    """A block that uses the shelf: its failures become errors that name no file, since that has a name made of an id.

    Where only the folder can be missing, and no file, pass `in_folder`.
    """
    try:
        yield
    except FileNotFoundError as error:
        if not in_folder:
            raise _none_such() from None
        raise CommandError("store_failed", f"the world cannot be {what}: the folder of the store is gone") from error
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CommandError("store_failed", f"the world cannot be {what}: {why}") from error


def _none_such() -> CommandError:
    return CommandError("no_such_world", "there is no such world for this client, or it has expired")


def _name_of(id: str) -> str:  # noqa: A002
    return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
