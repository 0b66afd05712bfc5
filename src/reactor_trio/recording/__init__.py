"""A session as files: video and sound as they were sent, and a timeline of commands and messages.

    Recorder            queues packets and lines from an event loop, bounded; its owner writes them on a worker thread
      |- FileSeries     packets -> NAME.mp4, NAME-2.mp4, ...: decides which packet begins a file, and which is dropped
      |    '- MovieFile one file; `writers` turn each codec's packets into a container's packets
      '- Timeline       lines -> NAME.jsonl
"""

from reactor_trio.recording.containers import container_of as container_of
from reactor_trio.recording.movie import FileSeries as FileSeries
from reactor_trio.recording.recorder import Recorder as Recorder
from reactor_trio.recording.timeline import LONGEST_REFUSED as LONGEST_REFUSED
from reactor_trio.recording.timeline import command_line as command_line
from reactor_trio.recording.timeline import config_digest as config_digest
from reactor_trio.recording.timeline import cut_arguments as cut_arguments
from reactor_trio.recording.timeline import frame_digest as frame_digest
from reactor_trio.recording.timeline import frames_line as frames_line
from reactor_trio.recording.timeline import message_line as message_line
from reactor_trio.recording.timeline import saved_line as saved_line
from reactor_trio.recording.timeline import session_line as session_line
from reactor_trio.recording.timeline import track_line as track_line
from reactor_trio.recording.timeline import upload_line as upload_line
