"""Saved worlds: where a server keeps them, under which names, how long, and within which bounds."""

from reactor_trio.world_store.shelves import FolderShelf as FolderShelf
from reactor_trio.world_store.shelves import MemoryShelf as MemoryShelf
from reactor_trio.world_store.store import SavedFile as SavedFile
from reactor_trio.world_store.store import StoredWorld as StoredWorld
from reactor_trio.world_store.store import WorldStore as WorldStore
from reactor_trio.world_store.store import new_id as new_id
