"""`KINDS`: the row of each kind of model."""

from __future__ import annotations

from typing import Final

from reactor_trio.interface.declaration import Declaration, ModelKind
from reactor_trio.kinds.app import APP
from reactor_trio.kinds.batch import BATCH
from reactor_trio.kinds.blocking import BLOCKING
from reactor_trio.kinds.generator import GENERATOR
from reactor_trio.kinds.kind import Kind
from reactor_trio.kinds.run_loop import RUN_LOOP

KINDS: Final[dict[ModelKind, Kind]] = {
    "generator": GENERATOR,
    "batch": BATCH,
    "app": APP,
    "run_loop": RUN_LOOP,
    "blocking": BLOCKING,
}


def kind_of(declaration: Declaration) -> Kind:
    """The row of the model that declares this."""
    return KINDS[declaration.kind]
