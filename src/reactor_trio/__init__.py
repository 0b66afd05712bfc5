"""reactor-trio: a Trio runtime for real-time, interactive generative video models over one WebSocket port.

The package imports each name on first use. A program that is only a client imports neither the server nor Trio.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reactor_trio.cli.run_class import run as run
    from reactor_trio.concurrency import SessionOver as SessionOver
    from reactor_trio.configuration.reactor_config import ReactorConfig as ReactorConfig
    from reactor_trio.edge.tickets import issue_ticket as issue_ticket
    from reactor_trio.errors import *  # noqa: F403 - type checkers take star imports for re-exports
    from reactor_trio.execution.current_session import SessionFilter as SessionFilter
    from reactor_trio.execution.current_session import current_session as current_session
    from reactor_trio.interface import *  # noqa: F403
    from reactor_trio.log import get_logger as get_logger
    from reactor_trio.notebook.cell_server import CellServer as CellServer
    from reactor_trio.notebook.cell_server import show as show
    from reactor_trio.server.runtime_host import RuntimeHost as RuntimeHost
    from reactor_trio.server.serve import Serving as Serving
    from reactor_trio.server.serve import serve as serve

_NAMES = {
    "reactor_trio.cli.run_class": "run",
    "reactor_trio.concurrency": "SessionOver",
    "reactor_trio.configuration.reactor_config": "ReactorConfig",
    "reactor_trio.edge.tickets": "issue_ticket",
    "reactor_trio.errors":
        "BufferClosed CommandError ConnectionRefused DeclarationError ManifestError ModelFailed OutputError "
        "ProtocolError ReactorError SessionEnded UploadRefused",
    "reactor_trio.execution.current_session": "SessionFilter current_session",
    "reactor_trio.interface":
        "EVENT_REGISTRY INPUT_REGISTRY MESSAGE_REGISTRY OUTPUT_REGISTRY ApplicationError Audio AudioIn AudioOut ClientInfo "
        "Command Connected Disconnected DistributedPipeline Event FieldInfo FileUploaded Idle Input InputBuffer InputField "
        "InputFrame InputState MediaInput MessageField Metadata ModelMessage Moment Output OutputBuffer OutputStream "
        "ReactorApp ReactorCore ReactorModel ReactorPipeline ReadMode Saves StepCompleted StepOutcome Track TrackPayload "
        "UploadedFile Video VideoIn VideoModel VideoOut all_input_tracks all_output_tracks command connected disconnected "
        "event file_uploaded get_ctx get_profiler get_weights_path model progress restored saving session_ended "
        "session_started to_frames",
    "reactor_trio.log": "get_logger",
    "reactor_trio.notebook.cell_server": "CellServer show",
    "reactor_trio.server.runtime_host": "RuntimeHost",
    "reactor_trio.server.serve": "Serving serve",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__version__: str

if not TYPE_CHECKING:
    __all__ = list(_MODULE_OF)

    def __getattr__(name):
        """Import a public name on first use: those of `__all__`, the two executor names, two submodules, the version."""
        if name == "__version__":
            globals()[name] = version = _version()
            return version
        if name in ("interface", "errors"):
            return importlib.import_module(f"{__name__}.{name}")
        if name not in _MODULE_OF and name not in ("PipelineExecutor", "StepResult"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(importlib.import_module(_MODULE_OF.get(name, "reactor_trio.interface")), name)
        return value

    def _version():
        import importlib.metadata

        try:
            return importlib.metadata.version("reactor-trio")
        except importlib.metadata.PackageNotFoundError:  # the package runs from a checkout that is not installed
            return "0.0.0.dev"

    def __dir__():
        return sorted({*globals(), *__all__, "__version__"})
