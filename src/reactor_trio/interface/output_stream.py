"""`self.output`, by which a model sets its rate, emits frames and drops what is queued. Source: Reactor 3.x."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from reactor_trio.interface.author_code import awaited_as, refuse_in_plain_step

#: attributes for the rate and the stream of an instance that is not served
_OWN_FPS: Final = "_reactor_fps"
_OWN_STREAM: Final = "_reactor_output"


class OutputStream:
    """The way of a model's frames to its viewers: `self.output`. On an instance that is not served it only keeps `fps`."""

    def __init__(self, model: Any) -> None:
        self._model = model

    @property
    def fps(self) -> float:
        """The playout rate in frames per second.

        Assigned, it replaces the declared rate, also for what is queued: until the session ends, or for every session if
        `load` assigns it. ValueError unless it is a finite number above 0.
        """
        if self._model._reactor_binding is not None:
            return float(self._model._reactor_binding.output_buffer.fps)
        return float(vars(self._model).get(_OWN_FPS, self._model.fps))

    @fps.setter
    def fps(self, fps: float) -> None:
        if self._model._reactor_binding is not None:
            self._model._reactor_binding.output_buffer.set_fps(fps)
        else:
            vars(self._model)[_OWN_FPS] = fps

    def emit(
        self, output: object, *, compute_time: float | None = None, drop: bool = False
    ) -> Coroutine[Any, Any, None]:
        """Queue frames now; see `ReactorModel.emit`. Does nothing on an instance that is not served."""
        refuse_in_plain_step("self.output.emit(output)")
        return self._emit(output, compute_time, drop)

    @awaited_as("self.output.emit(output)")
    async def _emit(self, output: object, compute_time: float | None, drop: bool) -> None:
        if self._model._reactor_binding is not None:
            await self._model._reactor_binding.emit(output, compute_time, drop)

    def flush(self, *, hold: bool = False) -> None:
        """Drop the queued frames, then show one black frame; with `hold` the last picture stays on the screen."""
        if self._model._reactor_binding is not None:
            buffer = self._model._reactor_binding.output_buffer
            (buffer.clear if hold else buffer.flush)()


class OutputAttribute:
    """`model.output`. It defines no `__set__`, so a test may assign another object to the instance.

    An instance that is not served keeps one stream, so that a test may replace a method of it. A served one does not: it is
    copied for each session, and would be part of a reference cycle.
    """

    def __get__(self, model: Any, _owner: type) -> Any:
        if model is None:
            return self
        if model._reactor_binding is not None:
            return OutputStream(model)
        return vars(model).setdefault(_OWN_STREAM, OutputStream(model))
