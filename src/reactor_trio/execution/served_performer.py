"""`ServedPerformer`: a `Performer` for a session under a server or a rendering, which has output, clients and a turn."""

from __future__ import annotations

from collections.abc import Callable

import trio

from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.driver import Driver
from reactor_trio.execution.performer import Performer
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.interface.messages import ClientInfo
from reactor_trio.interface.model import Model
from reactor_trio.lifecycle import Action, State


class ServedPerformer(Performer):
    """See `Performer`.

    Args:
        client: number and joining time of the controlling client.
        new_driver: opens the driver of a session.
        own_model: makes a copy of the model for this session; None: the model itself serves it.

    Attributes:
        restarted: set when the newest restart is over; None before the first.
    """

    driver: Driver

    def __init__(
        self,
        session: DrivenSession,
        binding: SessionBinding,
        client: tuple[int, float],
        new_driver: Callable[[DrivenSession], Driver],
        own_model: Callable[[Model], Model] | None = None,
    ) -> None:
        super().__init__(session.model, session.declaration, ClientInfo(*client, session.send_to), binding, session)
        session.output_pacer.on_first_frame = binding.stepped
        self.restarted: trio.Event | None = None
        self._session = session
        self._binding = binding
        self._shared_model = session.model
        self._own_model = own_model
        self._new_driver = new_driver

    def open_driver(self) -> None:
        """Open the driver of the session, on the model loop."""
        self.driver = self._new_driver(self._session)
        self.observer = self.driver.observer

    async def perform(self, action: Action) -> None:
        """See `Performer`."""
        session = self._session
        match action:
            case Action.COPY_MODEL:
                if self._own_model is not None:
                    session.model = self.model = self._own_model(self._shared_model)
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

    def let_go(self) -> str:
        """Let go of the driver, and of the session's own binding. Returns what author code still holds, in words."""
        if self._own_model is not None:
            self._binding.retire()
        if self._session.life.state is State.NEW:
            return ""  # there is no driver
        left = self.driver.what_is_left()
        del self.driver
        return left
