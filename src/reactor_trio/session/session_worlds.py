"""`SessionWorlds`: the worlds of a session on the I/O loop: pictures of moments, and what it saves, restores and forgets.

A command `reactor.save` is answered when the model has captured its world. Only then the world is packed and written, on a
worker thread, while steps and commands go on; `reactor.saved` says how that ended. A command `reactor.restore` is prepared:
the world is read and verified before the model gets the command, and those behind it wait.

A disk may stand still. The end of a session waits neither for a file that is being written nor for one that is being read:
the thread ends by itself, and a file of it is whole or absent.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import trio

from reactor_trio.configuration.settings import WorldSettings
from reactor_trio.crossing.messages import Answer, Command, Rewound
from reactor_trio.errors import CommandError
from reactor_trio.interface.declaration import Declaration
from reactor_trio.media import Bundle, Worker
from reactor_trio.placement.placement import Check
from reactor_trio.protocol import WorldInStore, WorldMoment
from reactor_trio.session.attachment import Attachment
from reactor_trio.session.command_preparation import Preparation, checked, moderate
from reactor_trio.session.moment_pictures import MomentPictures
from reactor_trio.session.upload_store import Disk
from reactor_trio.world_store import MemoryShelf, WorldStore, new_id
from reactor_trio.worlds import World
from reactor_trio.worlds.file_header import Origin
from reactor_trio.worlds.settings import moderated_texts

#: the part of the server's store that one session may fill
PART_OF_STORE: Final = 10


class ModelWorlds(msgspec.Struct, frozen=True):
    """What the worlds of a model's sessions have in common.

    Attributes:
        declaration: of the model, which saves its worlds.
        settings: of the server.
        sessions: how many there may be at once; each has an equal part of the memory.
        origin: returns what a file of today's model says, given the id of the session. Called on worker threads.
        store: of the server; None: each session has its own, in memory.
        disk: reads and writes away from the loop, and lets go of what is cancelled.
        worker: encodes and decodes pictures.
        check: the moderation hook; None: there is none.
    """

    declaration: Declaration
    settings: WorldSettings
    sessions: int
    origin: Callable[[str], Origin]
    store: WorldStore | None
    disk: Disk
    worker: Worker
    check: Check | None

    def store_of_session(self) -> tuple[WorldStore, int]:
        """Where a new session saves its worlds, and the bytes that it may have there."""
        if self.store is not None:
            return self.store, self.settings.store_bytes // PART_OF_STORE
        most, key = self.settings.ring // self.sessions, secrets.token_bytes(32)
        return WorldStore(MemoryShelf(), [key], most_bytes=most, world_bytes=self.settings.bytes), most


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
    """

    def __init__(
        self, model: ModelWorlds, session_id: str, subject: str, attachments: Mapping[int, Attachment], controller: int,
        show: Callable[[Bundle], object],
    ) -> None:  # fmt: skip
        self._model = model
        self._session_id, self._subject = session_id, subject
        self._attachments = attachments
        self._controller = controller
        self.pictures = MomentPictures(model.worker, model.settings.pictures // model.sessions, show)
        self._store, self._most_bytes = model.store_of_session()
        #: by id each world that this session has saved, also the one under way
        self._slots: dict[str, WorldInStore] = {}
        #: the number of the save that is under way, and its id
        self._under_way: tuple[int, str] | None = None
        self._captured, self._to_store = trio.open_memory_channel[tuple[World, WorldInStore]](1)

    def tell_moment(self, message: Rewound) -> None:
        """Tell each client that understands it that the world is another: before the answer, and before a picture of it."""
        picture = message.why == "rewind" and self.pictures.has(message.moment)
        moment = WorldMoment(message.moment, message.age, message.size, picture)
        data = {"step": message.step, "to": moment, "why": message.why}
        for attachment in self._attachments.values():
            if attachment.follows_worlds:
                attachment.say("reactor.moment", data)
        self.pictures.rewound(message)

    def admit(self, name: str) -> None:
        """Check that the session may save another world. Raises CommandError."""
        if name != "reactor.save":
            return
        if self._under_way is not None:
            raise CommandError("busy", "reactor.save: the world before it is still being saved; wait for reactor.saved")
        now = self._store.now()
        self._slots = {world: kept for world, kept in self._slots.items() if kept.expires > now}
        if len(self._slots) >= (most := self._model.settings.slots):
            raise CommandError("too_many", f"reactor.save: this session has {most} saved worlds; forget one")
        if sum(kept.bytes for kept in self._slots.values()) >= self._most_bytes:
            why = f"reactor.save: the worlds of this session have {self._most_bytes} bytes or more; forget one"
            raise CommandError("too_many", why)

    def preparations(self, command: Command) -> list[Preparation]:
        """What must be done before the model gets a command that `admit` has let in."""
        match command.name:
            case "reactor.save":
                self._under_way = command.number, new_id()
            case "reactor.restore":
                return [partial(self._load, command.arguments)]
            case "reactor.forget":
                return [partial(self._forget, command.arguments["world"])]
        return []

    def answered(self, command: Command, answer: Answer) -> Answer:
        """Follow the answer of the model; returns the one for the client."""
        if self._under_way is not None and command.number == self._under_way[0]:
            return self._saved(command.arguments["name"], self._under_way[1], answer)
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

    async def run(self) -> None:
        """Task: store what was captured, until cancelled."""
        async for world, kept in self._to_store:
            said = {"world": kept.id}
            try:
                await self._model.disk(self._save, world, kept)
            except CommandError as error:
                del self._slots[kept.id]
                said |= {"code": error.code, "message": error.message}
            self._under_way = None
            if (controller := self._attachments.get(self._controller)) is not None:
                controller.say("reactor.saved", said)

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _saved(self, label: str, id: str, answer: Answer) -> Answer:  # noqa: A002
        if (world := answer.world) is None:
            self._under_way = None
            return answer
        now = self._store.now()
        self._slots[id] = kept = WorldInStore(
            id, label, world.step, world.age, world.size, now, now + self._model.settings.keep
        )
        self._captured.send_nowait((world, kept))
        return msgspec.structs.replace(answer, reply=msgspec.json.encode({"world": kept}), world=None)

    def _save(self, world: World, kept: WorldInStore) -> None:
        origin = msgspec.structs.replace(self._origin(self._session_id), label=kept.name, saved_at=kept.saved_at)
        self._store.save(kept.id, world, origin, kept.expires)

    def _origin(self, session_id: str) -> Origin:
        return msgspec.structs.replace(self._model.origin(session_id), subject=self._subject, session=session_id)

    def _here(self, saved: Origin) -> Origin:
        return self._origin(saved.session)

    async def _load(self, arguments: dict[str, Any]) -> None:
        state, declared, accept = self._model.declaration.state, self._model.declaration.world, self._model.settings.accept
        assert declared is not None, "a model without worlds has no SessionWorlds"
        load = partial(self._store.load, reads=declared.saves.reads, accept=accept)
        arguments["loaded"] = loaded = await self._model.disk(load, arguments["world"], self._here, declared.classes)
        texts = [] if state is None else checked("reactor.restore", moderated_texts(state, loaded[0]))
        if texts and (check := self._model.check) is not None:
            await moderate(check, "reactor.restore", texts)

    async def _forget(self, id: str) -> None:  # noqa: A002
        await self._model.disk(self._store.forget, id, self._here)
        self._slots.pop(id, None)
