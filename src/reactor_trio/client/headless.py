"""`reactor client URL`: a client without a screen that drives a session and reports its figures once a second."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from reactor_trio.client.client import Client
from reactor_trio.client.connecting import connect
from reactor_trio.client.recording import record as recording
from reactor_trio.client.statistics import Statistics
from reactor_trio.recording import Recorder, container_of


async def watch(
    url: str,
    *,
    record: str | None = None,
    send: Iterable[tuple[str, Mapping[str, Any]]] = (),
    seconds: float | None = None,
    report: Callable[[str], object],
    video: Iterable[str] | None = None,
    watching: Callable[[Client], Awaitable[None]] | None = None,
    on_queued: Callable[[int, int], object] | None = None,
    token: str | None = None,
) -> None:
    """Connect, send the commands, take every frame, and report a line a second until the session ends or time is up.

    Args:
        url: as for `connect`.
        record: a file to write what arrives to, `.mp4`, `.mkv` or `.webm`, with a timeline beside it.
        send: commands and their arguments, sent in order once the session has begun.
        seconds: how long to watch after that; None until the session ends.
        report: called with each line.
        video, token: as for `connect`.
        watching: takes part in the session in place of the line a second, and is cancelled when time is up.
        on_queued: as for `connect`; by default a line for each change.

    Raises what `connect` raises, CommandError if a command of `send` is refused, SessionEnded if the session does not
    end politely, ReactorError if it cannot record.
    """
    if record is not None and video is None:
        video = container_of(Path(record)).video  # before connecting: it may be a name that cannot be used
    queued = on_queued or (lambda at, total: report(f"queued: {at} of {total}"))
    watching = watching or partial(_watch, report=report)

    def admitted(address: str) -> None:
        report(f"admitted: {address}")

    def ending(reason: str, left: float | None) -> None:
        report(f"ending ({reason}): not any more" if left is None else f"ending ({reason}) in {left:.0f} s")

    def lost(why: str) -> None:
        report(f"lost: {why}; coming back")

    def resumed(seconds: float) -> None:
        report(f"resumed after {seconds:.1f} s")

    async with connect(
        url, video=video, token=token, on_queued=queued, on_admitted=admitted, on_ending=ending,
        on_lost=lost, on_resumed=resumed,
    ) as client:
        report(f"session {client.session_id}: {client.name} as {client.role}")
        if record is None:
            await _drive(client, send, seconds, report, watching)
            return
        recorder: Recorder | None = None
        try:
            async with recording(client, record) as recorder:
                await _drive(client, send, seconds, report, watching)
        finally:
            if recorder is not None:
                report(f"recorded {record}: {recorder.summary()}")


async def _drive(
    client: Client,
    send: Iterable[tuple[str, Mapping[str, Any]]],
    seconds: float | None,
    report: Callable[[str], object],
    watching: Callable[[Client], Awaitable[None]],
) -> None:
    for name, arguments in send:
        reply = await client.command(name, **arguments)
        report(f"{name}: applied" if reply is None else f"{name}: {reply}")
    with anyio.move_on_after(math.inf if seconds is None else seconds):
        await watching(client)


async def _watch(client: Client, report: Callable[[str], object]) -> None:
    outputs = [track.name for track in client.tracks if track.direction == "out"]
    arriving = client.frames(outputs[0]) if outputs else client.messages()
    next_report = anyio.current_time() + 1
    while True:
        with anyio.move_on_after(next_report - anyio.current_time()):
            async for _ in arriving:
                pass
            return
        next_report += 1
        report(figures(client.statistics()))


def figures(statistics: Statistics) -> str:
    """One line of `statistics`: the tracks, then the commands."""
    parts = [
        f"{name}: {track.fps:.1f} fps, jitter {_ms(track.interval.std)}, p95 {_ms(track.interval.p95)}, "
        f"{track.missing} missing, {track.dropped} dropped"
        for name, track in statistics.tracks.items()
    ]
    ack, picture = statistics.command_to_ack, statistics.command_to_picture
    if ack.count:
        parts.append(f"ack {_ms(ack.p50)}, p95 {_ms(ack.p95)}")
    if picture.count:
        parts.append(f"picture {_ms(picture.p50)}, p95 {_ms(picture.p95)}")
    if (latency := statistics.latency) is not None:
        shares = ((name, getattr(latency, name)) for name in latency.__struct_fields__)
        parts.append("p50/p95 " + ", ".join(f"{name} {_ms(share.p50)[:-3]}/{_ms(share.p95)}" for name, share in shares))
    return " | ".join(parts)


def _ms(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{seconds * 1000:.1f} ms"
