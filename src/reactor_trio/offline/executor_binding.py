"""`ExecutorBinding`: the session binding of a pipeline under `PipelineExecutor`.

It collects the model's messages in a list. Only the model's thread uses it.
"""

from __future__ import annotations

from reactor_trio.errors import ReactorError
from reactor_trio.execution.bare_binding import BareBinding
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.messages import ModelMessage


class ExecutorBinding(BareBinding):
    """A `BareBinding` with the messages that the model has sent.

    Attributes:
        sent: messages of the model that the executor has not taken yet.
    """

    def __init__(self, declaration: Declaration, fps: float) -> None:
        super().__init__(declaration, fps)
        self.sent: list[ModelMessage] = []

    async def emit(self, output: object, compute_time: float | None, drop: bool) -> None:
        """Raise ReactorError: a pipeline yields its frames."""
        raise ReactorError("emit() is for a ReactorModel's run(); PipelineExecutor gives what inference() yields")

    async def send(self, message: ModelMessage) -> None:
        """See `ModelBinding`. Appends the message to `sent`."""
        await super().send(message)
        self.sent.append(message)
