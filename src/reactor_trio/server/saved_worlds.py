"""What the worlds of a server's sessions have in common: the store, its key, and what a file says of the model.

Only for a model that saves its worlds; a server of another imports none of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import trio

from reactor_trio.configuration.credentials import read_key
from reactor_trio.configuration.settings import WorldSettings
from reactor_trio.errors import CommandError, ManifestError
from reactor_trio.placement.placement import Placement
from reactor_trio.server.run_facts import run_facts
from reactor_trio.server.runtime_parts import ProcessParts
from reactor_trio.session.session_worlds import ModelWorlds
from reactor_trio.session.upload_store import Disk
from reactor_trio.world_store import FolderShelf, MemoryShelf, WorldStore
from reactor_trio.worlds.file_header import Origin

#: files that are read and written at once; more wait. A disk that stands still holds so many threads.
AT_ONCE: Final = 4
#: seconds for which a command, and those behind it, wait for the store. A disk may stand still.
ANSWERS_WITHIN: Final = 120.0
#: what a killed server had begun to write this many seconds ago is removed
ABANDONED: Final = 86_400.0


async def open_worlds(
    placement: Placement, settings: WorldSettings, schema: Mapping[str, Any], config: Mapping[str, Any], parts: ProcessParts
) -> ModelWorlds:
    """Open the store. Raises ManifestError."""
    in_thread = partial(parts.disk, limiter=trio.CapacityLimiter(AT_ONCE), abandon_on_cancel=True)
    keys = [read_key(text, f"runtime.worlds.keys[{place}]") for place, text in enumerate(settings.keys)]
    store = await in_thread(_open_store, keys, settings)
    origin = partial(_origin, placement, schema, config, placement.weights)
    return ModelWorlds(
        placement.declaration, settings, placement.max_sessions, origin, store, partial(_within, in_thread), parts.worker,
        placement.moderate,
        crosses=placement.process is not None,
    )  # fmt: skip


async def _within(in_thread: Disk, function: Callable[..., object], *args: Any) -> Any:
    """Read or write. Raises CommandError if that takes longer than `ANSWERS_WITHIN`; the thread ends by itself."""
    with trio.move_on_after(ANSWERS_WITHIN):
        return await in_thread(function, *args)
    raise CommandError("store_failed", f"the store of worlds has not answered for {ANSWERS_WITHIN:g} s")


def _origin(
    placement: Placement, schema: Mapping[str, Any], config: Mapping[str, Any], weights: Callable[[], str], session_id: str
) -> Origin:
    """What a file of this model says, without whose world it is."""
    declared = placement.declaration.world
    assert declared is not None
    facts = run_facts(placement.declaration.model, config, session_id)
    return msgspec.convert(
        facts | {
            "name": schema["name"], "version": declared.saves.version, "schema_hash": schema["schema_hash"],
            "weights": weights(), "world_size": placement.processes, "session": session_id,
        },
        Origin,
    )  # fmt: skip


def _open_store(keys: Sequence[bytes], settings: WorldSettings) -> WorldStore:
    folder = settings.store
    if folder is None:
        key = secrets.token_bytes(32)
        return WorldStore(MemoryShelf(), [key], most_bytes=settings.ring, world_bytes=settings.bytes)
    shelf = FolderShelf(folder)
    try:
        keys = keys or [shelf.key()]
        store = WorldStore(shelf, keys, most_bytes=settings.store_bytes, world_bytes=settings.bytes)
        shelf.remove_parts(store.now() - ABANDONED)
        store.clean()
    except OSError as error:
        raise ManifestError(f"runtime.worlds.store: {folder} cannot be used: {error.strerror or error}") from None
    return store
