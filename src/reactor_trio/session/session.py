"""A session's half on the I/O loop: it owns the model's half and the playout, and knows no socket.

    connection scope -> Session.run -> nursery -+- host.run(half.run)   model loop: hooks, commands, steps, close
                                                '- playout.run          I/O loop: due bundles to the attachments

Clients attach and detach; the session hands each due bundle and each message to those that are there and waits for none.
Leaving `run` is the end: the model's half has unwound, what was queued is gone, and the reason is known.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
import trio

from reactor_trio.errors import CommandError, UploadRefused
from reactor_trio.interface.blocking_tracks import fixed_rate
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.files import UploadedFile
from reactor_trio.interface.input import InputFrame
from reactor_trio.interface.model import Model
from reactor_trio.media import Bundle
from reactor_trio.model_host import ModelHost
from reactor_trio.pacing import BlockCadence, Cadence, Ceiling, Lookahead
from reactor_trio.protocol import EndReason
from reactor_trio.session.attachment import Attachment, Flood, Journal
from reactor_trio.session.intake import Intake, Preparation
from reactor_trio.session.lifetime import Lifetime, TimeLimits
from reactor_trio.session.mailbox import Mailbox
from reactor_trio.session.model_half import FILE_UPLOADED, Answer, ModelHalf
from reactor_trio.session.moderation import Check, moderations
from reactor_trio.session.pending import Command
from reactor_trio.session.playout import Playout
from reactor_trio.session.port import Port
from reactor_trio.session.uploads import Disk, Upload, UploadLimits, UploadStore

log = logging.getLogger("reactor_trio.session")

#: Code of a command that the session did not come to, for the record.
SESSION_OVER: Final = "session_over"


class CommandRecord(msgspec.Struct, frozen=True):
    """A command that is over.

    Attributes:
        session_id, client: whose it was; the client by its number.
        at, answered: when it came, and when it was applied or refused, in `trio.current_time()` seconds.
        step: the first step that sees it.
        code: why it was refused, or `SESSION_OVER`; None: it was applied.
        traceparent: what the client said of the trace that it is part of.
    """

    session_id: str
    client: int
    name: str
    id: int | None
    at: float
    answered: float
    step: int
    code: str | None
    traceparent: str | None


class SessionServices(msgspec.Struct, frozen=True):
    """What a session needs of its server.

    Attributes:
        max_fps, buffer_size: pacing, from the class or the manifest.
        hold: whether the model waits for slow clients.
        debug: whether clients are told the text of an author's exception.
        stuck_after: seconds after which a step that outlives its session is reported with its stack.
        moderate: checks the text in commands, None if nothing does.
        commands_per_second, pending_commands, unanswered_commands: limits of what one client may have under way.
        uploads, disk: what files a session may have, and how they are written and read.
        times: how long a session may last.
        dropped: counts frames dropped: place, reason, number.
        underrun: counts times when sound had to wait for the model.
        handed: told of each bundle handed: frames, lateness, time since the one before (None: there was none), and of the
            first of a step how long that took, if known (else None); in seconds.
        commanded: told of each command that is over.
        stuck: told when a step outlives its session for too long (True), and when it ends after all (False).
    """

    host: ModelHost
    model: Model
    port: Port
    declaration: Declaration
    max_fps: float
    buffer_size: int
    hold: bool
    debug: bool
    stuck_after: float
    commands_per_second: float
    pending_commands: int
    unanswered_commands: int
    uploads: UploadLimits
    disk: Disk
    dropped: Callable[[str, str, int], None]
    underrun: Callable[[], None]
    handed: Callable[[int, float, float | None, float | None], None]
    commanded: Callable[[CommandRecord], None]
    stuck: Callable[[str, bool], None]
    moderate: Check | None = None
    times: TimeLimits = TimeLimits()


@dataclass(slots=True)
class _Unanswered:
    number: int
    name: str
    id: int | None
    shares: bool  # its place in the order is that of the one before it
    data: bytes  # as it was sent, if a journal will ask
    at: float
    traceparent: str | None


class Session:
    """One client's time with the model.

    Args:
        session_id: unique name, for the wire and the log.
        controller: number and joining time of the controlling client.
        over: told when the session has ended.
        length: seconds that it may last, if that is less than what the services say.
    """

    def __init__(
        self,
        session_id: str,
        services: SessionServices,
        controller: tuple[int, float],
        over: Callable[[Session], None] = lambda _session: None,
        length: float | None = None,
    ) -> None:
        self.id = session_id
        self.began = trio.current_time()
        self.ended = trio.Event()
        self.reason: EndReason | None = None
        self.error: Exception | None = None
        #: told what happens, if the session is recorded
        self.journal: Journal | None = None
        #: the client's files; None if the model takes none
        self.uploads = UploadStore(services.uploads, services.disk) if services.declaration.takes_files else None
        self._services = services
        self._over = over
        self._attachments: dict[int, Attachment] = {}
        self._controller = controller[0]
        self._scope = trio.CancelScope()
        times = services.times
        if length is not None:
            times = msgspec.structs.replace(times, length=min(length, times.length))
        self.lifetime = Lifetime(times, self._tell_ending, self.end, self._dismiss)
        self._last: tuple[Bundle, float] | None = None
        self._shown_at: float | None = None
        self._shown_step = -1
        self._numbers = 0
        self._unanswered: deque[_Unanswered] = deque()
        self._places = 0
        self._allowance = services.commands_per_second
        self._allowance_at = self.began
        mailbox, words = Mailbox(services.host.post_io, asleep=True), Mailbox(services.host.post, asleep=False)
        self._words = words
        self._ceiling = Ceiling()
        self.playout = Playout(
            self._hand, self._wait_free if services.hold else None, services.dropped, services.underrun, mailbox, words
        )
        self._half = ModelHalf(
            session_id=session_id, model=services.model, port=services.port, declaration=services.declaration,
            host=services.host, session=self, playout=self.playout, mailbox=mailbox, words=words, client=controller,
            cadence=self._cadence(),
            lookahead=Lookahead(services.buffer_size, assume=not services.hold),
        )  # fmt: skip
        self.playout.connect(self._half.outflow)
        self._intake = Intake(lambda command: self._words.send(self._half.command, command), self._refused)
        self._inflow = services.port.inflow
        self._inflow_number = self._inflow.begin()

    async def run(self) -> None:
        """The session's whole life; cancelled when its connection goes. Returns when the model has let go of it."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.playout.run)
                nursery.start_soon(self._intake.run)
                nursery.start_soon(self.lifetime.run)
                with self._scope:
                    await self._run_model()
                if self.error is not None:
                    self._model_failed(self.error)
                nursery.cancel_scope.cancel()
        finally:
            self.playout.close()
            if self.uploads is not None:
                await self.uploads.aclose()
            self.reason = self.reason or "client_left"
            self.ended.set()
            for entry in self._unanswered:
                self._record(entry, 0, SESSION_OVER)
            self._unanswered.clear()
            self._over(self)
            self._dismiss()

    def end(self, reason: EndReason) -> None:
        """End the session from this side; `run` returns when the model has unwound.

        Its clients are told goodbye then, or after `TimeLimits.farewell` if a step still computes.
        """
        self.reason = self.reason or reason
        self._scope.cancel()
        self.lifetime.over()

    # ---- attachments --------------------------------------------------------------------------------------------------

    def attach(self, attachment: Attachment) -> None:
        """A client watches from now on; it is given the last picture at once."""
        self._attachments[attachment.number] = attachment
        if (ending := self.lifetime.in_sight()) is not None:
            attachment.say("reactor.ending", ending)
        if self._last is not None:
            attachment.offer(*self._last)

    def detach(self, attachment: Attachment) -> None:
        """A client watches no longer."""
        self._attachments.pop(attachment.number, None)

    @property
    def controller(self) -> int:
        """Number of the controlling client."""
        return self._controller

    @property
    def viewers(self) -> int:
        """Clients attached."""
        return len(self._attachments)

    def leftovers(self) -> list[str]:
        """What is still there of this session although it has ended, in words; for leak checks."""
        if not self.ended.is_set():
            return ["it has not ended"]
        queued = f"{len(self.playout)} queued bundles" if len(self.playout) else ""
        files = f"{len(self.uploads)} uploads" if self.uploads else ""
        return [what for what in (self._half.what_is_left(), queued, files) if what]

    # ---- commands -----------------------------------------------------------------------------------------------------

    def submit(self, name: str, data: bytes, id: int | None, traceparent: str | None = None) -> None:  # noqa: A002
        """A command of the controlling client. Raises CommandError if it is refused here, Flood if that is too much.

        `traceparent`: what the client says of the trace that it is part of.
        """
        self.lifetime.acted()
        if len(self._unanswered) >= self._services.unanswered_commands:
            raise Flood
        try:
            self._submit(name, data, id, traceparent)
        except CommandError as error:
            self._record(_Unanswered(0, name, id, False, b"", trio.current_time(), traceparent), 0, error.code)
            if self.journal is not None and error.code != "busy":  # a flood is not worth a disk
                self.journal.refused(name, data, id, error.code, error.message)
            raise

    def _submit(self, name: str, data: bytes, id: int | None, traceparent: str | None) -> None:  # noqa: A002
        self._spend_allowance()
        files: list[UploadedFile] = []
        spec, arguments = self._services.declaration.decode(name, data, partial(self._find_file, files))
        last = self._unanswered[-1] if self._unanswered else None
        shares = spec.handler is None and last is not None and last.name == name
        if not shares and self._places >= self._services.pending_commands:
            raise CommandError("busy", f"{self._places} commands are pending; wait for their answers")
        self._numbers += 1
        self._places += not shares
        kept, now = b"" if self.journal is None else data, trio.current_time()
        self._unanswered.append(_Unanswered(self._numbers, name, id, shares, kept, now, traceparent))
        preparations: list[Preparation] = [partial(self._load_file, name, file) for file in files]
        preparations += moderations(self._services.moderate, spec, arguments)
        self._intake.add(Command(self._numbers, self._controller, name, arguments, id, now), preparations)

    async def upload(self, name: str, mime_type: str, size: int, body: AsyncIterator[bytes]) -> Upload:
        """A file of the controlling client, `size` bytes; `@file_uploaded` is told when it is complete.

        Raises UploadRefused, and what `body` raises.
        """
        if self.uploads is None:
            raise UploadRefused(404, "this model takes no files")
        with self.lifetime.busy():
            upload = await self.uploads.receive(name, mime_type, size, body)
        if self.journal is not None:
            self.journal.uploaded(upload.id, upload.name, upload.size)
        hook = self._services.declaration.file_uploaded
        if hook is not None and self.uploads.token is not None:
            assert hook.file_parameter is not None
            file = self.uploads.find(upload.id)
            self._intake.add(
                Command(0, self._controller, FILE_UPLOADED, {hook.file_parameter: file}, None),
                [partial(self._load_file, FILE_UPLOADED, file)],
            )
        return upload

    # ---- input frames -------------------------------------------------------------------------------------------------

    def take_input(self, track: str, frame: InputFrame) -> None:
        """A frame of an input track, from the controlling client. Never waits."""
        self.lifetime.acted()
        self._inflow.put(self._inflow_number, track, frame)

    # ---- heard from the model's half ----------------------------------------------------------------------------------

    def answered(self, answer: Answer) -> None:
        """Commands were applied or refused: answer each that has an id."""
        numbers = set(answer.numbers)
        controller = self._attachments.get(self._controller)
        kept: deque[_Unanswered] = deque()
        for entry in self._unanswered:
            if entry.number not in numbers:
                kept.append(entry)
                continue
            self._record(entry, answer.step, answer.code)
            if self.journal is not None:
                self._enter(self.journal, entry, answer)
            if controller is None:
                continue
            if answer.code is not None:
                hidden = answer.code == "internal_error" and not self._services.debug
                message = "the model's handler raised an exception" if hidden else answer.message
                controller.say("reactor.error", {"code": answer.code, "message": message}, entry.id)
            elif entry.id is not None:
                controller.say("reactor.ack", {"step": answer.step, "reply": answer.reply}, entry.id)
        self._unanswered = kept
        self._places = sum(not entry.shares for entry in kept)

    def tell(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's words
        """A model message for every client, or for one."""
        if self.journal is not None:
            self.journal.told(type, data, client)
        for number, attachment in self._attachments.items():
            if client is None or number == client:
                attachment.say(type, data)

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _record(self, entry: _Unanswered, step: int, code: str | None) -> None:
        self._services.commanded(CommandRecord(
            self.id, self._controller, entry.name, entry.id, entry.at, trio.current_time(), step, code, entry.traceparent
        ))  # fmt: skip

    def _dismiss(self) -> None:
        assert self.reason is not None
        for attachment in list(self._attachments.values()):
            attachment.end(self.reason, self._why())

    def _tell_ending(self, data: dict[str, Any]) -> None:
        for attachment in self._attachments.values():
            attachment.say("reactor.ending", data)

    def _enter(self, journal: Journal, entry: _Unanswered, answer: Answer) -> None:
        if answer.code is None:
            superseded = entry.number != max(answer.numbers)
            journal.commanded(entry.name, entry.data, entry.id, answer.step, superseded)
        else:
            journal.refused(entry.name, entry.data, entry.id, answer.code, answer.message)

    def _cadence(self) -> Cadence:
        services = self._services
        if services.declaration.kind != "blocking":
            return Cadence(services.port.declared_fps, services.max_fps)
        fixed = fixed_rate(type(services.model))
        return BlockCadence(fixed or services.port.declared_fps, services.max_fps, fixed=fixed is not None)

    def _refused(self, command: Command, error: CommandError) -> None:
        self.answered(Answer((command.number,), 0, code=error.code, message=error.message))

    def _hand(self, bundle: Bundle, due: float) -> None:
        pts = due - self.began
        self._last = (bundle, pts)
        lateness, origin = self.playout.last_lateness, bundle.origin
        interval = None if self._shown_at is None else due + lateness - self._shown_at
        first = origin.step != self._shown_step and origin.seconds > 0
        self._shown_at, self._shown_step = due + lateness, origin.step
        self._services.handed(len(bundle.tracks), lateness, interval, origin.seconds if first else None)
        if not self._attachments:
            self._services.dropped("session", "no_viewer", len(bundle.tracks))
        outpaced = [attachment.offer(bundle, pts) for attachment in self._attachments.values()]
        if outpaced and self._ceiling.handed(due, all(outpaced)):
            self._words.leave(self._half.outflow.limit, self._ceiling.fps)

    async def _wait_free(self) -> None:
        for attachment in list(self._attachments.values()):
            await attachment.wait_free()

    def _find_file(self, found: list[UploadedFile], upload_id: str) -> UploadedFile:
        if self.uploads is None:
            raise LookupError
        found.append(self.uploads.find(upload_id))
        return found[-1]

    async def _load_file(self, command: str, file: UploadedFile) -> None:
        assert self.uploads is not None
        try:
            await self.uploads.load(file)
        except OSError as error:
            log.error("session %s: a file of %s cannot be read", self.id, command, exc_info=error)
            raise CommandError("unresolved_upload", f"the file cannot be read: {error}") from error

    def _spend_allowance(self) -> None:
        rate, now = self._services.commands_per_second, trio.current_time()
        self._allowance = min(rate, self._allowance + (now - self._allowance_at) * rate)
        self._allowance_at = now
        if self._allowance < 1:
            raise CommandError("busy", f"more than {rate:g} commands a second")
        self._allowance -= 1

    def _model_failed(self, error: Exception) -> None:
        self.reason = "model_error"
        log.error("session %s: the model raised", self.id, exc_info=error)

    def _why(self) -> str:
        if self.error is None or not self._services.debug:
            return ""
        return f"{type(self.error).__name__}: {self.error}"

    async def _run_model(self) -> None:
        unwound = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report_if_stuck, unwound)
            if self.uploads is not None:
                nursery.start_soon(self._end_uploads, self.uploads)
            try:
                self.error = await self._services.host.run(self._half.run)
                self.reason = self.reason or "done"  # nobody ended it but the model
            finally:
                unwound.set()
            nursery.cancel_scope.cancel()

    async def _end_uploads(self, uploads: UploadStore) -> None:
        """Uploads end with the session, not only when the step that runs lets it unwind."""
        try:
            await trio.sleep_forever()
        finally:
            uploads.end()

    async def _report_if_stuck(self, unwound: trio.Event) -> None:
        """The end of a session waits for the step that runs; if that takes long, say which one and where it is."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(self._services.stuck_after, shield=True) as limit:
                await unwound.wait()
            if limit.cancelled_caught:
                self._services.stuck(self.id, True)
                log.error(
                    "session %s: %s still computes %g s after the session ended, and the next client waits for it. "
                    "Poll self.cancelled() in long steps. It is here:\n%s",
                    self.id, type(self._services.model).__name__, self._services.stuck_after,
                    self._services.host.stack(),
                )  # fmt: skip
                with trio.CancelScope(shield=True):
                    await unwound.wait()
                self._services.stuck(self.id, False)
