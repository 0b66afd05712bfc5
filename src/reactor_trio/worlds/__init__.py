"""Worlds of models: captured, kept in a ring of moments, put back, packed into files.

A *world* is what a model needs to go on with a session exactly as it was, a *moment* the world after one step, in memory.
`interface.saving` has what the author declares. Nothing here starts tasks, reads clocks or opens files: it is called between
two steps, on the model's thread.
"""

from reactor_trio.worlds.buffers import Copies as Copies
from reactor_trio.worlds.capture import capture as capture
from reactor_trio.worlds.nodes import World as World
from reactor_trio.worlds.put import prepare as prepare
from reactor_trio.worlds.ring import UNDO_FOR as UNDO_FOR
from reactor_trio.worlds.ring import Ring as Ring
