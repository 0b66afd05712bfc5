"""`KINDS`: the row of each kind of model."""

from __future__ import annotations

from typing import Final

from reactor_trio.interface.declaration import Declaration, ModelKind
from reactor_trio.kinds import app, batch, blocking, generator, run_loop
from reactor_trio.kinds.block_pacer import BlockPacer
from reactor_trio.kinds.blocking_driver import BlockingDriver
from reactor_trio.kinds.dynamic_batcher import DynamicBatcher
from reactor_trio.kinds.kind import Driving, FramePacing, Kind, Loading

#: of a `VideoModel`: why there is one session at a time
_ONE_SESSION: Final = (
    "a VideoModel serves one session at a time, since start_session() keeps its thread for as long as the session lasts"
)

KINDS: Final[dict[ModelKind, Kind]] = {
    "generator": Kind("inference()", Driving(generator.open_source), Loading(generator.check)),
    "batch": Kind("batch_inference()", Driving(batch.open_source, DynamicBatcher), endless=True),
    "app": Kind("generate()", Driving(app.open_source), endless=True),
    "run_loop": Kind(
        "run()", Driving(driver=run_loop.RunLoopDriver, run=run_loop.run), Loading(run_loop.check), endless=True,
    ),
    "blocking": Kind(
        "start_session()", Driving(driver=BlockingDriver), Loading(blocking.check, blocking.make, blocking.load),
        FramePacing(blocking.cadence, BlockPacer),
        threads=True, one_session=_ONE_SESSION,
    ),
}  # fmt: skip


def kind_of(declaration: Declaration) -> Kind:
    """The row of the model that declares this."""
    return KINDS[declaration.kind]
