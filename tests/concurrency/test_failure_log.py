"""An exception that repeats is logged once whole, then in one line with its count."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from reactor_trio.concurrency import FailureLog
from reactor_trio.concurrency.failure_log import KINDS
from reactor_trio.crossing.failures import Failure

log = logging.getLogger("test")


def raised(function: Callable[..., object], *args: object) -> BaseException:
    try:
        function(*args)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def one(text: str = "one") -> None:
    raise ValueError(text)


def other() -> None:
    raise ValueError("one")


def log_all(*errors: BaseException) -> None:
    failures = FailureLog()
    for number, error in enumerate(errors):
        failures.log(log, error, "call %d raised", number)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    return [(record.getMessage(), record.exc_info is not None) for record in caplog.records]


def test_the_first_is_whole_and_the_next_are_lines(caplog: pytest.LogCaptureFixture) -> None:
    log_all(raised(one), raised(one, "two\nand more"), raised(one, "x" * 1000))
    assert lines(caplog) == [
        ("call 0 raised", True),
        ("call 1 raised ValueError: two (2 times by now; the traceback is logged with the first)", False),
        (f"call 2 raised ValueError: {'x' * 300}... (3 times by now; the traceback is logged with the first)", False),
    ]
    assert all(record.levelno == logging.ERROR for record in caplog.records)


def test_another_place_or_type_or_cause_is_another_kind(caplog: pytest.LogCaptureFixture) -> None:
    def caused(cause: BaseException | None) -> None:
        raise ValueError from cause

    errors = [raised(one), raised(other), raised(lambda: 1 // 0), raised(caused, None), raised(caused, raised(one))]
    errors += [raised(caused, raised(other)), ExceptionGroup("", [raised(one)]), ExceptionGroup("", [raised(other)])]
    log_all(*errors)
    assert [whole for _, whole in lines(caplog)] == [True] * len(errors)


def test_the_log_of_one_that_repeats_for_ever_grows_with_the_digits_of_its_count(caplog: pytest.LogCaptureFixture) -> None:
    log_all(*[raised(one) for _ in range(300)])
    counts = [int(text.partition("(")[2].partition(" ")[0]) for text, _ in lines(caplog)[1:]]
    assert counts == [*range(2, 11), *range(20, 101, 10), 200, 300]


def test_an_error_of_another_process_is_recognised_by_its_lines(caplog: pytest.LogCaptureFixture) -> None:
    log_all(*[Failure.of(raised(call)).error() for call in (one, one, other)])
    assert [whole for _, whole in lines(caplog)] == [True, False, True]


def test_an_exception_that_is_its_own_cause(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("turns")
    error.__cause__ = error
    log_all(error, error)
    assert [whole for _, whole in lines(caplog)] == [True, False]


def test_only_so_many_kinds_are_remembered() -> None:
    failures = FailureLog()
    for number in range(2 * KINDS):
        failures.log(log, ValueError(number), "raised")
    assert len(failures._counts) == KINDS
