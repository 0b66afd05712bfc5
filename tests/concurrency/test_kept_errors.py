"""An exception that is kept forgets the variables of the runtime, and keeps its lines and those of author code."""

from __future__ import annotations

import traceback

import pytest

from reactor_trio.concurrency import forget_variables
from reactor_trio.interface.author_code import plain_step


class Big:
    """Stands for what a session has."""


def author(big: Big, cause: Exception | None = None) -> None:
    theirs = Big()
    assert theirs
    raise ValueError("the model raises") from cause


def raised(big: Big, cause: Exception | None = None) -> Exception:
    """An exception that came through a function of the runtime, which has `big` in a variable."""
    with pytest.raises(ValueError) as caught:
        plain_step(lambda given: author(Big(), cause), big)
    return caught.value


def frames(error: BaseException) -> dict[str, dict[str, object]]:
    """The variables of each function in the traceback."""
    return {frame.f_code.co_name: dict(frame.f_locals) for frame, _ in traceback.walk_tb(error.__traceback__)}


def test_the_runtimes_variables_go_and_the_authors_stay():
    error = raised(Big())
    assert frames(error)["plain_step"]
    before = traceback.format_exception(error)
    forget_variables(error)
    assert frames(error)["plain_step"] == {}
    assert isinstance(frames(error)["author"]["theirs"], Big)
    assert traceback.format_exception(error) == before


@pytest.mark.parametrize("wrapped", ["cause", "context", "group"])
def test_variables_of_a_cause_and_of_a_group_are_forgotten(wrapped):
    inner = raised(Big())
    if wrapped == "group":
        error: BaseException = ExceptionGroup("several", [inner])
    else:
        error = raised(Big(), inner if wrapped == "cause" else None)
        error.__context__ = inner
    forget_variables(error)
    assert frames(inner)["plain_step"] == {}


def test_an_exception_may_be_its_own_cause():
    error = raised(Big())
    error.__cause__ = error
    forget_variables(error)


def test_a_function_that_still_runs_keeps_its_variables():
    kept = []

    def catches(big: Big) -> None:
        try:
            author(big)
        except ValueError as error:
            forget_variables(error)
        kept.append(big)

    plain_step(catches, big := Big())
    assert kept == [big]
