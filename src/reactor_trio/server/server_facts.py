"""`ServerFacts`: what the parts of a server read about it, and `ServedModel`: what its newest load has made.

    Runtime -> SessionManager -> Metrics -> ServerFacts

Each part gets those to its right and knows none to its left. So sessions and metrics can be made without a runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from reactor_trio.admission import Admission, Phase, PhaseJournal
from reactor_trio.configuration.introduction import Introduction
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.common_routes import ModelSchema
from reactor_trio.server.load_progress import LoadProgress
from reactor_trio.server.model_health import ModelHealth
from reactor_trio.session import SessionServices


class ServedModel(msgspec.Struct, frozen=True):
    """A model that is loaded.

    Attributes:
        services: what new sessions get.
        described: the answers to `GET /schema`.
        config: the argument of the model's `load`.
    """

    services: SessionServices
    described: ModelSchema
    config: dict[str, Any]


@dataclass(frozen=True)
class ServerFacts:
    """What is known of one server, from its start on.

    Attributes:
        name: the model's, for welcome, health and log.
        settings: of the server.
        introduction: how the model introduces itself.
        lag: returns for how many seconds what the loop handles now may have waited for it.
        journal: the phases that the server has entered.
        progress: how far the model's load is.
        health: whether the model's code returns.
        admission: the slots and the queue.
    """

    name: str
    settings: Settings
    introduction: Introduction
    lag: Callable[[], float]
    journal: PhaseJournal
    progress: LoadProgress
    health: ModelHealth
    admission: Admission

    @property
    def phase(self) -> Phase:
        """The server's phase now."""
        return self.journal.phase

    @property
    def loading(self) -> str | None:
        """That the model is loading, and how far that is, in words; None in any other phase."""
        if self.phase != "loading":
            return None
        return f"the model is still loading ({words})" if (words := str(self.progress)) else "the model is still loading"
