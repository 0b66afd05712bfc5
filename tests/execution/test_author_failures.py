"""What an exception of author code means, alone, in a group, and as the cause of another: one table."""

from __future__ import annotations

import pytest
import trio

from reactor_trio.concurrency import SessionOver
from reactor_trio.errors import CommandError
from reactor_trio.execution.author_failures import ends_model, ends_process, is_cancelled, is_failure
from reactor_trio.lost_part import ModelPartLost


class AcceleratorError(RuntimeError):
    """As the one of torch."""


class OutOfMemoryError(RuntimeError):
    """As the one of torch."""


def grouped(*errors: BaseException) -> BaseException:
    return BaseExceptionGroup("several", [ValueError("a"), BaseExceptionGroup("more", list(errors))])


def caused(cause: BaseException, error: BaseException | None = None) -> BaseException:
    """An exception that the author has raised from another."""
    try:
        raise error or ValueError("the step failed") from cause
    except BaseException as raised:
        return raised


def handled(error: BaseException) -> BaseException:
    """An exception that was raised while the author handled another."""
    try:
        try:
            raise error
        except BaseException:
            raise KeyError("fallback")  # noqa: B904
    except KeyError as raised:
        return raised


def its_own_cause() -> BaseException:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


CUDA = RuntimeError("CUDA error: an illegal memory access was encountered")

#: exception, whether it ends the model, its process, and whether it is a failure of what raised it alone
TABLE = [
    (ValueError("a"), False, False, True),
    (grouped(ValueError("b")), False, False, True),
    (SystemExit(3), True, True, False),
    (KeyboardInterrupt(), True, True, False),
    (ModelPartLost("a rank"), True, True, False),
    (grouped(SystemExit(3)), True, True, False),
    (caused(SystemExit(3)), False, False, True),  # the author has made it an exception of the session
    (CUDA, False, True, True),
    (AcceleratorError("launch failed"), False, True, True),
    (OutOfMemoryError("full"), False, True, True),
    (MemoryError(), False, True, True),
    (grouped(CUDA), False, True, True),
    (grouped(MemoryError()), False, True, True),
    (caused(CUDA), False, True, True),
    (caused(OutOfMemoryError("full")), False, True, True),
    (caused(caused(grouped(caused(AcceleratorError("launch failed"))))), False, True, True),
    (grouped(caused(CUDA)), False, True, True),
    (caused(OutOfMemoryError("full"), CommandError("too_large", "a smaller picture, please")), False, False, True),
    (handled(OutOfMemoryError("full")), False, False, True),
    (its_own_cause(), False, False, True),
    (SessionOver(), False, False, False),
    (GeneratorExit(), False, False, False),
]


@pytest.mark.parametrize(("error", "model", "process", "failure"), TABLE, ids=repr)
def test_what_an_exception_of_author_code_ends(error, model, process, failure):
    assert (ends_model(error), ends_process(error), is_failure(error)) == (model, process, failure)


@pytest.mark.parametrize(("error", "process"), [(ValueError("a"), False), (CUDA, True)], ids=repr)
async def test_a_cancellation_is_a_failure_of_nothing_and_hides_none(autojump_clock, error, process):
    async def fails():
        try:
            await trio.sleep_forever()
        finally:
            raise error

    with trio.CancelScope() as scope, pytest.raises(BaseExceptionGroup) as raised:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails)
            await trio.lowlevel.checkpoint()
            scope.cancel()
            await trio.sleep_forever()
    group = raised.value
    assert is_cancelled(group)
    assert (ends_model(group), ends_process(group), is_failure(group)) == (False, process, False)
