"""Where log records go under `reactor run`: stderr, each a readable line or a JSON object.

Whatever writes them, the runtime, a library or the author, with `logging` or with structlog: each line has the model's name
and the id of the session whose code wrote it. structlog renders them. It takes a tenth of a second to import (it looks for
rich and asyncio), so that is done for the first line, or by `warm_up` once the server is ready.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from functools import cached_property
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from structlog.typing import Processor

__all__ = ["configure_logging", "warm_up"]

_Fields = MutableMapping[str, Any]

#: what a line says of itself; what an author gives under such a name stands there with a `_` behind it
_OURS = ("time", "level", "model", "session", "logger", "message", "traceback")


def configure_logging(model: str, *, as_json: bool | None, debug: bool) -> None:
    """Send all log records of this process to stderr. The package's own go down to DEBUG under `debug`.

    `as_json` None: readable lines on a terminal, JSON otherwise.
    """
    terminal = sys.stderr.isatty()
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(model, as_json=not terminal if as_json is None else as_json, colors=terminal))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("reactor_trio").setLevel(logging.DEBUG if debug else logging.INFO)
    # Otherwise a warning would stand among the JSON lines as bare text.
    logging.captureWarnings(True)
    if "structlog" in sys.modules:
        _lead_structlog_to_logging()
    else:
        sys.meta_path.insert(0, _StructlogFinder())


def warm_up() -> None:
    """Import what the first line needs. Blocks."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, LineFormatter):
            handler.acquire()  # before the formatter's own lock, as who writes a line takes them; an import may warn
            try:
                handler.formatter.prepare()
            finally:
                handler.release()


class LineFormatter(logging.Formatter):
    """Records as lines.

    Args:
        model: name of the model.
        as_json: one object a line: time (ISO 8601, UTC), level, model, session, logger, message, what `extra=` or structlog
            was given, traceback. Else time, level, message, and the rest as `key=value`.
        colors: of readable lines, unless NO_COLOR is set.
    """

    def __init__(self, model: str, *, as_json: bool, colors: bool = False) -> None:
        super().__init__()
        self._model = model
        self._as_json = as_json
        self._colors = colors and "NO_COLOR" not in os.environ

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line, with its traceback."""
        return self._formatter.format(record)

    def prepare(self) -> None:
        """Import what is needed."""
        _ = self._formatter

    @cached_property
    def _formatter(self) -> logging.Formatter:
        import structlog
        from structlog.stdlib import ExtraAdder, ProcessorFormatter

        ends: list[Processor]
        if self._as_json:
            ends = [structlog.processors.format_exc_info, self._json_fields, structlog.processors.JSONRenderer(_to_json)]
        else:
            ends = [
                self._readable_fields,
                structlog.dev.ConsoleRenderer(
                    # Never the one that shows the values of local variables.
                    colors=self._colors, exception_formatter=structlog.dev.plain_traceback, sort_keys=False,
                ),
            ]  # fmt: skip
        return ProcessorFormatter(
            processors=[structlog.processors.StackInfoRenderer(), *ends], foreign_pre_chain=[ExtraAdder()]
        )

    def _json_fields(self, _logger: object, _method: str, fields: _Fields) -> _Fields:
        record: logging.LogRecord = fields["_record"]
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "model": self._model,
            "session": _session(),
            "logger": record.name,
            "message": fields.pop("event", ""),
        }
        if line["session"] is None:
            del line["session"]
        traceback = fields.pop("exception", None)
        line |= _given(fields, line)
        if traceback is not None:
            line["traceback"] = traceback
        return line

    def _readable_fields(self, _logger: object, _method: str, fields: _Fields) -> _Fields:
        record: logging.LogRecord = fields["_record"]
        line: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created).strftime("%H:%M:%S"),
            "level": record.levelname.lower(),
            "event": str(fields.pop("event", "")),
            "model": self._model,
        }
        if (session := _session()) is not None:
            line["session"] = session
        for key in ("exc_info", "stack", "exception"):
            if key in fields:
                line[key] = fields.pop(key)
        return line | _given(fields, line)


def _session() -> str | None:
    from reactor_trio.execution.session_log_filter import current_session

    return current_session()


def _given(fields: _Fields, line: dict[str, Any]) -> dict[str, Any]:
    """What the line's author added."""
    return {
        f"{key}_" if key in _OURS or key in line else key: value
        for key, value in fields.items()
        if not key.startswith("_") and not (key in line and line[key] == value)
    }


def _to_json(line: dict[str, Any], **_: Any) -> str:
    """What JSON cannot hold appears as its repr."""
    try:
        return msgspec.json.encode(line, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):  # a key that is no text, a list in itself
        return msgspec.json.encode({str(key): _plain(value) for key, value in line.items()}).decode()


def _plain(value: object) -> str | None:
    text = value if isinstance(value, str) or value is None else repr(value)
    return None if text is None else text.encode(errors="replace").decode()


def _lead_structlog_to_logging() -> None:
    """Lines of structlog's own loggers go where all others go, unless the author has set that up."""
    import structlog

    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


class _StructlogFinder:
    """Sets structlog up when it is imported, which may be by the author's module, and not before."""

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """That of structlog, with a loader that sets it up."""
        if name != "structlog":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loads as another loader does, then sets structlog up."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the other."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """As the other, which it then gives its place back."""
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _lead_structlog_to_logging()
