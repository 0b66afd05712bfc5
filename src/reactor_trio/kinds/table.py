"""`KINDS`: the row of each kind of model."""

from __future__ import annotations

from typing import Final

from reactor_trio.interface.declaration import Declaration, ModelKind
from reactor_trio.kinds import app, batch, blocking, generator, run_loop
from reactor_trio.kinds.block_pacer import BlockPacer
from reactor_trio.kinds.blocking_driver import STEPS_AHEAD, BlockingDriver
from reactor_trio.kinds.dynamic_batcher import DynamicBatcher
from reactor_trio.kinds.kind import FramePacing, Kind, Loading, SelfDriven, Stepped

#: of a `VideoModel`: why there is one session at a time
_ONE_SESSION: Final = (
    "a VideoModel serves one session at a time, since start_session() keeps its thread for as long as the session lasts"
)

KINDS: Final[dict[ModelKind, Kind]] = {
    "generator": Kind("inference()", Stepped(generator.open_source), Loading(generator.check)),
    "batch": Kind("batch_inference()", Stepped(batch.open_source, turns=DynamicBatcher), endless=True),
    "app": Kind("generate()", Stepped(app.open_source), endless=True),
    "run_loop": Kind("run()", SelfDriven(run_loop.RunLoopDriver, run_loop.run), Loading(run_loop.check), endless=True),
    "blocking": Kind(
        "start_session()", SelfDriven(BlockingDriver, steps_ahead=STEPS_AHEAD),
        Loading(blocking.check, blocking.make, blocking.load), FramePacing(blocking.cadence, BlockPacer),
        threads=True, one_session=_ONE_SESSION,
    ),
}  # fmt: skip


def kind_of(declaration: Declaration) -> Kind:
    """The row of the model that declares this."""
    return KINDS[declaration.kind]
