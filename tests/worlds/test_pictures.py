"""The picture of a moment: what was shown of it is shown again after a rewind, also in a pause. Exact, in virtual time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import trio

from reactor_trio.crossing.messages import Rewound
from reactor_trio.media import Bundle, Origin
from reactor_trio.session.moment_pictures import MOST_PICTURES, MomentPictures
from reactor_trio.testing import open_server
from tests.support.behaviour_models import in_all_placements, raw_session, shown
from tests.worlds.test_rewind import Counter, landed


class Slow(Counter):
    """Each of its frames is kept as a picture."""

    fps = 4


@in_all_placements
async def test_a_paused_session_that_is_rewound_shows_the_picture_of_the_moment_to_everyone_at_once(
    autojump_clock, placement
):
    async with open_server(Slow, **placement) as server, server.connect() as client:
        async with server.connect(role="viewer") as viewer:
            before = (await client.take(10))[-1]
            await client.playback.pause()
            await viewer.take(10)
            await trio.sleep(5)
            began = trio.current_time()
            moment = await client.worlds.rewind(step=3)
            assert moment.picture
            for each in (client, viewer):
                (again,) = await each.take(1)
                assert shown([again]) == [4]
                assert again.meta["again"] is True
                assert "timing" not in again.meta
                assert (again.command_id, again.seq > before.seq, again.pts > before.pts) == (None, True, True)
                assert again.step >= before.step
            assert trio.current_time() - began < 0.1
            async with server.connect(role="viewer") as late:
                assert shown(await late.take(1)) == [4]
            await client.playback.step()
            frame = await landed(client)
            assert shown([frame]) == [5]
            assert frame.seq == again.seq + 1
            assert frame.pts > again.pts
            assert frame.step > again.step


async def test_steps_count_from_the_picture_that_is_shown_again(autojump_clock):
    async with open_server(Slow) as server, server.connect() as client:
        await client.take(10)
        await client.playback.pause()
        assert [(await client.worlds.rewind(steps=2)).step for _ in range(3)] == [7, 5, 3]
        assert shown(await client.take(3)) == [8, 6, 4]


async def test_four_pictures_a_second_are_kept_and_a_moment_has_the_newest_before_it(autojump_clock):
    class Fast(Counter):
        fps = 20

    async with open_server(Fast) as server, server.connect() as client:
        await client.take(25)
        await client.playback.pause()
        pictures = []
        for step in range(18):
            await client.worlds.rewind(step=step)
            pictures += shown(await client.take(1))
        assert pictures == [step // 5 * 5 + 1 for step in range(18)]


async def test_a_moment_after_a_rewind_has_no_picture_of_the_future_that_is_over(autojump_clock):
    async with open_server(Slow) as server, server.connect() as client:
        await client.take(10)
        await client.playback.pause()
        await client.worlds.rewind(step=2)
        await client.playback.step(4)
        frames = [await landed(client), *await client.take(3)]
        assert shown(frames) == [4, 5, 6, 7]
        await client.worlds.rewind(step=frames[1].step)
        assert shown(await client.take(1)) == [5]


async def test_the_message_and_the_answer_say_whether_there_is_a_picture(autojump_clock):
    async with open_server(Slow) as server, raw_session(server, "worlds=1") as peer:
        await trio.sleep(2)
        await peer.command("reactor.rewind", 1, step=3)
        moment, answer = await peer.hear(), await peer.answer()
        assert moment["data"]["to"] == answer["data"]["reply"]["moment"]
        assert moment["data"]["to"]["picture"] is True


# ---- the bounds ---------------------------------------------------------------------------------------------------------


async def inline(function: Any, argument: Any, /, limit: float = 0) -> Any:
    await trio.lowlevel.checkpoint()
    return function(argument)


def bundle(step: int, pixels: int) -> Bundle:
    frame = np.random.default_rng(step).integers(0, 255, (pixels, pixels, 3), np.uint8)
    return Bundle({"main_video": frame}, {"main_video": step}, 0.1, True, Origin(step), trio.current_time())


async def test_pictures_are_never_above_their_bytes_nor_their_number_and_the_newest_and_oldest_are_there(autojump_clock):
    for most_bytes, pixels in ((100_000, 32), (10**9, 2)):
        pictures = MomentPictures(inline, most_bytes, lambda bundle: None)
        async with trio.open_nursery() as tasks:
            tasks.start_soon(pictures.run)
            for step in range(MOST_PICTURES + 200):
                pictures.shown(bundle(step, pixels), trio.current_time())
                await trio.sleep(0.25)
                assert 0 < pictures.bytes <= most_bytes
            assert pictures.has(0)
            assert len(pictures._pictures) <= MOST_PICTURES
            assert pictures._pictures[-1].step == MOST_PICTURES + 199
            tasks.cancel_scope.cancel()


async def test_a_picture_larger_than_all_there_is_room_for_is_not_kept(autojump_clock):
    pictures = MomentPictures(inline, 100, lambda bundle: None)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(pictures.run)
        pictures.shown(bundle(0, 32), trio.current_time())
        await trio.sleep(1)
        assert (pictures.bytes, pictures.has(0)) == (0, False)
        tasks.cancel_scope.cancel()


async def test_a_picture_that_a_newer_rewind_has_made_stale_meanwhile_is_not_shown(autojump_clock):
    async def slow(function: Any, argument: Any, /, limit: float = 0) -> Any:
        await trio.sleep(0.05)
        return function(argument)

    again: list[Bundle] = []
    pictures = MomentPictures(slow, 10**6, again.append)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(pictures.run)
        for step in range(3):
            pictures.shown(bundle(step, 8), trio.current_time())
            await trio.sleep(0.3)
        for moment in (0, 1):
            pictures.rewound(Rewound(3, moment, 0.0, 0, seqs={"main_video": 10 + moment}))
            await trio.sleep(0.01)
        await trio.sleep(1)
        assert [each.seqs for each in again] == [{"main_video": 11}]
        assert [each.origin for each in again] == [Origin(2, again=True)]
        tasks.cancel_scope.cancel()


async def test_a_device_that_fails_costs_the_picture_and_not_the_session(autojump_clock, caplog):
    async def broken(function: partial[Any], argument: Any, /, limit: float = 0) -> Any:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("no device")

    pictures = MomentPictures(broken, 10**6, lambda bundle: None)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(pictures.run)
        pictures.shown(bundle(0, 8), trio.current_time())
        await trio.sleep(1)
        assert not pictures.has(0)
        assert "no picture of step 0 is kept: no device" in caplog.text
        tasks.cancel_scope.cancel()
