"""`one_failure`: a model that failed is one exception, however many nurseries it has passed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from reactor_trio.errors import ManifestError, ModelFailed


@contextmanager
def one_failure() -> Generator[None, None, None]:
    """Raise a ModelFailed or ManifestError of the block alone, without the groups around it. Other groups only pass."""
    try:
        yield
    except BaseExceptionGroup as group:
        failed, others = group.split((ModelFailed, ManifestError))
        if failed is None or others is not None:
            raise
        error: BaseException = failed
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        try:
            raise error from error.__cause__
        finally:
            error.__context__ = None  # the group; a notebook that meets one prints it on stderr, and shows no error
