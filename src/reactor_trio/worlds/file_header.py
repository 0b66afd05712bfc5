"""The header of a `.world` file, and whether it belongs to the model that is to read it.

A file is: magic, length of the header (u64, little-endian), header (MessagePack), the blobs, each at a multiple of 64 bytes,
and 32 bytes of MAC. The MAC covers what stands before the blobs, and the header has the digests of the blobs; so nothing is
allocated for a file that no server of ours has signed. Arrays are little-endian, as the machines that run models are.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from reactor_trio.errors import CommandError

#: its number is that of the format
MAGIC: Final = b"RWORLD1\n"
#: magic and length of the header
HEAD_BYTES: Final = 16
MAC_BYTES: Final = 32
ALIGNMENT: Final = 64
#: a blob has one digest for each of these, so that several threads can make them
CHUNK: Final = 16 << 20
#: allows a file of any size, in bytes
ANY_SIZE: Final = 1 << 62
#: what a header may have at most: a million values have about that much
MOST_HEADER: Final = 64 << 20


class BlobEntry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A blob of the file: its size, and a BLAKE2b digest of each 16 MiB."""

    size: int
    digests: list[bytes]


class Origin(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a file says of where it comes from.

    Attributes:
        model: `module:Class`.
        name: the name under which it was served.
        version: `Saves.version`.
        schema_hash: of the model's commands, tracks and messages.
        config: digest of the model's config, salted by the session.
        weights: what identifies them, "" if there are none.
        world_size: the number of ranks.
        versions: of packages, by name.
        session: the id of the session.
        subject: whose session it was, "" if that is not known.
        label: what its player has called it.
        saved_at: seconds since 1970.
    """

    model: str
    name: str
    version: int
    schema_hash: str
    config: str = ""
    weights: str = ""
    world_size: int = 1
    versions: dict[str, str] = {}
    session: str = ""
    subject: str = ""
    label: str = ""
    saved_at: float = 0.0


#: of a world on its way between two processes of one server, which no file has
NOWHERE: Final = Origin(model="", name="", version=0, schema_hash="")


class Header(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Everything in a file but the blobs.

    A value of the tree is a plain one, or an array with the number of a node; `nodes` are the objects (`packing.py`).

    Attributes:
        others: how many of the blobs, the last ones, are the parts of the ranks from 1 on, each packed as `unsigned` does.
        envelope: of a parked session; empty otherwise.
    """

    origin: Origin
    step: int
    steps: int
    age: float
    fps: float | None
    nodes: list[list[Any]]
    values: dict[str, Any]
    saved: Any
    generators: dict[str, bytes]
    blobs: list[BlobEntry]
    others: int = 0
    envelope: bytes = b""


def damaged(what: str) -> CommandError:
    """Return the error for a file that is not as it was written."""
    return CommandError("damaged_world", f"the file of the world is damaged: {what}")


def decode_header(header: memoryview) -> Header:
    """Return a header, whose nodes are not yet checked. Raises CommandError `damaged_world`."""
    try:
        return msgspec.msgpack.decode(header, type=Header)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise damaged(f"its header cannot be read: {error}") from None


def mac_of(key: bytes, head: bytes) -> bytes:
    """Return the MAC of magic, length and header."""
    return hashlib.blake2b(head, key=hashlib.blake2b(key).digest(), digest_size=MAC_BYTES).digest()


def is_signed(keys: Sequence[bytes], head: bytes, mac: bytes) -> bool:
    """Whether one of the keys has signed."""
    return any(hmac.compare_digest(mac_of(key, head), mac) for key in keys)


def world_digest(head: bytes) -> str:
    """Return what names a world in a timeline, given what stands before the blobs: that has their digests."""
    return hashlib.blake2b(head, digest_size=16).hexdigest()


def digest_of(chunk: Any) -> bytes:
    """Return the digest of at most `CHUNK` bytes. It releases the GIL."""
    return hashlib.blake2b(chunk, digest_size=32).digest()


def check_origin(saved: Origin, here: Origin, *, reads: Sequence[int] = (), accept: Sequence[str] = ()) -> list[str]:
    """Check that a model may go on from a world; return what only may make a difference.

    Args:
        saved: what the file says.
        here: what the file of this model's own world would say.
        reads: the older versions that it understands.
        accept: which of `config` and `weights` may differ; they are warnings then.

    Raises CommandError `foreign_world` or `old_world`.
    """
    warnings: list[str] = []
    if saved.version != here.version and saved.version not in reads:
        raise CommandError(
            "old_world",
            f"the world has the version {saved.version}, and {here.model} reads "
            f"{', '.join(str(number) for number in (*reads, here.version))}",
        )
    for what in ("model", "world_size", "config", "weights"):
        was, now = getattr(saved, what), getattr(here, what)
        if was == now:
            continue
        said = f"the world is of another {what.replace('_', ' ')}"
        if what in ("model", "world_size"):
            said += f": {was}, and here is {now}"
        if what not in accept or what in ("model", "world_size"):
            raise CommandError("foreign_world", said)
        warnings.append(said)
    if saved.schema_hash != here.schema_hash:
        warnings.append("the model's commands, tracks or messages have changed since")
    return warnings + _other_versions(saved.versions, here.versions)


def _other_versions(saved: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    return [
        f"{name} was {version}, and here it is {here[name]}"
        for name, version in sorted(saved.items())
        if name in here and here[name] != version
    ]
