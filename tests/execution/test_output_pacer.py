"""What the reports of the playout change on the model's side."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from tests.support.models import Picture

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.crossing.messages import BundleShown, FlushPlayout
from reactor_trio.execution.output_pacer import OutputPacer
from reactor_trio.interface import ReactorPipeline
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.pacing import Cadence, PlayoutForecast


class Still(ReactorPipeline):
    output: Picture

    def inference(self) -> Any:
        yield None


class End:
    """The model's end of a channel on which nothing comes."""

    asleep = False

    def __init__(self) -> None:
        self.sent: list[object] = []

    def send(self, message: object) -> None:
        self.sent.append(message)

    def take(self) -> None: ...


@pytest.mark.parametrize("epoch", [0, 1])
async def test_a_report_says_what_is_on_screen_also_if_its_bundle_is_older_than_the_flush(
    autojump_clock: object, epoch: int
) -> None:
    """The playout may show a bundle before it reads that the model has flushed; no step is made for that time."""
    end = End()
    pacer = OutputPacer(
        cast(Any, end), declaration_of(Still), Cadence(10.0, 60.0), PlayoutForecast(2), RepeatedEvent(),
        lambda *_: None, lambda: None, lambda: None,
    )  # fmt: skip
    now = trio.current_time()
    pacer.flush(0, black=False)
    assert end.sent == [FlushPlayout(1)]
    assert pacer.step_at(now) <= now
    pacer.handed(BundleShown(now + 5.0, epoch, True))
    assert now + 4.5 < pacer.step_at(now) < now + 5.0
