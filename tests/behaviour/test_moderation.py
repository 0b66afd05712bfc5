"""Text that a hook may refuse: what is checked, what the client is told, and that commands keep their order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from dataclasses import dataclass

import anyio
import msgspec
import pytest
import trio
import trio.lowlevel

from reactor_trio.errors import CommandError, SessionEnded
from reactor_trio.interface import InputField, InputState, ReactorPipeline, event
from reactor_trio.server.moderation_hook import UNCHECKED, check_in_thread
from reactor_trio.testing import open_server, open_session
from tests.support.behaviour_models import in_all_placements, picture
from tests.support.models import Picture


class Words(InputState):
    prompt: str = InputField(default="", moderate=True)
    tags: list[str] = InputField(default=[], moderate=True)
    title: str = ""
    level: int = 0


class Painter(ReactorPipeline):
    state: Words
    output: Picture

    def load(self, config):
        self.log = []

    @event
    def say(self, text: str = InputField(moderate=True), aside: str = ""):
        self.log.append(("say", text, self.state.level))

    @event
    def mark(self, number: int):
        self.log.append(("mark", number))

    def inference(self):
        while True:
            yield picture(1)


@dataclass
class Note:
    line: str = ""


class Label(msgspec.Struct):
    text: str
    more: list[Label] = []
    kinds: set[str] = set()
    note: Note | None = None


TWO_TEXTS = {"text": "", "kinds": ["dog"]}


class Nested(Painter):
    @event
    def nest(
        self, words: dict[str, list[str]] = InputField(moderate=True), label: Label = InputField(moderate=True)  # noqa: B008
    ):
        pass


def no_cats(text, *, command, field):
    return f"no cats in {command}.{field}" if "cat" in text else None


async def no_cats_slowly(text, *, command, field):
    await trio.sleep(1)
    return no_cats(text, command=command, field=field)


@in_all_placements
@pytest.mark.parametrize("hook", [no_cats, no_cats_slowly])
async def test_a_refused_text_changes_nothing_and_the_client_gets_the_reason(autojump_clock, placement, hook):
    async with open_server(Painter, moderate=hook, step_cost=0.1, **placement) as server:
        async with server.connect() as client:
            await client.command("set_prompt", prompt="a dog")
            await client.command("set_title", title="cat")  # not moderated
            for command, arguments in [
                ("set_prompt", {"prompt": "a cat"}), ("set_tags", {"tags": ["dog", "cat"]}), ("say", {"text": "cat!"}),
            ]:  # fmt: skip
                with pytest.raises(CommandError, match=rf"no cats in {command}\.{next(iter(arguments))}") as refused:
                    await client.command(command, **arguments)
                assert refused.value.code == "moderated"
            await client.command("say", text="a dog", aside="cat")
            state = server.model.state
            assert (state.prompt, state.tags, state.title) == ("a dog", [], "cat")
            assert server.model.log == [("say", "a dog", 0)]


async def test_commands_keep_their_order_while_one_is_checked(autojump_clock):
    async with open_server(Painter, moderate=no_cats_slowly, step_cost=0.1) as server:
        async with server.connect() as client, trio.open_nursery() as nursery:
            answers = []

            async def send(label, name, **arguments):
                try:
                    await client.command(name, **arguments)
                    answers.append(label)
                except CommandError as error:
                    answers.append((label, error.code))

            for number, (name, arguments) in enumerate(
                [
                    ("mark", {"number": 1}), ("say", {"text": "one"}), ("mark", {"number": 2}), ("say", {"text": "cat"}),
                    ("set_level", {"level": 3}), ("say", {"text": "two"}), ("mark", {"number": 3}),
                ]
            ):  # fmt: skip
                nursery.start_soon(lambda number=number, name=name, arguments=arguments: send(number, name, **arguments))
                await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(0.5)
            assert answers == [0], "what came before the first check did not wait"
            await trio.sleep(10)
            assert server.model.log == [("mark", 1), ("say", "one", 0), ("mark", 2), ("say", "two", 3), ("mark", 3)]
            assert answers == [0, 1, 2, (3, "moderated"), 4, 5, 6]


async def test_commands_that_wait_for_a_check_count_as_pending(autojump_clock):
    limits = {"pending_commands": 3}
    async with open_session(Painter, moderate=no_cats_slowly, limits=limits, step_cost=0.1) as client:
        async with trio.open_nursery() as nursery:
            refused = []

            async def send(number):
                try:
                    await client.command("say", text=str(number))
                except CommandError as error:
                    refused.append((number, error.code))

            for number in range(5):
                nursery.start_soon(send, number)
                await trio.testing.wait_all_tasks_blocked()
        assert refused == [(3, "busy"), (4, "busy")]


async def test_without_a_hook_nothing_is_checked(autojump_clock):
    async with open_session(Painter, step_cost=0.1) as client:
        await client.command("set_prompt", prompt="a cat")


@pytest.mark.parametrize("answer", [ValueError("no network"), "", 1])
async def test_a_hook_that_fails_refuses_and_is_logged(autojump_clock, caplog, answer):
    def broken(text, *, command, field):
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with open_session(Painter, moderate=broken, step_cost=0.1) as client:
        with pytest.raises(CommandError, match=UNCHECKED) as refused:
            await client.command("set_prompt", prompt="a dog")
        assert refused.value.code == "moderated"
        await client.take(2)
    (record,) = [record for record in caplog.records if record.name == "reactor_trio.moderation"]
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "the moderation hook failed on set_prompt.prompt, which is refused"


async def test_a_hook_that_takes_too_long_refuses(autojump_clock, caplog):
    async def asleep(text, *, command, field):
        await trio.sleep_forever()

    async with open_session(Painter, moderate=asleep, moderate_timeout=2, step_cost=0.1) as client:
        begin = trio.current_time()
        with pytest.raises(CommandError, match=UNCHECKED):
            await client.command("say", text="dog")
        assert trio.current_time() - begin < 2.3
    assert "took over 2 s" in caplog.text


async def test_the_texts_of_a_command_share_one_time_limit(autojump_clock):
    seen = []

    async def slowly(text, *, command, field):
        seen.append(text)
        await trio.sleep(0.9)

    async with open_session(Painter, moderate=slowly, moderate_timeout=2, step_cost=0.1) as client:
        begin = trio.current_time()
        with pytest.raises(CommandError, match=UNCHECKED):
            await client.command("set_tags", tags=[str(number) for number in range(64)])
        assert 2 <= trio.current_time() - begin < 2.3
        assert seen == ["0", "1", "2"]
        await client.command("set_tags", tags=["a", "b"])


async def test_a_session_ends_in_the_middle_of_a_check(autojump_clock):
    async with open_server(Painter, moderate=no_cats_slowly, step_cost=0.1) as server:
        async with server.connect() as client, trio.open_nursery() as nursery:
            nursery.start_soon(_ignoring, client)
            await trio.testing.wait_all_tasks_blocked()
            await client.vanish()
        async with server.connect() as client:
            await trio.sleep(5)
            assert server.model.log == []
            await client.command("say", text="dog")


async def _ignoring(client):
    with contextlib.suppress(SessionEnded):
        await client.command("say", text="dog")


async def test_in_a_thread_of_its_own():
    seen = []

    def plain(text, *, command, field):
        seen.append((threading.current_thread() is threading.main_thread(), text, command, field))
        return "no"

    async def asynchronous(text, *, command, field):
        await trio.lowlevel.checkpoint()
        return plain(text, command=command, field=field)

    for hook in (plain, asynchronous):
        assert await check_in_thread(hook, 5.0)("set_prompt", [("prompt", "cat")]) == "no"
    assert seen == [(False, "cat", "set_prompt", "prompt")] * 2


async def test_a_hook_may_use_asyncio(autojump_clock):
    async def asynchronous(text, *, command, field):
        until = asyncio.get_running_loop().time() + 0.01
        await asyncio.to_thread(int, "3")
        await asyncio.sleep(until - asyncio.get_running_loop().time())
        return f"{text}: no"

    async def reason(text):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep, 0)
        return f"{text}: no"

    def plain(text, *, command, field):
        return asyncio.run(reason(text))

    for hook in (plain, asynchronous):
        async with open_session(Painter, moderate=hook) as client:
            with pytest.raises(CommandError, match="cat: no"):
                await client.command("say", text="cat")


async def test_a_hook_in_its_thread_may_use_asyncio(caplog):
    async def asynchronous(text, *, command, field):
        await asyncio.to_thread(int, "3")
        await asyncio.sleep(0)
        return "no"

    async def gathers(text, *, command, field):
        await asyncio.gather()

    def plain(text, *, command, field):
        return asyncio.run(asynchronous(text, command=command, field=field))

    for hook in (plain, asynchronous):
        assert await check_in_thread(hook, 5.0)("set_prompt", [("prompt", "cat")]) == "no"
    assert await check_in_thread(gathers, 5.0)("set_prompt", [("prompt", "cat")]) == UNCHECKED
    assert "AsyncioUsedError: asyncio.gather does not work here" in caplog.text


async def test_a_thread_that_hangs_is_left_behind(caplog):
    release = threading.Event()

    def hangs(text, *, command, field):
        release.wait(120)

    try:
        assert await check_in_thread(hangs, 0.05)("say", [("text", "cat")]) == UNCHECKED
    finally:
        release.set()
    assert "took over 0.05 s for say.text" in caplog.text


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        ("set_tags", lambda number: {"tags": ["dog"] * number}),
        ("nest", lambda number: {"words": {f"dog {place}": ["dog"] for place in range(number // 2)}, "label": TWO_TEXTS}),
    ],
)
async def test_a_command_may_have_64_texts_and_the_hook_sees_none_of_one_with_more(autojump_clock, command, texts):
    seen = []

    def hook(text, *, command, field):
        seen.append(text)

    async with open_server(Nested, moderate=hook, step_cost=0.1) as server, server.connect() as client:
        fit = 64 if command == "set_tags" else 62  # the label has two more
        await client.command(command, **texts(fit))
        assert len(seen) == 64
        for number in (fit + 1 if command == "set_tags" else fit + 2, 25_000):
            with pytest.raises(CommandError, match=f"{command}: more than 64 texts to check in one command") as refused:
                await client.command(command, **texts(number))
            assert refused.value.code == "moderated"
        assert len(seen) == 64
        await client.command(command, **texts(2))
        assert server.runtime.metrics._commands["refused"] == 2


async def test_a_command_with_too_many_texts_does_not_pass_those_before_it(autojump_clock):
    async with open_server(Nested, moderate=no_cats_slowly, step_cost=0.1) as server, server.connect() as client:
        answers = []

        async def send(name, **arguments):
            try:
                await client.command(name, **arguments)
                answers.append(name)
            except CommandError as error:
                answers.append(error.code)

        async with trio.open_nursery() as nursery:
            for name, arguments in (
                ("say", {"text": "dog"}), ("set_tags", {"tags": ["a"] * 65}), ("mark", {"number": 1}),
            ):  # fmt: skip
                nursery.start_soon(lambda name=name, arguments=arguments: send(name, **arguments))
                await trio.testing.wait_all_tasks_blocked()
        assert answers == ["moderated", "say", "mark"], "refused at once, as one with a wrong argument is"
        assert server.model.log == [("say", "dog", 0), ("mark", 1)]


@pytest.mark.parametrize(
    "label",
    [
        {"text": "cat"}, {"text": "", "more": [{"text": "cat"}]}, {"text": "", "kinds": ["dog", "cat"]},
        {"text": "", "note": {"line": "cat"}},
    ],
)  # fmt: skip
async def test_texts_in_classes_and_sets_are_checked(autojump_clock, label):
    async with open_session(Nested, moderate=no_cats, step_cost=0.1) as client:
        await client.command("nest", words={}, label={"text": "dog"})
        with pytest.raises(CommandError, match=r"no cats in nest\.label"):
            await client.command("nest", words={}, label=label)
