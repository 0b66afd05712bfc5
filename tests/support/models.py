"""The small parts of models that many tests share: tracks and messages.

A test that is about a declaration itself declares its own. A model that another process imports from a folder of its own
(`adder.py`, `painter.py`) must not import this module.
"""

from __future__ import annotations

from reactor_trio.interface import Audio, Input, ModelMessage, Output, Video


class Picture(Output):
    main_video: Video


class Main(Output):
    main: Video


class Camera(Input):
    camera: Video


class Webcam(Input):
    camera: Video
    microphone: Audio


class Said(ModelMessage):
    text: str


class Note(ModelMessage):
    text: str
