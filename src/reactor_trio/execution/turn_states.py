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
#: the task that has waited for the longest time gets it; rests: that task waits for something, or is done; computes,
#: computed: it begins to await what computes, or has it; over: the session is over.
TurnEvent = Literal["wanted", "unwanted", "granted", "rests", "computes", "computed", "over"]

#: What follows: calls of `Turns`, and the begin and the end of the time for which the session pays.
TurnAction = Literal["ask", "withdraw", "begin", "end", "forget"]

_IDLE, _ASKING, _HELD, _KEPT = TurnState

#: state -> event -> the next state, and what is done then. An event that a state does not name cannot happen in it.
TRANSITIONS: dict[TurnState, dict[TurnEvent, tuple[TurnState, tuple[TurnAction, ...]]]] = {
    _IDLE: {"wanted": (_ASKING, ("ask",)), "over": (_IDLE, ("forget",))},
    _ASKING: {
        "wanted": (_ASKING, ()), "unwanted": (_IDLE, ("withdraw",)),
        "granted": (_HELD, ("begin",)), "over": (_IDLE, ("withdraw", "forget")),
    },
    _HELD: {
        "wanted": (_HELD, ()), "unwanted": (_HELD, ()),
        "rests": (_IDLE, ("end",)), "computes": (_KEPT, ()), "over": (_IDLE, ("end", "forget")),
    },
    _KEPT: {
        "wanted": (_KEPT, ()), "unwanted": (_KEPT, ()),
        "rests": (_KEPT, ()), "computed": (_HELD, ()), "over": (_IDLE, ("end", "forget")),
    },
}  # fmt: skip
