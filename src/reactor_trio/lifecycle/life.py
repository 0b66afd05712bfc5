"""`SessionLife`: which hook of a session is called when, and what else is made, opened, closed and dropped, in order.

    NEW --> MAKING --> STARTING --> GREETING --> LIVE --> LEAVING --> ENDING --> CLOSED
               |           |            '------------------^           ^
               '-----------'-------------------------------------------'    what had not begun need not end

A restart closes what the driver has open, and so does what then puts another world, as a rewind:

    LIVE --> RESTARTING --> LIVE

A fresh restart ends all that the session has begun, and begins it again:

    LIVE --> RESTART_LEAVING --> RESTART_ENDING --> RESTART_MAKING --> RESTART_STARTING --> RESTART_GREETING --> LIVE
                    |                  |                  |                   |                    |
                 LEAVING             ENDING             ENDING             LEAVING              LEAVING   if the session ends

The code that runs a session reports what has happened (`Event`), and performs the actions that follow, one after the other:
`execution.session_tasks` for a served session, whose client may leave in any state, and `offline.executor` for a session
that a program steps by plain calls. What each action does is in `execution.performer`. Of a model on several ranks, rank 0
has the life, and the other ranks perform the actions that rank 0 sends.

A served session has two tasks. The driver's task reports a restart with what follows (`RESTARTS`), and `DRIVER_ENDED`; the
other task reports the rest. So a client may leave while a restart is under way. Then `END_STEP` waits for what runs of it,
and the restart goes no further. Hooks come in pairs: each state of a restart has its own row for `LEFT`, which repeats no
hook of an end, and calls none whose begin has not been called.

When the client has left, no input frame comes any more. What `END_STEP` waits for may wait for one, so the input tracks are
closed first wherever something may run: in a restart, and in each state of a session whose steps are whole. Elsewhere
`@disconnected` comes first, because closing the tracks ends a generator that reads.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class State(enum.IntEnum):
    """Where a session is in its life. From `LEAVING` on it is over: it makes no output and takes no command."""

    #: author code has not seen the session
    NEW = enum.auto()
    #: the session's copy of the model and its state are made
    MAKING = enum.auto()
    #: `@session_started` runs
    STARTING = enum.auto()
    #: `connected` is set, `@connected` runs
    GREETING = enum.auto()
    #: the driver moves author code along
    LIVE = enum.auto()
    #: a restart that keeps the state, or a put of another world: the driver closes what is open
    RESTARTING = enum.auto()
    #: a fresh restart: `connected` is cleared, `@disconnected` runs, the driver closes what is open
    RESTART_LEAVING = enum.auto()
    #: a fresh restart: `@session_ended` runs
    RESTART_ENDING = enum.auto()
    #: a fresh restart: the new state is made
    RESTART_MAKING = enum.auto()
    #: a fresh restart: `@session_started` runs
    RESTART_STARTING = enum.auto()
    #: a fresh restart: `connected` is set, `@connected` runs
    RESTART_GREETING = enum.auto()
    #: `connected` is cleared, `@disconnected` runs, the driver closes what is open
    LEAVING = enum.auto()
    #: `@session_ended` runs, or has run in a restart
    ENDING = enum.auto()
    #: the model has let go of the session
    CLOSED = enum.auto()


class Event(enum.Enum):
    """What has happened to a session."""

    #: the session has got the model
    BEGUN = enum.auto()
    #: the copy of the model and the state are there
    MADE = enum.auto()
    #: `@session_started` has returned
    STARTED = enum.auto()
    #: `@connected` has returned
    GREETED = enum.auto()
    #: the client wants the generator made again
    RESTART = enum.auto()
    #: the client wants all made again, as for another session
    RESTART_FRESH = enum.auto()
    #: the client wants to go on from another world: of an earlier moment, or one that was saved
    PUT = enum.auto()
    #: author code that the driver moved along has ended by itself, or was stopped
    DRIVER_ENDED = enum.auto()
    #: the client has left, or author code has ended the session: there is no client for the model any more
    LEFT = enum.auto()
    #: all that the session had begun has ended; what a restart closes is closed
    UNWOUND = enum.auto()
    #: `@session_ended` has returned
    ENDED = enum.auto()


class Action(enum.Enum):
    """What is to be done. The value of a hook is its kind, see `HOOKS`."""

    #: make the session's own copy of the model, if it has one
    COPY_MODEL = "copy_model"
    MAKE_STATE = "make_state"
    SESSION_STARTED = "session_started"
    SET_CONNECTED = "set_connected"
    #: report the values of the settings to the clients
    TELL_VALUES = "tell_values"
    CONNECTED = "connected"
    #: let the driver move author code along, in a task of its own
    DRIVE = "drive"
    #: drop the output that is queued
    FLUSH = "flush"
    #: put another world, call `@restored`, and drop the output that is queued
    PUT_WORLD = "put_world"
    CLEAR_CONNECTED = "clear_connected"
    #: queue no more output
    CLOSE_OUTPUT = "close_output"
    #: wait until no step runs, where that can be waited for, and nothing of a restart
    END_STEP = "end_step"
    DISCONNECTED = "disconnected"
    #: a read of an input track raises BufferClosed from now on
    CLOSE_INPUTS = "close_inputs"
    #: stop the driver's task
    END_DRIVER = "end_driver"
    #: close what the driver has open, in the driver's task: a generator
    CLOSE_DRIVER = "close_driver"
    SESSION_ENDED = "session_ended"
    #: drop the state, and give back the model, its rate and the turn
    RELEASE = "release"


#: the actions that call a hook of the author
HOOKS: Final = frozenset({Action.SESSION_STARTED, Action.CONNECTED, Action.DISCONNECTED, Action.SESSION_ENDED})

Next = tuple[State, tuple[Action, ...]]
Row = dict[Event, Next]

#: the end of a session to which `@connected` has been called
_LEAVING: Final[Next] = State.LEAVING, (
    Action.CLEAR_CONNECTED, Action.CLOSE_OUTPUT, Action.END_STEP, Action.DISCONNECTED,
    Action.CLOSE_INPUTS,  # before the driver: a generator in `read` ends by BufferClosed, not by Cancelled
    Action.END_DRIVER,
)  # fmt: skip
#: the same where what `END_STEP` waits for may wait for an input frame
_LEAVING_BUSY: Final[Next] = State.LEAVING, (
    Action.CLEAR_CONNECTED, Action.CLOSE_OUTPUT, Action.CLOSE_INPUTS, Action.END_STEP, Action.DISCONNECTED,
    Action.END_DRIVER,
)  # fmt: skip
#: the actions in a restart in which `@disconnected` has been called
_DISCONNECTED: Final = (Action.CLOSE_OUTPUT, Action.CLOSE_INPUTS, Action.END_STEP, Action.END_DRIVER)


def _with_driver(state: State, row: Row) -> Row:
    """The row of a state in which the driver's task runs, whose end does not change it."""
    return row | {Event.DRIVER_ENDED: (state, (Action.CLOSE_DRIVER,))}


#: state -> event -> next state, and what is to be done in it. What is not here cannot happen.
TABLE: Final[Mapping[State, Row]] = MappingProxyType({
    State.NEW: {Event.BEGUN: (State.MAKING, (Action.COPY_MODEL, Action.MAKE_STATE))},
    State.MAKING: {
        Event.MADE: (State.STARTING, (Action.SESSION_STARTED,)),
        Event.UNWOUND: (State.ENDING, (Action.CLOSE_OUTPUT, Action.CLOSE_INPUTS)),
    },
    State.STARTING: {
        Event.STARTED: (State.GREETING, (Action.SET_CONNECTED, Action.TELL_VALUES, Action.CONNECTED)),
        Event.UNWOUND: (State.ENDING, (Action.CLOSE_OUTPUT, Action.CLOSE_INPUTS, Action.SESSION_ENDED)),
    },
    State.GREETING: {
        Event.GREETED: (State.LIVE, (Action.TELL_VALUES, Action.DRIVE)),
        Event.LEFT: _LEAVING,
    },
    State.LIVE: _with_driver(State.LIVE, {
        Event.RESTART: (State.RESTARTING, (Action.FLUSH, Action.CLOSE_DRIVER)),
        Event.RESTART_FRESH: (
            State.RESTART_LEAVING, (Action.FLUSH, Action.CLEAR_CONNECTED, Action.DISCONNECTED, Action.CLOSE_DRIVER),
        ),
        # The output that is queued stays until the world is there: if it cannot be put back, nothing has changed.
        Event.PUT: (State.RESTARTING, (Action.CLOSE_DRIVER, Action.PUT_WORLD)),
        Event.LEFT: _LEAVING,
    }),
    State.RESTARTING: _with_driver(State.RESTARTING, {
        Event.UNWOUND: (State.LIVE, ()),
        Event.LEFT: _LEAVING_BUSY,
    }),
    State.RESTART_LEAVING: _with_driver(State.RESTART_LEAVING, {
        Event.UNWOUND: (State.RESTART_ENDING, (Action.SESSION_ENDED,)),
        Event.LEFT: (State.LEAVING, _DISCONNECTED),
    }),
    State.RESTART_ENDING: _with_driver(State.RESTART_ENDING, {
        Event.ENDED: (State.RESTART_MAKING, (Action.MAKE_STATE,)),
        Event.LEFT: (State.ENDING, _DISCONNECTED),
    }),
    State.RESTART_MAKING: _with_driver(State.RESTART_MAKING, {
        Event.MADE: (State.RESTART_STARTING, (Action.SESSION_STARTED,)),
        Event.LEFT: (State.ENDING, _DISCONNECTED),
    }),
    State.RESTART_STARTING: _with_driver(State.RESTART_STARTING, {
        Event.STARTED: (State.RESTART_GREETING, (Action.SET_CONNECTED, Action.CONNECTED)),
        Event.LEFT: (State.LEAVING, _DISCONNECTED),
    }),
    State.RESTART_GREETING: _with_driver(State.RESTART_GREETING, {
        Event.GREETED: (State.LIVE, ()),
        Event.LEFT: _LEAVING_BUSY,
    }),
    State.LEAVING: _with_driver(State.LEAVING, {Event.UNWOUND: (State.ENDING, (Action.SESSION_ENDED,))}),
    State.ENDING: _with_driver(State.ENDING, {
        Event.UNWOUND: (State.ENDING, ()),  # after a restart that had called `@session_ended`
        Event.ENDED: (State.CLOSED, (Action.RELEASE,)),
    }),
    State.CLOSED: {},
})  # fmt: skip

#: the same for a session whose steps are whole: its hooks wait for the end of a step
TABLE_OF_WHOLE_STEPS: Final = MappingProxyType({
    **TABLE,
    State.GREETING: TABLE[State.GREETING] | {Event.LEFT: _LEAVING_BUSY},
    State.LIVE: TABLE[State.LIVE] | {Event.LEFT: _LEAVING_BUSY},
})  # fmt: skip

#: the events of each restart, while the session goes on
RESTARTS: Final[Mapping[Event, tuple[Event, ...]]] = MappingProxyType({
    Event.RESTART: (Event.RESTART, Event.UNWOUND),
    Event.PUT: (Event.PUT, Event.UNWOUND),
    Event.RESTART_FRESH: (
        Event.RESTART_FRESH, Event.UNWOUND, Event.ENDED, Event.MADE, Event.STARTED, Event.GREETED,
    ),
})  # fmt: skip


class SessionLife:
    """The life of one session.

    Attributes:
        state: where the session is. Any thread may read it.
        whole_steps: whether its hooks wait for the end of a step, also where author code awaits something. To be set before
            the client can leave.
    """

    def __init__(self, *, whole_steps: bool = False) -> None:
        self.state = State.NEW
        self.whole_steps = whole_steps

    def event(self, event: Event) -> tuple[Action, ...]:
        """Note what has happened; returns what is to be done, in order. Raises RuntimeError if that cannot happen now."""
        row = (TABLE_OF_WHOLE_STEPS if self.whole_steps else TABLE)[self.state]
        if event not in row:
            raise RuntimeError(f"{event.name} cannot happen to a session that is {self.state.name}")
        self.state, actions = row[event]
        return actions
