"""Where the files of saved worlds lie: in a folder, or in the server's memory.

A file is there whole or not at all: it is written to a temporary name and then renamed. Its time of modification is the time
at which it expires, so that any server with the folder knows it.
"""

from __future__ import annotations

import io
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol

from reactor_trio.errors import ManifestError

ENDING: Final = ".world"
TEMPORARY: Final = ".part"
KEY: Final = "key"
KEY_BYTES: Final = 32


class Kept(NamedTuple):
    """A kept file: its size in bytes, and when it expires, in seconds since 1970."""

    size: int
    expires: float


class Shelf(Protocol):
    """Keeps files by name. Each method raises OSError; all may be called from any thread."""

    def write(self, name: str, parts: Sequence[memoryview], expires: float) -> None:
        """Keep a file; after an exception nothing of it is left."""

    def open(self, name: str) -> BinaryIO:
        """Open a file. Raises FileNotFoundError."""

    def remove(self, name: str) -> None:
        """Remove a file. Raises FileNotFoundError."""

    def kept(self) -> dict[str, Kept]:
        """Every file that is kept, by its name."""


class FolderShelf:
    """Keeps files in a folder that only this user may read. It is made if it is missing. Raises ManifestError.

    Args:
        folder: its path.
        setting: the manifest's key that names it, for the error.
    """

    def __init__(self, folder: str | Path, setting: str = "runtime.worlds.store") -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.folder.stat().st_uid == os.getuid():
                self.folder.chmod(0o700)
        except OSError as error:
            raise ManifestError(f"{setting}: {folder} cannot be used: {error.strerror or error}") from None

    def key(self) -> bytes:
        """The key in the folder's file `key`, which the first server makes. Raises OSError."""
        path = self.folder / KEY
        if not path.exists():
            fresh = self.folder / (KEY + "." + secrets.token_hex(8) + TEMPORARY)
            try:
                self._write_new(fresh, [memoryview(secrets.token_bytes(KEY_BYTES))])
                with suppress(FileExistsError):  # another server was first: its key holds
                    os.link(fresh, path)
            finally:
                fresh.unlink(missing_ok=True)
        if len(key := path.read_bytes()) != KEY_BYTES:
            raise OSError(f"{path} has {len(key)} bytes instead of {KEY_BYTES}")
        return key

    def write(self, name: str, parts: Sequence[memoryview], expires: float) -> None:
        """See `Shelf`."""
        fresh = self.folder / (name + "." + secrets.token_hex(8) + TEMPORARY)
        try:
            self._write_new(fresh, parts)
            os.utime(fresh, (expires, expires))
            fresh.replace(self.folder / (name + ENDING))
        except BaseException:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise

    def open(self, name: str) -> BinaryIO:
        """See `Shelf`."""
        return (self.folder / (name + ENDING)).open("rb")

    def remove(self, name: str) -> None:
        """See `Shelf`."""
        (self.folder / (name + ENDING)).unlink()

    def kept(self) -> dict[str, Kept]:
        """See `Shelf`."""
        return dict(self._kept())

    def remove_parts(self, before: float) -> None:
        """Remove what servers that were killed had begun to write before this time."""
        for path in self.folder.glob("*" + TEMPORARY):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    path.unlink()

    def _kept(self) -> Iterator[tuple[str, Kept]]:
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another server has removed it
                    found = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(ENDING) and stat.S_ISREG(found.st_mode):
                        yield entry.name.removesuffix(ENDING), Kept(found.st_size, found.st_mtime)

    @staticmethod
    def _write_new(path: Path, parts: Sequence[memoryview]) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            for part in parts:
                rest = part
                while rest:
                    rest = rest[file.write(rest) :]


class MemoryShelf:
    """Keeps files in memory: what a server without a folder does, for as long as the session lasts."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, float]] = {}

    def write(self, name: str, parts: Sequence[memoryview], expires: float) -> None:
        """See `Shelf`."""
        self._files[name] = b"".join(parts), expires

    def open(self, name: str) -> BinaryIO:
        """See `Shelf`."""
        if name not in self._files:
            raise FileNotFoundError
        return io.BytesIO(self._files[name][0])

    def remove(self, name: str) -> None:
        """See `Shelf`."""
        if self._files.pop(name, None) is None:
            raise FileNotFoundError

    def kept(self) -> dict[str, Kept]:
        """See `Shelf`."""
        return {name: Kept(len(data), expires) for name, (data, expires) in self._files.copy().items()}
