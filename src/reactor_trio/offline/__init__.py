"""Runs a model without clients, sockets or pacing: into a film, for a program, or as a recorded session went.

    render -> Rendering                  on the I/O loop: hands out bundles, and waits until they are taken
                |- DrivenSession         on the model loop; its commands come from a ScriptQueue
                '- FilmRoom              the time of the film, and its room for bundles
    read_script, read_recording -> the commands that the session gives to the model, and when
    write -> FilmWriter, PictureFolder
    replay -> Verification               compares the frames of a rendering with the digests of a recording
"""

from reactor_trio.offline.film_files import Summary as Summary
from reactor_trio.offline.film_files import render_to as render_to
from reactor_trio.offline.film_files import write as write
from reactor_trio.offline.open_rendering import render as render
from reactor_trio.offline.open_rendering import rendered as rendered
from reactor_trio.offline.recorded_session import Recording as Recording
from reactor_trio.offline.recorded_session import read_recording as read_recording
from reactor_trio.offline.rendering import RenderedBundle as RenderedBundle
from reactor_trio.offline.rendering import Rendering as Rendering
from reactor_trio.offline.replay import Replay as Replay
from reactor_trio.offline.replay import Verification as Verification
from reactor_trio.offline.replay import replay as replay
from reactor_trio.offline.script import Script as Script
from reactor_trio.offline.script import ScriptCommand as ScriptCommand
from reactor_trio.offline.script import ScriptError as ScriptError
from reactor_trio.offline.script import read_script as read_script
