"""`render` and `rendered`: load a model, read its script, and run one session of it."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import outcome
import trio

from reactor_trio.concurrency import open_model_host
from reactor_trio.configuration.manifest import Manifest
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import CommandError, ReactorError
from reactor_trio.interface.manifest_files import files_of_manifest
from reactor_trio.interface.model import Model
from reactor_trio.kinds.model_checks import check_model
from reactor_trio.offline.film_room import FilmRoom
from reactor_trio.offline.rendering import RenderedBundle, Rendering
from reactor_trio.offline.script import Script, ScriptCommand, ScriptError, read_script
from reactor_trio.offline.script_uploads import Uploads
from reactor_trio.offline.unpaced_time import UnpacedTime
from reactor_trio.placement.loading import LoadedModel, load_model
from reactor_trio.placement.model_source import model_source
from reactor_trio.placement.placement import called, failing_load
from reactor_trio.protocol import playback_arguments
from reactor_trio.telemetry import Telemetry

T = TypeVar("T")


@asynccontextmanager
async def render(
    model: type[Model] | Manifest,
    *,
    config: Mapping[str, Any] | None = None,
    script: Script | None = None,
    frames: int | None = None,
    seconds: float | None = None,
    fps: float | None = None,
    settings: Settings | None = None,
    uploads: str | Path | Uploads | None = None,
    worlds: Sequence[str | Path] = (),
    on_message: Callable[[str, Any], object] | None = None,
    thread: bool = True,
) -> AsyncGenerator[Rendering, None]:
    """Load a model and run one session of it, without a client and without pacing.

        async with render(MyModel, script="commands.yaml", frames=300) as rendering:
            async for bundle in rendering:
                ...

    Args:
        model: a model class, or a manifest, whose config and settings hold unless given here.
        config: the argument of `load`.
        script: the commands, and when they are applied (`docs/reference/model/rendering.md`).
        frames, seconds: how many bundles, or how many seconds of film, to make. The limit that is reached first ends the
            rendering. Without a limit, a pipeline ends when `inference()` returns, and a blocking model when
            `start_session()` returns. With a limit, a pipeline's generator that returns is followed by a new one, as in a
            live session.
        fps: replaces the rate that the model declares.
        uploads: the folder of the files that commands name.
        worlds: files of saved worlds, or folders with such files, for a script that restores some.
        on_message: called with the type and data of each message of the model, on the caller's loop; must not raise.
        thread: run the model on a thread of its own. False, for tests: run it as a task of the caller's loop.

    Leaving the block ends the session in the usual order, after the current step. Raises ScriptError for a mistake in the
    script, ManifestError if the model cannot be imported, DeclarationError, and ModelFailed if `load()` raises. An exception
    of the block is raised as it is, not in a group.
    """
    source = model_source(model, config=config)
    name, once = source.name, frames is None and seconds is None
    settings = msgspec.structs.replace(settings or source.settings, max_sessions=1)
    if fps is not None:
        settings = msgspec.structs.replace(settings, fps=fps, max_fps=max(fps, settings.max_fps or Model.max_fps))
    if frames is not None and frames < 1:
        raise ValueError(f"frames must be 1 or more, not {frames!r}")
    if seconds is not None and not 0 < seconds < math.inf:
        raise ValueError(f"seconds must be a finite number above 0, not {seconds!r}")
    entries = read_script(script)
    files = uploads if isinstance(uploads, Uploads) else Uploads(None if uploads is None else Path(uploads))
    time = UnpacedTime(threaded=thread)
    failure: BaseException | None = None
    with files_of_manifest(source.files):
        async with open_model_host(time) as host:
            try:
                with failing_load(name, host):
                    checked = await host.run(called, lambda: check_model(source.find_model(), settings))
                    loaded = await host.run(load_model, checked, source.config, host, settings, Telemetry())
                if loaded.kind.endless and once:
                    what = f"{loaded.kind.method} of this model never ends"
                    raise ReactorError(f"{name}: {what}: say how many frames or seconds to make")
                commands, named, warnings = await trio.to_thread.run_sync(_decoded, entries, loaded, files, worlds)
                room = FilmRoom(frames, seconds)
                loaded = msgspec.structs.replace(loaded, once=once, named_moments=named)
                rendering = Rendering(host, time, room, loaded, name, commands, on_message)
                rendering.warnings += warnings
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(rendering.watch)
                    nursery.start_soon(rendering.run)
                    try:
                        yield rendering
                    except trio.Cancelled:
                        raise
                    except BaseException as error:
                        failure = error
                    rendering.stop()
                    nursery.cancel_scope.cancel()
            except trio.Cancelled:
                raise
            except BaseException as error:
                failure = failure or error
    if failure is not None:
        raise failure


def rendered(model: type[Model] | Manifest, **options: Any) -> list[RenderedBundle]:
    """Return all bundles of a rendering, for scripts and notebooks without a loop. `options` are those of `render`.

    At the end all of them are in memory: give `frames` or `seconds`, or write a film with `render_to`. Raises what `render`
    raises.
    """

    async def collect() -> list[RenderedBundle]:
        async with render(model, **options) as rendering:
            return [bundle async for bundle in rendering]

    return run_blocking(collect)


def run_blocking(function: Callable[[], Awaitable[T]]) -> T:
    """Call `trio.run`. If another event loop runs in this thread, as in a notebook, call it in a new thread."""
    asyncio = sys.modules.get("asyncio")  # not imported here: a notebook has imported it
    if asyncio is None or asyncio._get_running_loop() is None:
        return trio.run(function)
    results: list[outcome.Maybe[T]] = []
    thread = threading.Thread(target=lambda: results.append(outcome.capture(trio.run, function)), name="reactor-render")
    thread.start()
    thread.join()
    return results[0].unwrap()


def _decoded(
    entries: list[ScriptCommand], loaded: LoadedModel, files: Uploads, places: Sequence[str | Path]
) -> tuple[list[ScriptCommand], frozenset[int] | None, list[str]]:
    """Return the commands with arguments of the types that the model declares, the moments that they name, and what may make
    a difference. Raises ScriptError.
    """
    declaration, decoded = loaded.declaration, []
    worlds = None
    if declaration.world is not None:
        from reactor_trio.offline.script_worlds import Worlds, named_moments  # late: models without Saves import none of it

        worlds = Worlds(places, declaration.world, loaded.model)
    for number, entry in enumerate(entries, start=1):
        try:
            data = msgspec.json.encode(entry.arguments)
        except (TypeError, ValueError, RecursionError) as error:
            wrong = f"the arguments cannot be sent as JSON: {error}"
            raise ScriptError(f"{entry.where}: {entry.name}: {wrong}") from None
        try:
            if entry.name == "reactor.restart":
                if "restart" not in declaration.playback:
                    raise ScriptError("this model cannot be restarted")
                arguments = playback_arguments(entry.name, data)
            elif entry.name in ("reactor.rewind", "reactor.save", "reactor.fork", "reactor.restore"):
                if worlds is None:
                    raise ScriptError("this model saves no worlds: `saves = Saves()` is missing in its class")
                arguments = worlds.arguments(number, entry, data)
            else:
                arguments = declaration.command(entry.name).arguments.decode(data, files.find)
        except (CommandError, ScriptError) as error:
            raise ScriptError(f"{entry.where}: {entry.name}: {error}") from None
        decoded.append(msgspec.structs.replace(entry, arguments=arguments))
    if worlds is None:
        return decoded, None, []
    return decoded, named_moments(decoded), worlds.warnings

