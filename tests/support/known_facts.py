"""The facts of a server that does not run, for what reads them alone."""

from __future__ import annotations

from reactor_trio.admission import Admission, PhaseJournal
from reactor_trio.configuration.introduction import NOT_INTRODUCED
from reactor_trio.configuration.settings import Settings
from reactor_trio.server.load_progress import LoadProgress
from reactor_trio.server.model_health import ModelHealth
from reactor_trio.server.server_facts import ServerFacts


def facts_of(name: str) -> ServerFacts:
    """The facts of a server that loads its model."""
    progress = LoadProgress(lambda _fraction, _text: None, lambda: None)
    health = ModelHealth(name, 0.0, lambda: None)
    return ServerFacts(
        name, Settings(), NOT_INTRODUCED, float, PhaseJournal(0.0), progress, health, Admission(slots=1, queue_limit=0)
    )
