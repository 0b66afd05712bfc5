"""The table of a session's life: what follows from each event in each state, and the orders that the docs promise."""

from __future__ import annotations

import itertools

import pytest

from reactor_trio.interface.events import HOOKS as HOOKS_OF_AUTHORS
from reactor_trio.lifecycle import HOOKS, RESTARTS, TABLE, TABLE_OF_WHOLE_STEPS, Action, Event, SessionLife, State

WAY = [Event.BEGUN, Event.MADE, Event.STARTED, Event.GREETED]  # to a live session

#: how far a session came -> the events of its end
ENDS = {
    1: [Event.UNWOUND, Event.ENDED],
    2: [Event.UNWOUND, Event.ENDED],
    3: [Event.LEFT, Event.UNWOUND, Event.ENDED],
    4: [Event.LEFT, Event.DRIVER_ENDED, Event.UNWOUND, Event.ENDED],
}

FRESH_RESTART = RESTARTS[Event.RESTART_FRESH][1:]

#: every state and event: the next state and the actions; what is not here cannot happen
EXPECTED = {
    ("NEW", "BEGUN"): ("MAKING", "copy_model make_state"),
    ("MAKING", "MADE"): ("STARTING", "session_started"),
    ("MAKING", "UNWOUND"): ("ENDING", "close_output close_inputs"),
    ("STARTING", "STARTED"): ("GREETING", "set_connected tell_values connected"),
    ("STARTING", "UNWOUND"): ("ENDING", "close_output close_inputs session_ended"),
    ("GREETING", "GREETED"): ("LIVE", "tell_values drive"),
    ("GREETING", "LEFT"): ("LEAVING", "clear_connected close_output end_step disconnected close_inputs end_driver"),
    ("LIVE", "DRIVER_ENDED"): ("LIVE", "close_driver"),
    ("LIVE", "RESTART"): ("RESTARTING", "flush close_driver"),
    ("LIVE", "PUT"): ("RESTARTING", "close_driver put_world"),
    ("LIVE", "RESTART_FRESH"): ("RESTART_LEAVING", "flush clear_connected disconnected close_driver"),
    ("LIVE", "LEFT"): ("LEAVING", "clear_connected close_output end_step disconnected close_inputs end_driver"),
    ("RESTARTING", "UNWOUND"): ("LIVE", ""),
    ("RESTARTING", "DRIVER_ENDED"): ("RESTARTING", "close_driver"),
    ("RESTARTING", "LEFT"): ("LEAVING", "clear_connected close_output close_inputs end_step disconnected end_driver"),
    ("RESTART_LEAVING", "UNWOUND"): ("RESTART_ENDING", "session_ended"),
    ("RESTART_LEAVING", "DRIVER_ENDED"): ("RESTART_LEAVING", "close_driver"),
    ("RESTART_LEAVING", "LEFT"): ("LEAVING", "close_output close_inputs end_step end_driver"),
    ("RESTART_ENDING", "ENDED"): ("RESTART_MAKING", "make_state"),
    ("RESTART_ENDING", "DRIVER_ENDED"): ("RESTART_ENDING", "close_driver"),
    ("RESTART_ENDING", "LEFT"): ("ENDING", "close_output close_inputs end_step end_driver"),
    ("RESTART_MAKING", "MADE"): ("RESTART_STARTING", "session_started"),
    ("RESTART_MAKING", "DRIVER_ENDED"): ("RESTART_MAKING", "close_driver"),
    ("RESTART_MAKING", "LEFT"): ("ENDING", "close_output close_inputs end_step end_driver"),
    ("RESTART_STARTING", "STARTED"): ("RESTART_GREETING", "set_connected connected"),
    ("RESTART_STARTING", "DRIVER_ENDED"): ("RESTART_STARTING", "close_driver"),
    ("RESTART_STARTING", "LEFT"): ("LEAVING", "close_output close_inputs end_step end_driver"),
    ("RESTART_GREETING", "GREETED"): ("LIVE", ""),
    ("RESTART_GREETING", "DRIVER_ENDED"): ("RESTART_GREETING", "close_driver"),
    ("RESTART_GREETING", "LEFT"): ("LEAVING", "clear_connected close_output close_inputs end_step disconnected end_driver"),
    ("LEAVING", "DRIVER_ENDED"): ("LEAVING", "close_driver"),
    ("LEAVING", "UNWOUND"): ("ENDING", "session_ended"),
    ("ENDING", "DRIVER_ENDED"): ("ENDING", "close_driver"),
    ("ENDING", "UNWOUND"): ("ENDING", ""),
    ("ENDING", "ENDED"): ("CLOSED", "release"),
}  # fmt: skip


#: the same for a session whose steps are whole, where that differs
EXPECTED_OF_WHOLE_STEPS = {
    ("GREETING", "LEFT"): ("LEAVING", "clear_connected close_output close_inputs end_step disconnected end_driver"),
    ("LIVE", "LEFT"): ("LEAVING", "clear_connected close_output close_inputs end_step disconnected end_driver"),
}


def after(events: list[Event]) -> tuple[SessionLife, list[str]]:
    """A life to which this has happened, and all that was to be done."""
    life = SessionLife()
    return life, [action.value for event in events for action in life.event(event)]


@pytest.mark.parametrize("whole_steps", [False, True])
@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)), ids=lambda value: value.name)
def test_every_event_in_every_state(state: State, event: Event, whole_steps: bool) -> None:
    life = SessionLife(whole_steps=whole_steps)
    life.state = state
    expected = EXPECTED | EXPECTED_OF_WHOLE_STEPS if whole_steps else EXPECTED
    if (state.name, event.name) not in expected:
        with pytest.raises(RuntimeError, match=f"^{event.name} cannot happen to a session that is {state.name}$"):
            life.event(event)
        assert life.state is state
        return
    following, actions = expected[state.name, event.name]
    assert " ".join(action.value for action in life.event(event)) == actions
    assert life.state is State[following]


def test_every_state_is_reached_and_every_action_is_used() -> None:
    rows = [row for states in TABLE.values() for row in states.values()]
    assert {state for state, _ in rows} | {State.NEW} == set(State)
    assert {action for _, actions in rows for action in actions} == set(Action)
    assert set(TABLE) == set(TABLE_OF_WHOLE_STEPS) == set(State)


def test_a_hook_is_one_that_authors_have() -> None:
    assert {action.value for action in HOOKS} == set(HOOKS_OF_AUTHORS) - {"file_uploaded"}


def test_the_order_at_connect() -> None:
    """Fresh state, @session_started, `connected`, @connected, the generator, as steps.md and design.md say."""
    _, done = after(WAY)
    assert done == [
        "copy_model", "make_state", "session_started", "set_connected", "tell_values", "connected", "tell_values", "drive",
    ]  # fmt: skip


def test_the_order_at_the_end() -> None:
    """cancellation.md, *The order at the end*; steps.md: @session_ended after everything else."""
    life, begun = after(WAY)
    end = [action.value for event in ENDS[4] for action in life.event(event)]
    assert begun.count("session_started") == 1
    assert end == [
        "clear_connected", "close_output", "end_step", "disconnected", "close_inputs", "end_driver", "close_driver",
        "session_ended", "release",
    ]  # fmt: skip


def test_a_driver_that_ends_by_itself_is_closed_before_any_hook_of_the_end() -> None:
    _, done = after([*WAY, Event.DRIVER_ENDED, Event.LEFT])
    assert done.index("close_driver") < done.index("disconnected")


@pytest.mark.parametrize("came", ENDS)
def test_hooks_come_in_pairs_and_the_state_outlives_them_wherever_a_session_ends(came: int) -> None:
    life, done = after([*WAY[:came], *ENDS[came]])
    assert life.state is State.CLOSED
    assert done.count("session_started") == done.count("session_ended") == (came >= 2)
    assert done.count("connected") == done.count("disconnected") == (came >= 3)
    assert done[-1] == "release"
    assert done.index("make_state") < done.index("release")
    assert done.index("close_inputs") > 0
    assert done.index("close_output") > 0


def test_a_fresh_restart_is_the_end_of_a_session_and_the_begin_of_another() -> None:
    """docs/reference/runtime/transport.md: all hooks, in the order of a session's end and of the next one's begin."""
    life, done = after([*WAY, *RESTARTS[Event.RESTART_FRESH]])
    assert done[len(after(WAY)[1]) :] == [
        "flush", "clear_connected", "disconnected", "close_driver", "session_ended",
        "make_state", "session_started", "set_connected", "connected",
    ]  # fmt: skip
    assert life.state is State.LIVE


@pytest.mark.parametrize("came", range(len(FRESH_RESTART) + 1))
@pytest.mark.parametrize("left_first", [True, False], ids=["the client leaves", "author code raises"])
def test_hooks_come_in_pairs_wherever_a_fresh_restart_ends(came: int, left_first: bool) -> None:
    end = [Event.LEFT, Event.DRIVER_ENDED] if left_first else [Event.DRIVER_ENDED, Event.LEFT]
    life, done = after([*WAY, Event.RESTART_FRESH, *FRESH_RESTART[:came], *end, *ENDS[4][2:]])
    assert life.state is State.CLOSED
    assert done.count("session_started") == done.count("session_ended") == (2 if came >= 3 else 1)
    assert done.count("connected") == done.count("disconnected") == (2 if came >= 4 else 1)
    assert [done.count(action) for action in ("close_output", "close_inputs", "end_driver", "release")] == [1, 1, 1, 1]
    if came >= 4:
        last = len(done) - 1 - done[::-1].index("disconnected")
        assert done.index("end_step") < last, "it waits for the hook that runs in the restart"


def test_a_restart_with_the_state_kept_calls_no_hook() -> None:
    life, done = after([*WAY, *RESTARTS[Event.RESTART]])
    assert done[len(after(WAY)[1]) :] == ["flush", "close_driver"]
    assert life.state is State.LIVE


def test_a_session_is_over_from_leaving_on() -> None:
    assert [state for state in State if state >= State.LEAVING] == [State.LEAVING, State.ENDING, State.CLOSED]
