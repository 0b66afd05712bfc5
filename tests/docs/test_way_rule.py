"""The rule of `tests/support/traced_ways.py`, on small modules: what is a row, what a look, and what is neither."""

from __future__ import annotations

from types import ModuleType

from tests.support.traced_ways import MARK, Tracer

A_COMMAND = f"a command: {MARK}"
SOURCES = {
    "first": """
        def reads(): return third.decodes(TEXT)
        def works():
            second.measures(TEXT)
            second.puts(TEXT)
        """,
    "second": """
        queue, seen = [], []
        def measures(text): return len(text)
        def puts(text): stored(text)
        def stored(text): queue.append(text)
        def takes(): third.decodes(queue.pop())
        def looks_only(): measures(queue[0])
        def marks(*texts): queue.append(texts)
        """,
    "third": """
        def decodes(text):
            again = text
            return [again]
        def measured(text):
            again = text
            return second.measures(again)
        """,
}


def modules() -> dict[str, ModuleType]:
    made = {name: ModuleType(f"reactor_trio.{name}") for name in SOURCES}
    for name, module in made.items():
        vars(module).update(made, TEXT=A_COMMAND)
        source = "\n".join(line.removeprefix(" " * 8) for line in SOURCES[name].splitlines())
        exec(compile(source, f"{name}.py", "exec"), vars(module))
    return made


async def traced(*calls: str) -> tuple[list[str], list[str]]:
    """Rows (with ↓ if they pull) and looks of calls that no function of the package makes."""
    made, tracer = modules(), Tracer("command", process=False)
    with tracer.window():
        for call in calls:
            eval(call, dict(made))
    found = tracer.result()
    return [f"{name}{' ↓' if pulls else ''}" for name, (_, pulls) in found.rows.items()], found.looks


async def test_a_function_that_passes_the_value_to_another_module_is_a_row():
    assert await traced("first.reads()") == (["first:reads", "third:decodes"], [])


async def test_a_function_that_keeps_the_value_is_a_row_and_one_that_only_reads_it_is_not():
    """A helper of its own module keeps it for `puts`; `works` takes none and hands one on."""
    assert await traced("first.works()") == (["first:works ↓", "second:puts"], ["second:measures"])


async def test_a_function_that_takes_the_value_from_a_queue_pulls_it():
    assert await traced("first.works()", "second.takes()") == (
        ["first:works ↓", "second:puts", "second:takes ↓", "third:decodes"], ["second:measures"],
    )  # fmt: skip


async def test_a_function_that_passes_the_value_only_to_a_reader_pulls_nothing():
    assert await traced("first.works()", "second.looks_only()") == (["first:works ↓", "second:puts"], ["second:measures"])


async def test_a_further_variable_keeps_nothing():
    assert await traced("third.measured(first.TEXT)") == ([], ["third:measured", "second:measures"])


async def test_arguments_in_one_tuple_are_kept_as_that_tuple():
    assert await traced("second.marks(first.TEXT)") == (["second:marks"], [])


async def test_functions_that_run_without_the_value_count_as_run_alone():
    made, tracer = modules(), Tracer("command", process=False)
    with tracer.window():
        made["second"].measures("something else")
    assert tracer.result().numbers == {"rows": 0, "looks": 0, "touch": 0, "run": 1}
