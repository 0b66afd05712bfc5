"""`SessionWorlds`: the worlds of a session on the I/O loop: pictures of moments, and what it saves, restores and forgets.

A command `reactor.save` is answered when the model has captured its world. Only then the world is packed and written, on a
worker thread, while steps and commands go on; `reactor.saved` says how that ended. A command `reactor.restore` is prepared:
the world is read and verified before the model gets the command, and those behind it wait. One such world of a session is in
memory at a time.

A disk may stand still. After a while its command is refused, and those behind it go on. The end of a session waits neither
for a file that is being written nor for one that is being read: the thread ends by itself, and a file of it is whole or
absent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import trio

from reactor_trio.configuration.settings import WorldSettings
from reactor_trio.crossing.messages import Answer, Command, Rewound
from reactor_trio.crossing.world_pieces import ArrivingWorld, PackedWorld
from reactor_trio.errors import CommandError
from reactor_trio.execution.landing import LoadedWorld
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.saving import Saves
from reactor_trio.media import Bundle, Worker
from reactor_trio.placement.placement import Check
from reactor_trio.protocol import WorldInStore, WorldMoment
from reactor_trio.session.attachment import Attachment, Journal
from reactor_trio.session.command_preparation import Preparation, checked, moderate
from reactor_trio.session.moment_pictures import MomentPictures
from reactor_trio.session.upload_store import Disk
from reactor_trio.world_store import SavedFile, WorldStore, new_id
from reactor_trio.worlds import World
from reactor_trio.worlds.file_header import Origin
from reactor_trio.worlds.settings import moderated_texts
from reactor_trio.worlds.unsigned import pack_unsigned, unpack_unsigned

log = logging.getLogger("reactor_trio.session")

HOUR: Final = 3600.0
#: the part of the server's store that one session may fill, and the part of that for its forks
PART_OF_STORE: Final = 10
PART_FOR_FORKS: Final = 4


class ModelWorlds(msgspec.Struct, frozen=True):
    """What the worlds of a model's sessions have in common.

    Attributes:
        declaration: of the model, which saves its worlds.
        settings: of the server.
        sessions: how many there may be at once; each has an equal part of the memory.
        origin: returns what a file of today's model says, given the id of the session. Called on worker threads.
        store: of the server. Without a folder it is in memory, and what a session has saved goes with it.
        disk: reads and writes away from the loop, and lets go of what is cancelled.
        worker: encodes and decodes pictures.
        check: the moderation hook; None: there is none.
        crosses: whether the model is in another process.
    """

    declaration: Declaration
    settings: WorldSettings
    sessions: int
    origin: Callable[[str], Origin]
    store: WorldStore
    disk: Disk
    worker: Worker
    check: Check | None
    crosses: bool = False

    def of_session(
        self, session_id: str, subject: str, attachments: Mapping[int, Attachment], controller: int,
        show: Callable[[Bundle], object],
    ) -> SessionWorlds:  # fmt: skip
        """The worlds of a new session; see `SessionWorlds`."""
        return SessionWorlds(self, session_id, subject, attachments, controller, show)

    @property
    def most_bytes(self) -> int:
        """What the saved worlds of one session may have together."""
        settings = self.settings
        return settings.ring // self.sessions if settings.store is None else settings.store_bytes // PART_OF_STORE

    def here(self, subject: str, saved: Origin) -> Origin:
        """What a file of today's model would say of the subject's world, if it were of this file's session."""
        return msgspec.structs.replace(self.origin(saved.session), subject=subject)

    async def clean_hourly(self) -> None:
        """Task: remove what has expired from the store, each hour. The end of the server does not wait for the disk."""
        while True:
            await trio.sleep(HOUR)
            try:
                await self.disk(self.store.clean)
            except CommandError as error:
                log.warning("saved worlds that have expired are not removed: %s", error)

    async def look(self, id: str, subject: str) -> None:  # noqa: A002
        """Look whether the subject may begin at this world. Raises CommandError, as `load`."""
        check = partial(self.store.check, reads=self._saves.reads, accept=self.settings.accept)
        await self.disk(check, id, partial(self.here, subject))

    async def load(self, id: str, subject: str) -> LoadedWorld:  # noqa: A002
        """Read a world, and have its texts moderated. Raises CommandError, as `WorldStore.load`, and `moderated`."""
        loaded: LoadedWorld = await self.disk(self._load, id, subject)
        assert loaded.world is not None
        state = self.declaration.state
        texts = [] if state is None else checked("reactor.restore", moderated_texts(state, loaded.world))
        if texts and self.check is not None:
            await moderate(self.check, "reactor.restore", texts)
        return loaded

    def save(self, id: str, world: World | PackedWorld, origin: Origin, expires: float) -> SavedFile:  # noqa: A002
        """Write a world, or what another process has packed. Called on a worker thread. Raises CommandError."""
        whole = world if isinstance(world, World) else unpack_unsigned(world, self._classes)
        return self.store.save(id, whole, origin, expires)

    def _load(self, id: str, subject: str) -> LoadedWorld:  # noqa: A002
        here, saves = partial(self.here, subject), self._saves
        stored = self.store.load(id, here, self._classes, reads=saves.reads, accept=self.settings.accept)
        parts = pack_unsigned(stored.world) if self.crosses else ()
        return LoadedWorld(stored.origin.version, stored.warnings, stored.world, parts, digest=stored.digest)

    @property
    def _classes(self) -> Mapping[str, type]:
        assert self.declaration.world is not None, "the model saves its worlds"
        return self.declaration.world.classes

    @property
    def _saves(self) -> Saves:
        assert self.declaration.world is not None, "the model saves its worlds"
        return self.declaration.world.saves


class SessionWorlds:
    """The worlds of one session.

    Args:
        model: what they have in common with those of other sessions.
        session_id, subject: whose they are; the subject is "" if that is not known.
        attachments: the clients of the session.
        controller: the number of the one that hears of what is saved.
        show: shows a picture again to all clients, unless a newer frame is on screen.

    Attributes:
        pictures: of the moments.
        begun_from: how a recording names the world at which the session has begun; None: it has begun at none.
        journal: records what is saved, if the session is recorded.
    """

    def __init__(
        self, model: ModelWorlds, session_id: str, subject: str, attachments: Mapping[int, Attachment], controller: int,
        show: Callable[[Bundle], object],
    ) -> None:  # fmt: skip
        self._model = model
        self._session_id, self._subject = session_id, subject
        self._attachments = attachments
        self._controller = controller
        self.begun_from: dict[str, Any] | None = None
        self.journal: Journal | None = None
        self.pictures = MomentPictures(model.worker, model.settings.pictures // model.sessions, show)
        self._store = model.store
        #: by id each world that this session has saved, also the one under way
        self._slots: dict[str, WorldInStore] = {}
        self._forks: set[str] = set()  # which of them are: who gives links away keeps the slots for places
        #: the number of the save or fork that is under way, and its id
        self._under_way: tuple[int, str] | None = None
        #: one world at a time is read and waits for the model; the number of the command that has read it
        self._reading = trio.Semaphore(1, max_value=1)
        self._read_for: int | None = None
        self._captured, self._to_store = trio.open_memory_channel[tuple[World | ArrivingWorld, WorldInStore, str]](1)

    def begin_command(self, number: int, loaded: LoadedWorld) -> Command:
        """The command by which the new session goes on from a saved world; no client has sent it, so none is answered."""
        self.begun_from = _named(loaded)
        arguments = {"world": "", "loaded": loaded._replace(why="fork")}
        at = trio.current_time()
        return Command(number, self._controller, "reactor.restore", arguments, None, at=at, data=b"{}", group=number)

    def tell_moment(self, message: Rewound) -> None:
        """Tell each client that understands it that the world is another: before the answer, and before a picture of it."""
        picture = message.why == "rewind" and self.pictures.has(message.moment)
        moment = WorldMoment(message.moment, message.age, message.size, picture)
        data = {"step": message.step, "to": moment, "why": message.why}
        if message.from_age is not None:
            data["from"] = message.from_age
        for attachment in self._attachments.values():
            if attachment.follows_worlds:
                attachment.say("reactor.moment", data)
        self.pictures.rewound(message)

    def admit(self, name: str) -> None:
        """Check that the session may save another world, if the command does. Raises CommandError."""
        if name not in ("reactor.save", "reactor.fork"):
            return
        if self._under_way is not None:
            raise CommandError("busy", f"{name}: the world before it is still being saved; wait for reactor.saved")
        now = self._store.now()
        self._slots = {world: kept for world, kept in self._slots.items() if kept.expires > now}
        self._forks &= self._slots.keys()
        forks = name == "reactor.fork"
        what = "forks" if forks else "saved worlds"
        same = [kept for id, kept in self._slots.items() if (id in self._forks) is forks]  # noqa: A001
        if len(same) >= (most := self._model.settings.slots):
            raise CommandError("too_many", f"{name}: this session has {most} {what}; forget one")
        for_forks = self._model.most_bytes // PART_FOR_FORKS
        if sum(kept.bytes for kept in same) >= (most := for_forks if forks else self._model.most_bytes - for_forks):
            raise CommandError("too_many", f"{name}: the {what} of this session have {most} bytes or more; forget one")

    def preparations(self, command: Command) -> list[Preparation]:
        """What must be done before the model gets a command that `admit` has let in."""
        match command.name:
            case "reactor.save" | "reactor.fork":
                self._under_way = command.number, new_id()
                if command.arguments.get("world") is not None:
                    return [partial(self._load, command)]
            case "reactor.restore":
                return [partial(self._load, command)]
            case "reactor.forget":
                return [partial(self._forget, command.arguments["world"])]
        return []

    def answered(self, command: Command, answer: Answer) -> Answer:
        """Follow the answer of the model; returns the one for the client."""
        if command.number == self._read_for:
            self._read_for = None
            self._reading.release()
        if self._under_way is not None and command.number == self._under_way[0]:
            return self._saved(command, self._under_way[1], answer)
        if answer.code is not None or command.name not in ("reactor.rewind", "reactor.worlds"):
            return answer  # the step of a restored world is that of another session
        reply = msgspec.json.decode(answer.reply)
        if command.name == "reactor.worlds":
            reply["worlds"] = list(self._slots.values())
            reply["bytes"] += self.pictures.bytes
            reply["most"] += self.pictures.most_bytes
        for moment in (reply.get("moment"), reply.get("undo"), *reply.get("moments", ())):
            if moment is not None:
                moment["picture"] = self.pictures.has(moment["step"])
        return msgspec.structs.replace(answer, reply=msgspec.json.encode(reply))

    def recorded(self, command: Command, reply: bytes) -> bytes:
        """The data of an applied command for a recording: which world a replay needs. No id, since whoever has it may have
        the world.
        """
        name, arguments = command.name, command.arguments
        if name == "reactor.rewind" and not arguments["undo"]:
            return msgspec.json.encode({"step": msgspec.json.decode(reply)["moment"]["step"]})
        if (loaded := arguments.get("loaded")) is not None:
            return msgspec.json.encode(_named(loaded))
        if name in ("reactor.save", "reactor.fork") and self._under_way is not None:
            kept = self._slots[self._under_way[1]]
            step = None if arguments["step"] is None else kept.step  # None: the world as it was between two steps
            return msgspec.json.encode({"step": step, "age": kept.age})
        return b"{}" if name == "reactor.forget" else command.data

    async def run(self) -> None:
        """Task: store what was captured, until cancelled."""
        try:
            async for captured in self._to_store:
                await self._store_one(*captured)
        finally:
            self.pictures.close()
            if self._model.settings.store is None:
                for id in self._slots:  # noqa: A001
                    self._store.remove(id)

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _store_one(self, world: World | ArrivingWorld, kept: WorldInStore, subject: str) -> None:
        said, digest = {"world": kept.id}, None
        try:
            captured = await world.data() if isinstance(world, ArrivingWorld) else world
            digest = (await self._model.disk(self._save, captured, kept, subject)).digest
        except CommandError as error:
            self._slots.pop(kept.id, None)
            said |= {"code": error.code, "message": error.message}
        self._under_way = None
        if self.journal is not None:
            self.journal.saved(digest, said.get("code"))
        if (controller := self._attachments.get(self._controller)) is not None:
            controller.say("reactor.saved", said)

    def _saved(self, command: Command, id: str, answer: Answer) -> Answer:  # noqa: A002
        """Put what the model has captured, or what a fork names, into a slot and on the way into the store."""
        forks = command.name == "reactor.fork"
        world = command.arguments["loaded"].world if "loaded" in command.arguments else answer.world
        if answer.code is not None:
            self._under_way = None
            return answer
        now, keep = self._store.now(), self._model.settings.keep
        expires = now + (min(command.arguments["seconds"], keep) if forks else keep)
        label = command.arguments.get("name", "")
        kept = WorldInStore(id, label, world.step, world.age, world.size, now, expires)
        self._slots[id] = kept
        self._forks |= {id} if forks else set()
        # Whoever has the token of a fork may begin there, whosever the world was.
        self._captured.send_nowait((world, kept, "" if forks else self._subject))
        reply = {"fork": id, "expires": expires} if forks else {"world": kept}
        return msgspec.structs.replace(answer, reply=msgspec.json.encode(reply), world=None)

    def _save(self, world: World | PackedWorld, kept: WorldInStore, subject: str) -> SavedFile:
        origin = msgspec.structs.replace(
            self._model.origin(self._session_id), subject=subject, label=kept.name, saved_at=kept.saved_at
        )
        saved = self._model.save(kept.id, world, origin, kept.expires)
        if kept.id not in self._slots:  # the client was told that it failed: the disk took too long
            self._store.remove(kept.id)
        return saved

    async def _load(self, command: Command) -> None:
        """Read the world that a command names, once the model has answered the one before: a step may take long."""
        await self._reading.acquire()
        self._read_for = command.number  # its answer lets the next one go on
        arguments = command.arguments
        arguments["loaded"] = await self._model.load(arguments["world"], self._subject)

    async def _forget(self, id: str) -> None:  # noqa: A002
        await self._model.disk(self._store.forget, id, partial(self._model.here, self._subject))
        self._slots.pop(id, None)


def _named(loaded: LoadedWorld) -> dict[str, Any]:
    """How a recording names a world of a file: its moment, and the digest by which the file is found."""
    assert loaded.world is not None, "it was read here"
    return {"step": loaded.world.step, "age": loaded.world.age, "digest": loaded.digest}
