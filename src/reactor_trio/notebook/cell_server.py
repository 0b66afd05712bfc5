"""`show`: serve a model from a notebook's kernel, with its page in the output of the cell.

A server belongs to the cell that made it. It ends when

* that cell runs again, also if it no longer calls `show` (IPython's event `pre_run_cell`),
* `stop` is called, or a cell that waits for it (`wait`) is interrupted,
* the kernel ends.

The kernel is not told that a cell was deleted or its output cleared, so the server goes on then.
"""

from __future__ import annotations

import atexit
import logging
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from reactor_trio.configuration.manifest import manifest_of_class
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import ManifestError, ModelFailed, ReactorError
from reactor_trio.interface.model import Model
from reactor_trio.server.runtime_host import RuntimeHost

log = logging.getLogger("reactor_trio.notebook")

#: Notebooks on this machine, whose port the kernel does not know.
LOCAL_NOTEBOOKS = ("http://localhost:*", "http://127.0.0.1:*", "https://localhost:*", "https://127.0.0.1:*")
#: What a page in a frame of another origin may do only if the frame allows it.
_ALLOWED = "autoplay; camera; clipboard-read; clipboard-write; gamepad; microphone"


class CellServer:
    """A server that shows its page in a notebook cell.

    Attributes:
        url: its page.
    """

    def __init__(self, host: RuntimeHost, url: str, settings: Settings, name: str) -> None:
        self.url = url
        self._host = host
        self._name = name
        #: the time that a server needs to stop, unless a step does not end
        self._patience = settings.drain_notice + settings.drain_grace + settings.stuck_after

    def stop(self) -> None:
        """End the sessions, stop the server and free the model; returns when it is gone. A second call does nothing.

        Raises what ended the server earlier, and TimeoutError if a step does not end; the server stops when it does.
        """
        self._host.stop(self._patience)

    def wait(self) -> None:
        """Wait until the server ends, and stop it if the cell is interrupted."""
        try:
            self._host.wait()
        finally:
            self.stop()

    def __repr__(self) -> str:
        return f"<{self._name} at {self.url}>"


def show(
    model: type[Model],
    *,
    height: int = 640,
    url: str | None = None,
    config: Mapping[str, Any] | None = None,
    name: str | None = None,
    debug: bool = True,
    **runtime: Any,
) -> CellServer:
    """Load a model, serve it from this kernel, and show its page below the cell. Returns when the page is there.

    The server stops when the same cell runs again.

    Args:
        height: of the page, in pixels.
        url: the URL of the page for the reader's browser, if that does not reach the kernel's loopback address; `{port}`
            stands for the server's port. For instance `/proxy/{port}/` with jupyter-server-proxy.
        config: the argument of the model's `load`; None means `{}`.
        name: the model's name; None means the class's.
        debug: send the text of the model's exceptions to the page.
        runtime: values as in the section `runtime:` of a `reactor.yaml`. Unless given, the system chooses a free `port`, and
            pages on this machine may be `frame_ancestors`.

    Raises ReactorError outside a notebook, ManifestError for a wrong value, and what `RuntimeHost.start` raises.
    """
    shell = _notebook_shell()
    manifest = manifest_of_class(
        model, name=name, config=config, runtime={"port": 0, "frame_ancestors": LOCAL_NOTEBOOKS, **runtime}
    )
    cells = _cells_of(shell)
    cell = shell.get_parent().get("metadata", {}).get("cellId")
    if cell is None:
        cells.end(None)

    from IPython.display import IFrame, display

    output = display(_text(f"loading {manifest.name} ..."), raw=True, display_id=True)

    def on_progress(fraction: float | None, text: str) -> None:
        share = "" if fraction is None else f"{fraction:.0%} "
        output.update(_text(f"loading {manifest.name} ... {share}{text}"), raw=True)

    def on_phase(phase: str) -> None:
        if phase in ("failed", "stopped"):
            output.update(_text(f"{manifest.name} has {phase}"), raw=True)

    host = RuntimeHost(
        manifest, port=manifest.settings.port, debug=debug, on_progress=on_progress, on_phase=on_phase
    )
    failed: ReactorError | None = None
    try:
        host.start()
    except (ModelFailed, ManifestError) as error:
        failed = type(error)(str(error), anchor=error.anchor)  # without the runtime's own frames
        failed.__cause__ = error.__cause__
    except KeyboardInterrupt:  # load() cannot be interrupted, but its server ends as soon as it has loaded
        with suppress(TimeoutError):
            host.stop(0)
        raise
    if failed is not None:
        raise failed  # here, so that it has no context: the notebook shows that and no error if it has a group
    address = host.url if url is None else url.format(port=host.serving.port)
    shown = CellServer(host, address, manifest.settings, manifest.name)
    cells.servers[cell].append(shown)
    output.update(IFrame(shown.url, "100%", height, extras=[f'allow="{_ALLOWED}"']))
    return shown


class _Cells:
    """The servers of a kernel.

    Attributes:
        servers: by the id of their cell; None stands for all cells of a front end that sends no ids.
    """

    def __init__(self, shell: Any) -> None:
        self.servers: defaultdict[str | None, list[CellServer]] = defaultdict(list)
        shell.events.register("pre_run_cell", self._before_run)
        atexit.register(self._at_exit)

    def end(self, cell: str | None) -> None:
        """Stop the servers that a cell made. What they raise is logged, since the cell that could show it is over."""
        for server in self.servers.pop(cell, ()):
            try:
                server.stop()
            except Exception as error:
                log.warning("%r: %s", server, error)

    def _before_run(self, info: Any) -> None:
        if info.cell_id is not None:
            self.end(info.cell_id)

    def _at_exit(self) -> None:
        for cell in list(self.servers):
            self.end(cell)


@cache
def _cells_of(shell: Any) -> _Cells:
    return _Cells(shell)


def _notebook_shell() -> Any:
    """Return IPython's shell in a kernel. Raises ReactorError elsewhere."""
    shell = None
    with suppress(ImportError):
        from IPython import get_ipython

        shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        raise ReactorError("show() needs a Jupyter notebook; a program calls run(Model), or uses RuntimeHost")
    return shell


def _text(text: str) -> dict[str, str]:
    """An output of plain text, for `display(..., raw=True)`."""
    return {"text/plain": text}
