"""`reactor world`: print what is in the file of a saved world. No code of the model runs, and none is imported."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from reactor_trio.cli.terminal import OK, Terminal, UsageError
from reactor_trio.errors import CommandError
from reactor_trio.plain_text import one_line, sendable
from reactor_trio.world_store.shelves import KEY, KEY_BYTES
from reactor_trio.worlds.file_header import ANY_SIZE, Header, world_digest
from reactor_trio.worlds.inspection import Described, check_blobs, describe
from reactor_trio.worlds.unpacking import read_head, read_header


def world(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print what is in a file. Raises UsageError, also for a file that is damaged."""
    keys, signature = _keys_of(options.file, options.key_file)
    try:
        with options.file.open("rb") as file:
            digest, header, tree = _read(file, keys, options.depth)
            size = file.seek(0, 2)
    except OSError as error:
        raise UsageError(f"{options.file}: cannot be read: {error.strerror or error}") from None
    except CommandError as error:
        raise UsageError(f"{options.file}: {one_line(sendable(error))}") from None
    if options.json:
        found = {"digest": digest, "signature": signature, "bytes": size} | msgspec.to_builtins(header.origin)
        found |= {"step": header.step, "steps": header.steps, "age": header.age, "fps": header.fps, "values": tree}
        terminal.give(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
    else:
        lines = [*_facts(header, digest, signature, size), *_lines(tree, "")]
        terminal.give("".join(f"{sendable(line)}\n" for line in lines))
    return OK


def _read(file: BinaryIO, keys: Sequence[bytes] | None, depth: int) -> tuple[str, Header, list[Described]]:
    digest = world_digest(read_head(file, ANY_SIZE))
    header = read_header(file, keys, ANY_SIZE)
    check_blobs(file, header)
    return digest, header, describe(header, depth)


def _keys_of(file: Path, named: Path | None) -> tuple[list[bytes] | None, str]:
    """The keys of which one must have signed the file, and what is to be said of the signature. Raises UsageError."""
    place = named or file.parent / KEY
    try:
        key = place.read_bytes()
    except OSError as error:
        why = error.strerror or str(error)
        if named is not None:
            raise UsageError(f"--key-file: cannot read {named}: {why}") from None
        there = isinstance(error, FileNotFoundError)
        return None, "not checked: " + (
            "there is no key beside the file; name one with --key-file" if there else f"{place} cannot be read: {why}"
        )
    if named is None and len(key) != KEY_BYTES:
        return None, f"not checked: {place} is no key of a store"
    return [key, key.strip()], f"checked with {place}"  # of a key of `worlds.keys` no white space around it counts


def _facts(header: Header, digest: str, signature: str, size: int) -> Iterator[str]:
    origin = header.origin
    saved_at = datetime.fromtimestamp(origin.saved_at, UTC) if 0 <= origin.saved_at < 1e11 else None
    facts: list[tuple[str, Any]] = [
        ("model", f"{origin.model}, served as {origin.name}"),
        ("saved", f"{saved_at:%Y-%m-%d %H:%M:%S} UTC" if saved_at else "at a time that is not known"),
        ("name", origin.label),
        ("subject", origin.subject),
        ("session", origin.session),
        ("step", f"{header.step} of its session; the world has made {header.steps}"),
        ("age", f"{header.age:.3f} s of the world's own time"),
        ("rate", header.fps and f"{header.fps:g} frames a second, set by the model"),
        ("version", origin.version),
        ("weights", origin.weights or "none"),
        ("world_size", origin.world_size),
        ("versions", ", ".join(f"{name} {version}" for name, version in sorted(origin.versions.items()))),
        ("size", f"{size} bytes"),
        ("digest", digest),
        ("signature", signature),
    ]
    return (f"{name:10} {one_line(str(fact))}" for name, fact in facts if fact not in ("", None))


def _lines(values: Sequence[Described], indent: str) -> Iterator[str]:
    for each in values:
        yield f"{indent}{one_line(each.name)}: {each.value}"
        yield from _lines(each.parts, indent + "  ")
        if each.left_out:
            yield f"{indent}  ... {each.left_out} more"
