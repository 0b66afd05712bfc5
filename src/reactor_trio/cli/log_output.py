"""Formats the log of `reactor run`: each record is one readable line or one JSON object on stderr.

The runtime, libraries and the author write records with `logging` or with structlog. Each line has the model's name, and the
id of the session whose code wrote it. structlog takes 80 ms of a start to import (it brings asyncio and most of rich) and
need not be installed: this module formats lines without it, and sets it up only for a project that uses it.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, TextIO

import msgspec

from reactor_trio.concurrency.python_warnings import log_warnings
from reactor_trio.configuration.manifest import Manifest

#: Names of our own fields. An author's field of such a name gets a `_` behind it.
_OURS = ("time", "level", "model", "session", "logger", "message", "traceback")
#: Attributes of every record; the others are the author's `extra=`.
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}

_IMPORTS_STRUCTLOG = re.compile(rb"^\s*(?:import|from)\b.*\bstructlog\b", re.MULTILINE)

_LEVEL_COLOURS = {"debug": "32;1", "info": "32;1", "warning": "33;1", "error": "31;1", "critical": "31;1"}
_DIM, _BOLD, _CYAN, _MAGENTA = "2", "1", "36", "35"


def configure_logging(
    manifest: Manifest, *, as_json: bool | None, debug: bool, before_line: Callable[[], object] = lambda: None
) -> None:
    """Send all log records of this process to stderr. The package's own go down to DEBUG under `debug`.

    `as_json` None: readable lines on a terminal, JSON otherwise. `before_line` is called before each line, in its
    thread. Call this function before the model is imported.
    """
    terminal = sys.stderr.isatty()
    handler = _LineHandler(before_line)
    as_json = not terminal if as_json is None else as_json
    handler.setFormatter(LineFormatter(manifest.name, as_json=as_json, colours=terminal))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("reactor_trio").setLevel(logging.DEBUG if debug else logging.INFO)
    log_warnings()  # otherwise a warning would be bare text among the JSON lines
    if _uses_structlog(manifest):
        with suppress(ModuleNotFoundError):  # the model may do without, or its own import says so
            import structlog  # noqa: F401
    route_structlog()


def tell_doubts(manifest: Manifest, tell: Callable[[str], object]) -> None:
    """Give `tell` what is probably a mistake in the manifest, line by line."""
    for doubt in manifest.doubts:
        tell(doubt)


class _LineHandler(logging.StreamHandler[TextIO]):
    def __init__(self, before_line: Callable[[], object]) -> None:
        super().__init__()
        self._before_line = before_line

    def emit(self, record: logging.LogRecord) -> None:
        self._before_line()
        super().emit(record)


def route_structlog() -> None:
    """Send the lines of structlog's loggers to `logging`, if structlog is imported and the author has not set it up."""
    structlog = sys.modules.get("structlog")
    if structlog is None or structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            _to_logging,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _uses_structlog(manifest: Manifest) -> bool:
    """Whether the model's module, a module in or below its folder, or one beside the manifest, imports structlog.

    It must be set up before the model's module is imported, which may write lines and bind loggers.
    """
    return any(_imports_structlog(file) for file in _model_files(manifest))


def _model_files(manifest: Manifest) -> Iterator[Path]:
    package, *names = manifest.model_path.partition(":")[0].split(".")
    spec = PathFinder.find_spec(package, [str(manifest.path), *sys.path])
    yield from manifest.path.glob("*.py")
    if spec is not None and spec.submodule_search_locations is None and spec.origin is not None:
        yield Path(spec.origin)
    for folder in () if spec is None else spec.submodule_search_locations or ():
        module = Path(folder, *names)
        yield from (module if module.is_dir() else module.parent).rglob("*.py")


def _imports_structlog(file: Path) -> bool:
    with suppress(OSError):  # not every name is a file that can be read: an editor's lock is a link to nothing
        return file.is_file() and _IMPORTS_STRUCTLOG.search(file.read_bytes()) is not None
    return False


def _to_logging(_logger: object, _method: str, fields: MutableMapping[str, Any]) -> dict[str, Any]:
    """structlog's last processor: turn a line into arguments of `logging`. A field may have the name of an attribute."""
    named = {key: fields.pop(key) for key in ("exc_info", "stack_info", "stacklevel") if key in fields}
    return {"msg": fields.pop("event", ""), "extra": {"_fields": dict(fields)}, **named}


class LineFormatter(logging.Formatter):
    """Formats records as lines.

    Args:
        model: name of the model.
        as_json: one JSON object a line: time (ISO 8601, UTC), level, model, session, logger, message, the fields of `extra=`
            or structlog, traceback. Else a readable line: time, level, message, and the rest as `key=value`.
        colours: of readable lines, unless NO_COLOR is set.
    """

    def __init__(self, model: str, *, as_json: bool, colours: bool = False) -> None:
        super().__init__()
        self._model = model
        self._as_json = as_json
        self._colours = colours and "NO_COLOR" not in os.environ

    def format(self, record: logging.LogRecord) -> str:  # noqa: D102
        return _to_json(self._json_fields(record)) if self._as_json else self._readable(record)

    def _json_fields(self, record: logging.LogRecord) -> dict[str, Any]:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            **self._whose(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= _given(record, line)
        if record.stack_info:
            line["stack"] = record.stack_info
        if record.exc_info and record.exc_info[1]:
            line["traceback"] = self.formatException(record.exc_info)
        return line

    def _readable(self, record: logging.LogRecord) -> str:
        fields = self._whose()
        fields |= _given(record, fields)
        level = record.levelname.lower()
        time = self._painted(self.formatTime(record, "%H:%M:%S"), _DIM)
        level = self._painted(f"{level:8}", _LEVEL_COLOURS.get(level, _BOLD))
        pairs = [f"{self._painted(key, _CYAN)}={self._painted(_word(fields[key]), _MAGENTA)}" for key in fields]
        text = " ".join([time, f"[{level}]", self._painted(f"{record.getMessage():30}", _BOLD), *pairs])
        if record.stack_info:
            text += f"\n{record.stack_info}"
        if record.exc_info and record.exc_info[1]:
            text += f"\n{self.formatException(record.exc_info)}"
        return text

    def _whose(self) -> dict[str, Any]:
        from reactor_trio.execution.current_session import current_session

        session = current_session()
        return {"model": self._model} | ({} if session is None else {"session": session})

    def _painted(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours else text


def _given(record: logging.LogRecord, line: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the line's author added."""
    extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    return {
        f"{key}_" if key in _OURS else key: value
        for key, value in (getattr(record, "_fields", {}) | extra).items()
        if not key.startswith("_") and not (key in line and line[key] == value)
    }


def _word(value: object) -> str:
    """Return a value as text without blanks and quotes; of any other value the repr."""
    return value if isinstance(value, str) and not re.search(r"[\s=\"']", value) else repr(value)


def _to_json(line: dict[str, Any]) -> str:
    """Encode a line; a value that JSON cannot hold becomes its repr."""
    try:
        return msgspec.json.encode(line, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):  # a key that is not a text, a list in itself
        return msgspec.json.encode({str(key): _plain(value) for key, value in line.items()}).decode()


def _plain(value: object) -> str | None:
    text = value if isinstance(value, str) or value is None else repr(value)
    return None if text is None else text.encode(errors="replace").decode()
