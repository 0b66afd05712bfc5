"""`SessionBinding` alone: what author code sees of a session that is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.support.models import Main

from reactor_trio.execution.session_binding import SEEN_SESSION, SessionBinding
from reactor_trio.interface import ReactorModel
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.telemetry import Telemetry


class Loop(ReactorModel):
    output: Main


def test_a_session_that_has_ended_is_forgotten_although_connected_was_set() -> None:
    host: Any = SimpleNamespace(time=None)
    binding = SessionBinding(host, declaration_of(Loop), None, 60.0, Telemetry())
    session: Any = SimpleNamespace(over=False)
    binding.begin(session)
    binding.connect()
    assert (binding.connected.is_set(), SEEN_SESSION.get()) == (True, session)
    binding.end()
    assert (binding.connected.is_set(), SEEN_SESSION.get()) == (False, None)
