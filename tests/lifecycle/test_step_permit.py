"""`StepPermit`: each state with each event, and what may happen in each state."""

from __future__ import annotations

import itertools

import pytest

from reactor_trio.lifecycle import OutputRule, StepPermit, Stepping, SteppingEvent

#: state -> (after PAUSE, RESUME, UNWATCH, WATCH)
EXPECTED = {
    "FREE": ("PAUSED", "FREE", "UNWATCHED", "FREE"),
    "PAUSED": ("PAUSED", "FREE", "PAUSED_UNWATCHED", "PAUSED"),
    "UNWATCHED": ("PAUSED_UNWATCHED", "UNWATCHED", "UNWATCHED", "FREE"),
    "PAUSED_UNWATCHED": ("PAUSED_UNWATCHED", "UNWATCHED", "PAUSED_UNWATCHED", "PAUSED"),
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(Stepping, SteppingEvent)), ids=lambda value: value.name)
def test_every_event_in_every_state(state: Stepping, event: SteppingEvent) -> None:
    assert state.after(event).name == EXPECTED[state.name][list(SteppingEvent).index(event)]
    assert state.paused == state.name.startswith("PAUSED")


def permit_after(*events: SteppingEvent, steps: int = 0) -> StepPermit:
    permit = StepPermit()
    for number, event in enumerate(events, 1):
        follow(permit, event, number)
    permit.allow(9, steps)
    return permit


def follow(permit: StepPermit, event: SteppingEvent, number: int) -> None:
    match event:
        case SteppingEvent.PAUSE:
            permit.pause(number)
        case SteppingEvent.RESUME:
            permit.resume(number)
        case _:
            permit.watch(event is SteppingEvent.WATCH)


@pytest.mark.parametrize(
    ("events", "steps", "may_begin", "output"),
    [
        ((), 0, True, OutputRule.ROOM),
        ((SteppingEvent.PAUSE,), 0, False, OutputRule.HOLD),
        ((SteppingEvent.PAUSE,), 2, True, OutputRule.ROOM),
        ((SteppingEvent.UNWATCH,), 0, False, OutputRule.WAIT),
        ((SteppingEvent.PAUSE, SteppingEvent.UNWATCH), 0, False, OutputRule.WAIT),
        ((SteppingEvent.PAUSE, SteppingEvent.UNWATCH), 2, False, OutputRule.WAIT),
        ((SteppingEvent.PAUSE, SteppingEvent.RESUME), 0, True, OutputRule.ROOM),
        ((SteppingEvent.UNWATCH, SteppingEvent.WATCH), 0, True, OutputRule.ROOM),
    ],
    ids=["free", "paused", "stepping", "unwatched", "both", "both_with_steps", "resumed", "watched"],
)
def test_each_state_of_the_permit_allows_its_changes(
    events: tuple[SteppingEvent, ...], steps: int, may_begin: bool, output: OutputRule
) -> None:
    permit = permit_after(*events, steps=steps)
    assert (permit.may_begin, permit.output) == (may_begin, output)


def test_each_step_that_ends_uses_up_one_that_was_asked_for() -> None:
    permit = permit_after(SteppingEvent.PAUSE, steps=2)
    permit.allow(10, 1)
    begun = 0
    while permit.may_begin:
        begun += 1
        permit.ended()
    assert begun == 3
    permit.ended()  # the step that ran when the client paused the session
    assert (permit.steps, permit.may_begin) == (0, False)


def test_a_session_that_is_not_paused_is_asked_for_no_single_step() -> None:
    permit = permit_after(steps=3)
    permit.pause(10)
    assert (permit.steps, permit.may_begin) == (0, False)


@pytest.mark.parametrize("event", [SteppingEvent.PAUSE, SteppingEvent.RESUME], ids=lambda value: value.name)
def test_a_pause_and_its_end_take_back_the_steps_that_were_asked_for(event: SteppingEvent) -> None:
    permit = permit_after(SteppingEvent.PAUSE, steps=3)
    follow(permit, event, 10)
    permit.pause(11)
    assert (permit.steps, permit.may_begin) == (0, False)


def test_steps_that_were_asked_for_wait_until_the_session_is_watched_again() -> None:
    permit = permit_after(SteppingEvent.PAUSE, steps=2)
    permit.watch(False)
    permit.watch(True)
    assert (permit.stepping, permit.steps, permit.may_begin) == (Stepping.PAUSED, 2, True)


#: the numbers of a client's commands: 1 pauses, 2 lets steps begin, 3 pauses
BETWEEN, LAST = 2, 3
#: each order in which the model's side may hear of them: a pause is announced ahead of its command, which keeps its place
ORDERS = [
    order
    for order in itertools.permutations(("hear 1", "take 1", "take 2", "hear 3", "take 3"))
    if all(
        order.index(before) < order.index(after)
        for before, after in itertools.pairwise(("hear 1", "take 1", "take 2", "take 3"))
    )
    and order.index("hear 1") < order.index("hear 3") < order.index("take 3")
]


@pytest.mark.parametrize("between", ["resume", "steps"])
@pytest.mark.parametrize("order", ORDERS, ids=", ".join)
def test_no_older_command_undoes_a_pause_that_has_come_before_it(order: tuple[str, ...], between: str) -> None:
    permit = StepPermit()
    for event in order:
        match event.split():
            case ["take", "2"] if between == "resume":
                permit.resume(BETWEEN)
            case ["take", "2"]:
                permit.allow(BETWEEN, 5)
            case [_, number]:
                permit.pause(int(number))
        between_pauses = "hear 3" not in order[: order.index(event) + 1]
        assert permit.may_begin is (event == "take 2" and between_pauses), event
    permit.allow(LAST + 1, 1)
    assert permit.may_begin
    permit.pause(LAST + 2)
    permit.resume(LAST + 3)
    assert permit.stepping is Stepping.FREE
