"""`get_logger`, as Reactor 3.x has it: a logger whose methods take named fields beside the message."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["StructuredLogger", "get_logger"]


class StructuredLogger:
    """Writes lines with fields: `log.info("loaded", seconds=2.5)`. A field may have any name, also `name` or `message`.

    The lines go to the `logging.Logger` of the same name. `reactor run` shows the fields; another handler finds them in the
    record's `_fields`.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, msg: object, /, **fields: Any) -> None:
        """Write a line of level DEBUG."""
        self._write(logging.DEBUG, msg, fields)

    def info(self, msg: object, /, **fields: Any) -> None:
        """Write a line of level INFO."""
        self._write(logging.INFO, msg, fields)

    def warning(self, msg: object, /, **fields: Any) -> None:
        """Write a line of level WARNING."""
        self._write(logging.WARNING, msg, fields)

    def error(self, msg: object, /, **fields: Any) -> None:
        """Write a line of level ERROR. `exc_info=True` adds the traceback of the exception that is handled now."""
        self._write(logging.ERROR, msg, fields)

    def exception(self, msg: object, /, **fields: Any) -> None:
        """Write a line of level ERROR with the traceback of the exception that is handled now."""
        self._write(logging.ERROR, msg, {"exc_info": True, **fields})

    def _write(self, level: int, msg: object, fields: dict[str, Any]) -> None:
        exc_info = fields.pop("exc_info", None)
        # A `%` in the text stands for itself, for there are no positional arguments.
        self._logger.log(level, msg, exc_info=exc_info, extra={"_fields": fields}, stacklevel=3)


def get_logger(name: str) -> StructuredLogger:
    """Return a logger with fields, for the module `name`: `log = get_logger(__name__)`."""
    return StructuredLogger(name)
