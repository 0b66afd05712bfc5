"""`run(Model)`: serve a model class from the program that defines it, as `reactor run` serves a project."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any

import trio

from reactor_trio.cli.run_command import serve_here
from reactor_trio.cli.terminal import Terminal
from reactor_trio.concurrency.author_tracebacks import place_of_caller
from reactor_trio.configuration.manifest import manifest_of_class
from reactor_trio.configuration.model_import import import_in_progress
from reactor_trio.errors import ManifestError, ReactorError
from reactor_trio.interface.model import Model
from reactor_trio.standard_streams import optional_output


def run(
    model: type[Model],
    *,
    config: Mapping[str, Any] | None = None,
    name: str | None = None,
    debug: bool = False,
    json_logs: bool | None = None,
    **runtime: Any,
) -> None:
    """Load a model, serve it, print its URL, and return when Ctrl-C, SIGTERM or SIGHUP has drained it.

    It prints, logs and handles signals as `reactor run` does, so the process should be the server's own: call it last, under
    `if __name__ == "__main__":`. Other programs use `serve` or `RuntimeHost`.

    Args:
        config: the argument of the model's `load`; None means `{}`.
        name: the model's name; None means the class's.
        debug: show tracebacks, log more, and send the text of the model's exceptions to clients.
        json_logs: None means readable log lines on a terminal, and JSON otherwise.
        runtime: values as in the section `runtime:` of a `reactor.yaml`: `host`, `port`, `fps` and others. Relative paths
            start at the working directory.

    Raises SystemExit with the exit code of `reactor run` after a failure, which it prints in one line on stderr; and
    ReactorError if it is called where it cannot serve: while a model is imported, in another thread, or in a Trio program.
    """
    if import_in_progress():
        raise ReactorError('run() was called while its file is imported; put the call under `if __name__ == "__main__":`')
    if threading.current_thread() is not threading.main_thread():
        raise ReactorError("run() handles signals, so call it in the main thread; RuntimeHost serves in any thread")
    if trio.lowlevel.in_trio_run():
        raise ReactorError("run() blocks; a Trio program awaits serve() instead")
    with optional_output():
        terminal = Terminal()
        folder = None
        try:
            manifest = manifest_of_class(model, name=name, config=config, runtime=runtime)
            folder = manifest.path
            serve_here(manifest, terminal, json_logs=json_logs, debug=debug)
        except (Exception, BaseExceptionGroup) as error:
            if folder is None and isinstance(error, ManifestError) and (place := place_of_caller()):
                error.args = (f"{error} (at {place})",)
            sys.exit(terminal.explain(error, debug=debug, place=folder))
