"""Drives a session without a display, and reports its figures once a second: what `reactor client` does with a URL."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import trio

from reactor_trio.client.client import Client
from reactor_trio.client.connecting import connect
from reactor_trio.client.recording import record as recording
from reactor_trio.errors import ReactorError
from reactor_trio.recording import Recorder, container_of

#: Seconds without anything of a track after which a line says so.
SILENCE = 3.0


class StillWaiting(ReactorError):
    """The session had not begun when the time to watch was over."""


async def watch(
    url: str,
    *,
    record: str | None = None,
    send: Iterable[tuple[str, Mapping[str, Any]]] = (),
    seconds: float | None = None,
    report: Callable[[str], object],
    video: Iterable[str] | None = None,
    watching: Callable[[Client], Awaitable[None]] | None = None,
    on_queued: Callable[[str], object] | None = None,
    token: str | None = None,
) -> None:
    """Connect, send the commands, receive every frame, and report a line each second until the session ends or time is up.

    Args:
        url: as for `connect`.
        record: a file to record the session to, `.mp4`, `.mkv` or `.webm`; a timeline is written beside it.
        send: commands and their arguments, sent in order once the session has begun.
        seconds: how long to stay once the server has answered, including the wait for a session and for the answers to
            `send`; None: until the session ends.
        report: called with each line.
        video, token: as for `connect`.
        watching: used instead of the line each second; it is cancelled when time is up.
        on_queued: called, while the server has no room, with a line that has the place in the queue and the reason; by
            default `report`.

    Raises what `connect` raises; StillWaiting if `seconds` are over before the session begins; CommandError if the server
    refuses a command of `send`; SessionEnded if the session does not end politely; ReactorError if the recording cannot be
    written.
    """
    if record is not None and video is None:
        video = container_of(Path(record)).video  # before connecting: the file name may be invalid
    watching = watching or partial(_watch, report=report)
    admission = trio.CancelScope()
    deadline: float | None = None
    waits_for = ""

    def answered() -> float:
        nonlocal deadline
        if deadline is None:
            deadline = math.inf if seconds is None else trio.current_time() + seconds
        return deadline

    def waiting(why: str) -> None:
        nonlocal waits_for
        waits_for = why
        admission.deadline = answered()

    def queued(at: int, total: int) -> None:
        (on_queued or report)(f"queued: {at} of {total}: {waits_for}")

    def ending(reason: str, left: float | None) -> None:
        report(f"ending ({reason}): not any more" if left is None else f"ending ({reason}) in {left:.0f} s")

    with admission:
        async with connect(
            url, video=video, token=token, on_queued=queued, on_waiting=waiting, on_ending=ending,
            on_admitted=lambda address: report(f"admitted: {address}"),
            on_lost=lambda why: report(f"lost: {why}; coming back"),
            on_resumed=lambda away: report(f"resumed after {away:.1f} s"),
        ) as client:
            admission.deadline = math.inf  # from here on only `_drive` is cut off, so that a recording is completed
            report(f"session {client.session_id}: {client.name} as {client.role}")
            opened: AbstractAsyncContextManager[Recorder | None]
            opened = nullcontext() if record is None else recording(client, record)
            recorder: Recorder | None = None
            try:
                async with opened as recorder:
                    await _drive(client, send, answered(), report, watching)
            finally:
                if recorder is not None:
                    report(f"recorded {record}: {recorder.summary()}")
    if admission.cancelled_caught:
        raise StillWaiting(f"no session within {seconds:g} s: {waits_for}")


async def _drive(
    client: Client,
    send: Iterable[tuple[str, Mapping[str, Any]]],
    deadline: float,
    report: Callable[[str], object],
    watching: Callable[[Client], Awaitable[None]],
) -> None:
    unanswered = ""
    with trio.CancelScope(deadline=deadline):
        for name, arguments in send:
            unanswered = name
            reply = await client.command(name, **arguments)
            report(f"{name}: applied" if reply is None else f"{name}: {reply}")
        unanswered = ""
        await watching(client)
    if unanswered:
        report(f"{unanswered}: no answer in time")


async def _watch(client: Client, report: Callable[[str], object]) -> None:
    outputs = [track.name for track in client.tracks if track.direction == "out"]
    arriving = client.frames(outputs[0]) if outputs else client.messages()
    arrived = trio.current_time()
    next_report = arrived + 1
    while True:
        with trio.move_on_at(next_report):
            async for _ in arriving:
                arrived = trio.current_time()
            return
        next_report += 1
        silence = trio.current_time() - arrived
        report(" | ".join([
            str(client.statistics()),
            *([f"no {outputs[0]} for {silence:.0f} s"] if outputs and silence >= SILENCE else []),
            *([f"{late.what} for {late.seconds:.0f} s"] if (late := client.late) is not None else []),
        ]))  # fmt: skip
