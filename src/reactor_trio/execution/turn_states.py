"""The life of a turn of one session, as a table: `SharedTurn` enters its events (`turns`)."""

from __future__ import annotations

import enum
from typing import Literal


class TurnState(enum.IntEnum):
    """Where the turn of a session is. Its numbers only make it cheaper as a key of `TRANSITIONS`."""

    IDLE = enum.auto()  # no task of the session wants it
    ASKING = enum.auto()  # tasks of the session wait for it
    HELD = enum.auto()  # a task of the session has it, until that task waits for something
    KEPT = enum.auto()  # that task computes what it awaits, so it has the turn until that is done


#: What happens to a turn. wanted: a task begins to wait for it; unwanted: the last task that waited is cancelled; granted:
#: the task that has waited for the longest time gets it; rests: that task waits for something, or is done; passes: the
#: same, while other tasks wait for a turn of their own; computes, computed: it begins to await what computes, or has it;
#: over: the session is over.
TurnEvent = Literal["wanted", "unwanted", "granted", "rests", "passes", "computes", "computed", "over"]

#: What follows. ask, withdraw: the session wants a turn, or none any more; begin, end: of the time for which it pays;
#: next: the turns of other sessions may begin; forget: what it has used; release: tasks that wait go on without a turn.
TurnAction = Literal["ask", "withdraw", "begin", "end", "next", "forget", "release"]

_IDLE, _ASKING, _HELD, _KEPT = TurnState

#: state -> event -> the next state, and what is done then. An event that a state does not name cannot happen in it.
TRANSITIONS: dict[TurnState, dict[TurnEvent, tuple[TurnState, tuple[TurnAction, ...]]]] = {
    _IDLE: {"wanted": (_ASKING, ("ask",)), "over": (_IDLE, ("forget",))},
    _ASKING: {
        "wanted": (_ASKING, ()), "unwanted": (_IDLE, ("withdraw",)),
        "granted": (_HELD, ("begin",)),
        "over": (_IDLE, ("withdraw", "forget", "release")),
    },
    _HELD: {
        "wanted": (_HELD, ()), "unwanted": (_HELD, ()),
        "rests": (_IDLE, ("end", "next")), "passes": (_ASKING, ("end", "ask", "next")), "computes": (_KEPT, ()),
        "over": (_IDLE, ("end", "forget", "release", "next")),
    },
    _KEPT: {
        "wanted": (_KEPT, ()), "unwanted": (_KEPT, ()),
        "rests": (_KEPT, ()), "passes": (_KEPT, ()), "computed": (_HELD, ()),
        "over": (_IDLE, ("end", "forget", "release", "next")),
    },
}  # fmt: skip
