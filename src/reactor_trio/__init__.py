"""reactor-trio: a Trio runtime for real-time, interactive generative video models over one WebSocket port.

The package imports each name on first use. A program that is only a client imports neither the server nor Trio.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reactor_trio.concurrency import SessionOver as SessionOver
    from reactor_trio.configuration.reactor_config import ReactorConfig as ReactorConfig
    from reactor_trio.edge.tickets import issue_ticket as issue_ticket
    from reactor_trio.errors import BufferClosed as BufferClosed
    from reactor_trio.errors import CommandError as CommandError
    from reactor_trio.errors import ConnectionRefused as ConnectionRefused
    from reactor_trio.errors import DeclarationError as DeclarationError
    from reactor_trio.errors import ManifestError as ManifestError
    from reactor_trio.errors import ModelFailed as ModelFailed
    from reactor_trio.errors import OutputError as OutputError
    from reactor_trio.errors import ProtocolError as ProtocolError
    from reactor_trio.errors import ReactorError as ReactorError
    from reactor_trio.errors import SessionEnded as SessionEnded
    from reactor_trio.errors import UploadRefused as UploadRefused
    from reactor_trio.execution.session_log_filter import SessionFilter as SessionFilter
    from reactor_trio.execution.session_log_filter import current_session as current_session
    from reactor_trio.interface import EVENT_REGISTRY as EVENT_REGISTRY
    from reactor_trio.interface import INPUT_REGISTRY as INPUT_REGISTRY
    from reactor_trio.interface import MESSAGE_REGISTRY as MESSAGE_REGISTRY
    from reactor_trio.interface import OUTPUT_REGISTRY as OUTPUT_REGISTRY
    from reactor_trio.interface import Audio as Audio
    from reactor_trio.interface import AudioIn as AudioIn
    from reactor_trio.interface import AudioOut as AudioOut
    from reactor_trio.interface import ClientInfo as ClientInfo
    from reactor_trio.interface import Connected as Connected
    from reactor_trio.interface import Disconnected as Disconnected
    from reactor_trio.interface import DistributedPipeline as DistributedPipeline
    from reactor_trio.interface import Event as Event
    from reactor_trio.interface import FieldInfo as FieldInfo
    from reactor_trio.interface import FileUploaded as FileUploaded
    from reactor_trio.interface import Idle as Idle
    from reactor_trio.interface import Input as Input
    from reactor_trio.interface import InputBuffer as InputBuffer
    from reactor_trio.interface import InputField as InputField
    from reactor_trio.interface import InputFrame as InputFrame
    from reactor_trio.interface import InputState as InputState
    from reactor_trio.interface import MessageField as MessageField
    from reactor_trio.interface import ModelMessage as ModelMessage
    from reactor_trio.interface import Output as Output
    from reactor_trio.interface import OutputBuffer as OutputBuffer
    from reactor_trio.interface import ReactorCore as ReactorCore
    from reactor_trio.interface import ReactorModel as ReactorModel
    from reactor_trio.interface import ReactorPipeline as ReactorPipeline
    from reactor_trio.interface import ReadMode as ReadMode
    from reactor_trio.interface import UploadedFile as UploadedFile
    from reactor_trio.interface import Video as Video
    from reactor_trio.interface import VideoIn as VideoIn
    from reactor_trio.interface import VideoModel as VideoModel
    from reactor_trio.interface import VideoOut as VideoOut
    from reactor_trio.interface import all_input_tracks as all_input_tracks
    from reactor_trio.interface import all_output_tracks as all_output_tracks
    from reactor_trio.interface import command as command
    from reactor_trio.interface import connected as connected
    from reactor_trio.interface import disconnected as disconnected
    from reactor_trio.interface import event as event
    from reactor_trio.interface import file_uploaded as file_uploaded
    from reactor_trio.interface import get_ctx as get_ctx
    from reactor_trio.interface import get_profiler as get_profiler
    from reactor_trio.interface import get_weights_path as get_weights_path
    from reactor_trio.interface import model as model
    from reactor_trio.interface import to_frames as to_frames
    from reactor_trio.server.runtime_host import RuntimeHost as RuntimeHost
    from reactor_trio.server.serve import Serving as Serving
    from reactor_trio.server.serve import serve as serve

_NAMES = {
    "reactor_trio.concurrency": "SessionOver",
    "reactor_trio.configuration.reactor_config": "ReactorConfig",
    "reactor_trio.edge.tickets": "issue_ticket",
    "reactor_trio.errors":
        "BufferClosed CommandError ConnectionRefused DeclarationError ManifestError ModelFailed OutputError "
        "ProtocolError ReactorError SessionEnded UploadRefused",
    "reactor_trio.execution.session_log_filter": "SessionFilter current_session",
    "reactor_trio.interface":
        "EVENT_REGISTRY INPUT_REGISTRY MESSAGE_REGISTRY OUTPUT_REGISTRY Audio AudioIn AudioOut ClientInfo Connected "
        "Disconnected DistributedPipeline Event FieldInfo FileUploaded Idle Input InputBuffer InputField InputFrame "
        "InputState MessageField ModelMessage Output OutputBuffer ReactorCore ReactorModel ReactorPipeline ReadMode "
        "UploadedFile Video VideoIn VideoModel VideoOut all_input_tracks all_output_tracks command connected disconnected "
        "event file_uploaded get_ctx get_profiler get_weights_path model to_frames",
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
        value = getattr(importlib.import_module(_MODULE_OF.get(name, "reactor_trio.interface")), name)
        globals()[name] = value
        return value

    def _version():
        import importlib.metadata

        try:
            return importlib.metadata.version("reactor-trio")
        except importlib.metadata.PackageNotFoundError:  # the package runs from a checkout that is not installed
            return "0.0.0.dev"

    def __dir__():
        return sorted({*globals(), *__all__, "__version__"})
