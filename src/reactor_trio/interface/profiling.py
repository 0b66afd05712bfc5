"""`get_profiler()`: a profiler that measures nothing, so that instrumented Reactor models run unchanged.

To measure, use the profiler of Python or torch, or the server's own metrics of each step (`docs/operate/operating.md`).
"""

from __future__ import annotations

from typing import Final


class Section:
    """A section or timer with the methods of Reactor's. It measures nothing."""

    elapsed_ms: float = 0.0

    def __enter__(self) -> Section:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""


class Profiler:
    """A profiler with the methods of Reactor's. It measures nothing."""

    def section(self, key: str, *_args: object, **_options: object) -> Section:
        """Return an object with `start`, `stop` and `cancel` that is also a context manager."""
        return _SECTION

    timer = section

    def flush(self, *_args: object, **_options: object) -> None:
        """Do nothing."""

    def shutdown(self) -> None:
        """Do nothing."""


_SECTION: Final = Section()
_PROFILER: Final = Profiler()


def get_profiler() -> Profiler:
    """Return the profiler, which has the methods of Reactor's (`section`, `timer`, `flush`, `shutdown`)."""
    return _PROFILER
