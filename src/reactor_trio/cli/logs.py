"""Where log records go under `reactor run`: stderr, each a readable line or a JSON object with the model's name."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import msgspec

__all__ = ["JsonFormatter", "TextFormatter", "configure_logging"]

# What every record has; anything else was given by the caller as `extra=` and belongs in the JSON.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """`12:00:01 WARNING my-model: text`, followed by the traceback if there is one."""

    def __init__(self, model: str) -> None:
        super().__init__(f"%(asctime)s %(levelname)s {model.replace('%', '%%')}: %(message)s", "%H:%M:%S")


class JsonFormatter(logging.Formatter):
    """One object a line: time (ISO 8601, UTC), level, model, logger, message, what `extra=` gave, traceback."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self._model = model

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON; values that JSON cannot hold appear as their repr."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "model": self._model,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=repr).decode()


def configure_logging(model: str, *, as_json: bool, debug: bool) -> None:
    """Send all log records of this process to stderr. The package's own go down to DEBUG under `debug`."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(model) if as_json else TextFormatter(model))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("reactor_trio").setLevel(logging.DEBUG if debug else logging.INFO)
    # Otherwise a warning would stand among the JSON lines as bare text.
    logging.captureWarnings(as_json)
