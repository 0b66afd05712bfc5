"""What waits while a party stands still: how many things, how many bytes, and their bound.

`QUEUES` has bounds of the table *Queues* in `docs/contribute/limits-and-queues.md`. `Watch` finds the objects that have
these queues, and looks into them by the names in that table. So the program needs nothing for it.
"""

from __future__ import annotations

import gc
import importlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
import trio

from reactor_trio.crossing.message_flow import MESSAGES
from reactor_trio.media.device_frames import DeviceFrames
from reactor_trio.pacing.playout_forecast import MOST_UNSHOWN
from reactor_trio.session.command_ledger import MOST_JSON

MIB = 1024 * 1024
#: `limits.input_bytes` of the cells
INPUT_BYTES = 8 * MIB
#: bytes of a frame of the cells' models
FRAME = 512 * 512 * 3


def size(value: Any) -> int:
    """The bytes of what a queue keeps: arrays, texts and bytes, however deep they lie in what is only data."""
    match value:
        case np.ndarray():
            return value.nbytes
        case DeviceFrames():
            return value.nbytes
        case str():
            return sys.getsizeof(value)
        case bytes() | bytearray():
            return len(value)
        case memoryview():
            return value.nbytes
        case Mapping():
            return sum(size(key) + size(one) for key, one in value.items())
        case partial():
            return size(value.args)
        case msgspec.Struct():
            return sum(size(getattr(value, name)) for name in value.__struct_fields__)
        case _ if is_dataclass(value) and not hasattr(value, "__dict__"):  # a frozen record, no object of the program
            return sum(size(getattr(value, each.name)) for each in fields(value))
        case Iterable():
            return sum(map(size, value))
    return 0


def json(commands: Iterable[Any]) -> int:
    """The JSON of commands."""
    return sum(len(command.data) for command in commands)


def of_tracks(tracks: Mapping[str, Any]) -> list[Any]:
    """The frames that wait for a model, of its tracks together (here it has one)."""
    return [frame for queue, _buffer in tracks.values() for _session, frame in queue]


@dataclass(frozen=True)
class Bound:
    """What a queue may keep.

    Attributes:
        items, bytes: at most; infinity if the other one bounds it.
        over: bytes by which the last item may exceed the bound.
        look: what of the attribute counts.
        measure: how many bytes that has.
        elsewhere: a test that reaches the bound, if no cell does.
    """

    items: float = math.inf
    bytes: float = math.inf
    over: int = 0
    look: Callable[[Any], Any] = lambda kept: kept
    measure: Callable[[Any], int] = size
    elsewhere: str = ""


QUEUES = {
    "session.command_ledger:CommandLedger._commands": Bound(1024, MOST_JSON, measure=json),
    "session.command_preparation:CommandPreparer._waiting": Bound(
        255, MOST_JSON, look=lambda kept: [command for command, _ in kept], measure=json  # and one that is prepared now
    ),
    "execution.command_queue:CommandQueue._groups": Bound(
        256, MOST_JSON, look=dict.values, measure=lambda kept: sum(map(json, kept))
    ),
    "connection.media_receiver:MediaReceiver._waiting": Bound(8, 8 * 4 * MIB),
    "execution.input_queue:InputQueue._tracks": Bound(
        128, INPUT_BYTES // 2, FRAME, of_tracks,
        elsewhere="tests/execution/test_input_queue.py::test_waiting_input_of_a_track_is_bounded_in_bytes_in_each_queue",
    ),
    "interface.input_buffer:InputBuffer._frames": Bound(128, INPUT_BYTES // 2),
    "crossing.input_lanes:_Lane.waiting": Bound(128, INPUT_BYTES // 2, FRAME),
    "session.playout:Playout._queue": Bound(bytes=MOST_UNSHOWN, over=2 * FRAME),
    "pacing.playout_forecast:PlayoutForecast._queued": Bound(
        bytes=MOST_UNSHOWN, over=2 * FRAME, measure=lambda kept: sum(each[3] for each in kept)
    ),
    "crossing.local_channel:LocalEnd._came": Bound(
        MESSAGES.items + MOST_UNSHOWN // FRAME + 256 + 64, MOST_UNSHOWN, over=32 * MIB
    ),
    "connection.text_queue:TextQueue._texts": Bound(
        1024, 16 * MIB, 128 * 1024, lambda kept: [text for text, _ in kept]
    ),
    "connection.message_log:MessageLog._kept": Bound(1024, 4 * MIB, over=128 * 1024),
    "connection.down_track:DownTrack._queue": Bound(6),
    "connection.sound_queue:SoundQueue._blocks": Bound(128),
    "recording.recorder:Recorder._queue": Bound(
        1024, 64 * MIB, look=lambda kept: [job for job in kept if job.kind == "packet"]
    ),
    "server.tracing:Tracing._pending": Bound(
        256, look=lambda kept: [record for each in kept.values() for record in each],
        elsewhere="tests/behaviour/test_tracing.py::test_commands_that_wait_for_a_picture_are_bounded",
    ),
    "gate.allocation:Allocation._pending": Bound(16),
    "gate.allocation:Allocation._requests": Bound(16),
    "admission.slots:Admission._waiting": Bound(16),
}


class Watch:
    """Looks at the queues of all objects there are, and remembers the most that each has kept.

    `bounds` hold instead of those of `QUEUES`.
    """

    def __init__(self) -> None:
        gc.collect()  # what earlier tests have left
        self.bounds = dict(QUEUES)
        self.most: dict[str, tuple[int, int]] = {}

    def look(self) -> None:
        """Look at all queues now. Raises AssertionError for one that is over its bound."""
        owners: dict[type, list[str]] = {}
        for where in QUEUES:
            module, _, attribute = where.partition(":")
            owner = getattr(importlib.import_module(f"reactor_trio.{module}"), attribute.partition(".")[0])
            owners.setdefault(owner, []).append(where)
        for found in gc.get_objects():
            for where in owners.get(type(found), ()):
                bound = self.bounds[where]
                attribute = getattr(found, where.rpartition(".")[2])
                if isinstance(attribute, trio.MemoryReceiveChannel):
                    attribute = attribute._state.data  # its statistics only count
                kept = bound.look(attribute)
                items, kept_bytes = len(kept), bound.measure(kept)
                assert items <= bound.items, f"{where} has {items} items"
                assert kept_bytes <= bound.bytes + bound.over, f"{where} has {kept_bytes / MIB:.1f} MiB"
                most = self.most.get(where, (0, 0))
                self.most[where] = max(most[0], items), max(most[1], kept_bytes)

    def reached(self, where: str) -> bool:
        """Whether one bound of a queue was reached, but for what one more item has."""
        bound, (items, kept) = self.bounds[where], self.most.get(where, (0, 0))
        return items >= bound.items or kept >= 0.8 * bound.bytes
