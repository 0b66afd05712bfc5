"""`ServedPerformer`: a `Performer` for a session under a server or a rendering, which has output, clients and a turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field

import trio

from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.driver import Driver
from reactor_trio.execution.performer import Performer
from reactor_trio.execution.step_loop import StepSource
from reactor_trio.interface.messages import ClientInfo
from reactor_trio.interface.model import Model
from reactor_trio.lifecycle import Action, State


@dataclass(eq=False, kw_only=True)
class ServedPerformer(Performer):
    """See `Performer`.

    Args:
        controller: number and joining time of the controlling client.
        new_driver: opens the driver of a session, given `steps`.
        own_model: makes a copy of the model for this session; None: the model itself serves it.

    Attributes:
        restarted: set when the newest restart is over; None before the first.
    """

    session: DrivenSession
    controller: InitVar[tuple[int, float]]
    new_driver: Callable[[DrivenSession, Callable[[StepSource], StepSource]], Driver]
    own_model: Callable[[Model], Model] | None = None
    driver: Driver = field(init=False)
    restarted: trio.Event | None = field(default=None, init=False)

    def __post_init__(self, controller: tuple[int, float]) -> None:
        session = self.session
        client = ClientInfo(*controller, session.send_to)
        super().__init__(session.model, session.declaration, client, session.binding, session)
        self._shared_model = session.model

    def open_driver(self) -> None:
        """Open the driver of the session, on the model loop."""
        self.driver = self.new_driver(self.session, self.steps)
        self.observer = self.driver.observer

    def steps(self, of_author: StepSource) -> StepSource:
        """The steps that the driver makes, of those of the author's code."""
        return of_author

    async def ready_for(self, action: Action) -> None:
        """Wait for what must end before an action of a session's end, outside of that action's time limit. Shielded."""

    async def perform(self, action: Action) -> None:
        """See `Performer`."""
        session = self.session
        match action:
            case Action.COPY_MODEL:
                if self.own_model is not None:
                    session.model = self.model = self.own_model(self._shared_model)
            case Action.TELL_VALUES:
                session.tell_values()
            case Action.FLUSH:
                session.output_pacer.flush(session.step, black=False)
            case Action.CLOSE_OUTPUT:
                session.output_pacer.close()
            case Action.END_STEP:
                await self.driver.at_boundary()
                if self.restarted is not None:  # its hook runs to its end
                    await self.restarted.wait()
            case Action.LET_GO:
                await super().perform(action)
                session.model = self.model = self._shared_model
            case _:
                await super().perform(action)

    def let_go(self) -> None:
        """Let go of the driver, and of the session's own binding."""
        if self.own_model is not None:
            self.session.binding.retire()
        if self.session.life.state is not State.NEW:  # else there is no driver
            del self.driver
