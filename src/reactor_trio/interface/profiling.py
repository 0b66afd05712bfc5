"""`get_profiler()`: instrumented models of Reactor run unchanged, and nothing is measured.

To measure, use the profiler of Python or torch, or the server's own figures of each step (`docs/operating.md`).
"""

from __future__ import annotations

from typing import Final


class Section:
    """A section or timer: takes what Reactor's take."""

    elapsed_ms: float = 0.0

    def __enter__(self) -> Section:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def start(self) -> None:
        """Nothing begins."""

    def stop(self) -> None:
        """Nothing is recorded."""

    def cancel(self) -> None:
        """Nothing is forgotten."""


class Profiler:
    """Measures nothing."""

    def section(self, key: str, *_args: object, **_options: object) -> Section:
        """A context manager, for `with get_profiler().section("forward"):`."""
        return _SECTION

    def timer(self, key: str, *_args: object, **_options: object) -> Section:
        """An object with `start`, `stop` and `cancel`."""
        return _SECTION

    def flush(self, *_args: object, **_options: object) -> None:
        """There is nothing to write."""

    def shutdown(self) -> None:
        """There is nothing to end."""


_SECTION: Final = Section()
_PROFILER: Final = Profiler()


def get_profiler() -> Profiler:
    """The profiler, which takes the calls of Reactor's (`section`, `timer`, `flush`, `shutdown`) and measures nothing."""
    return _PROFILER
