"""The author API: every name that a model author imports, `from reactor_trio.interface import ...`."""

import importlib
import typing

from reactor_trio.errors import BufferClosed as BufferClosed
from reactor_trio.errors import CommandError as CommandError
from reactor_trio.errors import DeclarationError as DeclarationError
from reactor_trio.errors import OutputError as OutputError
from reactor_trio.interface.app import ReactorApp as ReactorApp
from reactor_trio.interface.blocking_tracks import AudioIn as AudioIn
from reactor_trio.interface.blocking_tracks import AudioOut as AudioOut
from reactor_trio.interface.blocking_tracks import VideoIn as VideoIn
from reactor_trio.interface.blocking_tracks import VideoOut as VideoOut
from reactor_trio.interface.context import get_ctx as get_ctx
from reactor_trio.interface.distributed import DistributedPipeline as DistributedPipeline
from reactor_trio.interface.events import connected as connected
from reactor_trio.interface.events import disconnected as disconnected
from reactor_trio.interface.events import event as event
from reactor_trio.interface.events import file_uploaded as file_uploaded
from reactor_trio.interface.events import session_ended as session_ended
from reactor_trio.interface.events import session_started as session_started
from reactor_trio.interface.files import UploadedFile as UploadedFile
from reactor_trio.interface.input_buffer import InputBuffer as InputBuffer
from reactor_trio.interface.input_buffer import InputFrame as InputFrame
from reactor_trio.interface.input_buffer import ReadMode as ReadMode
from reactor_trio.interface.input_field import FieldInfo as FieldInfo
from reactor_trio.interface.input_field import InputField as InputField
from reactor_trio.interface.manifest_files import get_weights_path as get_weights_path
from reactor_trio.interface.messages import ClientInfo as ClientInfo
from reactor_trio.interface.messages import MessageField as MessageField
from reactor_trio.interface.messages import ModelMessage as ModelMessage
from reactor_trio.interface.model import Idle as Idle
from reactor_trio.interface.model import OutputBuffer as OutputBuffer
from reactor_trio.interface.model import ReactorModel as ReactorModel
from reactor_trio.interface.model import ReactorPipeline as ReactorPipeline
from reactor_trio.interface.output_stream import OutputStream as OutputStream
from reactor_trio.interface.profiling import get_profiler as get_profiler
from reactor_trio.interface.progress import progress as progress
from reactor_trio.interface.registries import EVENT_REGISTRY as EVENT_REGISTRY
from reactor_trio.interface.registries import INPUT_REGISTRY as INPUT_REGISTRY
from reactor_trio.interface.registries import MESSAGE_REGISTRY as MESSAGE_REGISTRY
from reactor_trio.interface.registries import OUTPUT_REGISTRY as OUTPUT_REGISTRY
from reactor_trio.interface.registries import Connected as Connected
from reactor_trio.interface.registries import Disconnected as Disconnected
from reactor_trio.interface.registries import Event as Event
from reactor_trio.interface.registries import FileUploaded as FileUploaded
from reactor_trio.interface.registries import all_input_tracks as all_input_tracks
from reactor_trio.interface.registries import all_output_tracks as all_output_tracks
from reactor_trio.interface.saving import Moment as Moment
from reactor_trio.interface.saving import Saves as Saves
from reactor_trio.interface.saving import restored as restored
from reactor_trio.interface.saving import saving as saving
from reactor_trio.interface.state import InputState as InputState
from reactor_trio.interface.steps import ApplicationError as ApplicationError
from reactor_trio.interface.steps import StepCompleted as StepCompleted
from reactor_trio.interface.steps import StepOutcome as StepOutcome
from reactor_trio.interface.tensors import to_frames as to_frames
from reactor_trio.interface.tracks import Audio as Audio
from reactor_trio.interface.tracks import Input as Input
from reactor_trio.interface.tracks import Metadata as Metadata
from reactor_trio.interface.tracks import Output as Output
from reactor_trio.interface.tracks import Track as Track
from reactor_trio.interface.tracks import TrackPayload as TrackPayload
from reactor_trio.interface.tracks import Video as Video
from reactor_trio.interface.video_model import VideoModel as VideoModel
from reactor_trio.interface.video_model import command as command
from reactor_trio.interface.video_model import model as model

#: Reactor 3.x's name for `Input`
MediaInput = Input

#: Reactor 3.x's name for `Event`
Command = Event

#: Reactor 2.x's name for the base class of `ReactorModel`; here the two are one class
ReactorCore = ReactorModel

if not typing.TYPE_CHECKING:

    def __getattr__(name):
        """Import the executor on first use: Reactor 2.x has it here, but ours is in the test kit, a layer above this one."""
        if name in ("PipelineExecutor", "StepResult"):
            return getattr(importlib.import_module("reactor_trio.testing"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
