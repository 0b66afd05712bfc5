"""The blocks of a blocking model: what it computes is not known until it is pushed, so each is numbered as it is, with the
command that it may have seen for certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactor_trio.execution.drivers.device_fence import wait_for_fences
from reactor_trio.media import Chunk, Origin

if TYPE_CHECKING:
    from reactor_trio.execution.drivers.call_watch import RunningCall
    from reactor_trio.execution.session_runner import SessionRunner


class Blocks:
    """The blocks of one session.

    Attributes:
        number: of the block that is computed now.
        next: the block that the session's thread computes next, while that waits in a push; None while it computes.
    """

    def __init__(self, runner: SessionRunner) -> None:
        self.number = 0
        self.next: int | None = None
        self._runner = runner
        self._command: int | None = None
        self._waited: float | None = None
        self._call: RunningCall | None = None

    def ends(self) -> None:
        """On the session's thread: it computes nothing until `begins`, so the next block sees what is applied now."""
        self.next = self._runner.step

    def begins(self) -> None:
        """On the session's thread: what it computes from now on sees every command that has been applied."""
        self.next = None
        self._command, self._waited = self._runner.newest_command, self._runner.command_waited()

    def computes(self, computes: bool) -> None:
        """On the model loop: the session's thread computes from now on, or does not."""
        calls = self._runner.calls
        if self._call is not None:
            calls.ends(self._call)
        thread = self._runner.host.author_threads[0].thread
        self._call = calls.begins("start_session() has emitted nothing", thread) if computes else None

    async def push(self, chunk: Chunk | None) -> None:
        """The model emitted a block, or black (None)."""
        runner, monitored = self._runner, self._call is not None
        self.computes(False)
        if self.next is not None:
            self.next = runner.step
        if chunk is not None:
            await wait_for_fences(chunk)
        await runner.host.time.spend(self.number)
        origin = Origin(self.number, self._command, self._waited)
        if chunk is None:
            await runner.output_pacer.push_black(origin)
        elif chunk.length:
            await runner.output_pacer.push(chunk, origin)
        self.number, runner.step = runner.step, runner.step + 1
        self.computes(monitored and not runner.over)

    async def tell(self, type: str, data: Any) -> None:  # noqa: A002 - the wire's words
        """A message of the model to all clients."""
        if not self._runner.closed:
            self._runner.tell(type, data, None)

    async def monitor(self, enabled: bool) -> None:
        """The model pauses, or works again."""
        self._runner.output_pacer.monitor(enabled)
        self.computes(enabled and not self._runner.over)
