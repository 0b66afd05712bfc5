"""The number of a model's ranks, and the checks that the model can have them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import DeclarationError, ManifestError
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.distributed import DistributedPipeline
from reactor_trio.interface.model import Model

#: ranks of one model; more than a machine has GPUs
MOST = 64


def ranks_of(model_class: type[Model], settings: Settings) -> int:
    """Return the number of ranks that the manifest or the class gives. Raises DeclarationError or ManifestError."""
    name = getattr(model_class, "__qualname__", repr(model_class))
    if not (isinstance(model_class, type) and issubclass(model_class, DistributedPipeline)):
        if (settings.ranks or 1) > 1:
            raise ManifestError(
                f"runtime.ranks: {name} runs in one process; make it a DistributedPipeline, or leave the key out"
            )
        return 1
    number: Any = settings.ranks or model_class.ranks
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST:
        raise DeclarationError(f"{name}.ranks must be a whole number from 1 to {MOST}, not {number!r}")
    if number > 1:
        if declaration_of(model_class).batched:
            raise DeclarationError(f"{name}: ranks step one session at a time; leave batch_inference() out, or ranks at 1")
        refuse_several_sessions(name, settings.max_sessions or model_class.max_sessions)
        if find_spec("torch") is None:
            raise ManifestError(f"{name} has {number} ranks, which need torch: pip install torch")
    return number


def refuse_several_sessions(name: str, sessions: int) -> None:
    """Raise DeclarationError if `sessions` is above 1: ranks make the calls of one session, one after the other."""
    if sessions > 1:
        raise DeclarationError(
            f"{name}: a model on several ranks serves one session at a time, max_sessions asks for {sessions}; "
            "start a server for each"
        )
