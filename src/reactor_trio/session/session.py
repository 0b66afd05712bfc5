"""A session on the I/O loop: it owns the model's side and the playout, and knows no socket.

    Session.run -+- model generator   the model's side, by `SessionRun.run`: hooks, commands, steps, close
                 |- pacer             due bundles to the attachments
                 '- command preparation, setting values, limits

Clients attach and detach. The session hands each due bundle and each message to the attached clients and waits for none of
them. When `run` returns, the model has let go of the session, the queue is empty, and the reason of the end is known.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import trio

from reactor_trio.crossing import messages
from reactor_trio.crossing.message_flow import MessageReports
from reactor_trio.crossing.messages import Answer, Command, ModelMessageSent, StateValuesChanged
from reactor_trio.errors import CommandError
from reactor_trio.execution.author_failures import words_for_clients
from reactor_trio.execution.session_run import FILE_UPLOADED
from reactor_trio.interface.files import UploadedFile
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.interface.json_values import argument
from reactor_trio.lifecycle import Stepping, SteppingEvent
from reactor_trio.media import Bundle
from reactor_trio.pacing import EncoderPace, FrameRateCap
from reactor_trio.protocol import PLAYBACK, EndReason
from reactor_trio.protocol.refusals import Refusal, Refused
from reactor_trio.session import command_preparation, playback_commands
from reactor_trio.session.attachment import Attachment, Journal
from reactor_trio.session.command_ledger import CommandLedger
from reactor_trio.session.command_preparation import CommandPreparer, Preparation, moderations, undecoded
from reactor_trio.session.late_code import FAREWELL, LateCode, comes_within
from reactor_trio.session.lifetime import Lifetime
from reactor_trio.session.playout import Playout
from reactor_trio.session.session_services import SessionServices
from reactor_trio.session.setting_values import KnownValues
from reactor_trio.session.upload_store import StoredUpload, UploadStore

log = logging.getLogger("reactor_trio.session")

#: The text that a client sees of an exception whose own text it may not see.
HIDDEN = "the model's handler of {} raised; the terminal of `reactor run` shows the line, and `--debug` tells it here"


class Session:
    """One client's time with the model.

    Args:
        session_id: unique name, for the wire and the log.
        services: what the server gives it.
        controller: number and joining time of the controlling client.
        length: seconds that it may last, if that is less than the limit of the settings; infinity: that limit.
        subject: whose it is, "" if that is not known.
    """

    def __init__(
        self, session_id: str, services: SessionServices, controller: tuple[int, float], length: float, subject: str
    ) -> None:
        declaration, limits = services.placement.declaration, services.settings.limits
        self.id = session_id
        self.began, self.ended = trio.current_time(), trio.Event()
        self.reason: EndReason | None = None
        #: the exception of model code that ended the session; if it is no Exception it ended the model too
        self.error: BaseException | None = None
        #: records what happens, if the session is recorded
        self.journal: Journal | None = None
        self.stepping = Stepping.FREE
        #: the client's files; None if the model takes none
        self.uploads = UploadStore(services.settings.uploads, services.disk) if declaration.takes_files else None
        self.services = services
        self._attachments: dict[int, Attachment] = {}
        #: the values of the settings, and what each client knows of them
        self.values = KnownValues(declaration.settings, self._attachments)
        self.controller = controller[0]  # number of the controlling client
        self._scope = trio.CancelScope()
        self.lifetime = Lifetime(limits, length)
        self._last: tuple[Bundle, float] | None = None
        self._shown_at: float | None = None
        self._shown_step = -1
        self._ledger = CommandLedger(session_id, self.controller, services.settings, services.telemetry.commanded)
        self._frame_rate_cap = FrameRateCap()
        self._run = services.placement.open_session_run(session_id, controller)
        self._channel = self._run.channel
        self._reports = MessageReports(self._channel)
        self.playout = Playout(services.telemetry, self._channel)
        self._late = LateCode(session_id, declaration.model.__name__, services.telemetry)
        whose = session_id, subject, self._attachments, self.controller
        self.worlds = None if services.worlds is None else services.worlds.of_session(*whose, self._show_again)
        self._channel.connect({
            Bundle: self.playout.put, messages.FlushPlayout: self.playout.flush, messages.RetimePlayout: self.playout.retime,
            Answer: self._answered, StateValuesChanged: self._state_changed, ModelMessageSent: self._model_sent,
            messages.LateCall: partial(self._late.take, self._say),
            messages.Rewound: playback_commands.no_worlds if self.worlds is None else self.worlds.tell_moment,
        })  # fmt: skip
        self._preparer, self._failure, self._goodbye_said = CommandPreparer(), "", False

    async def run(self) -> None:
        """Run the session's whole life. Returns when the model has let go of it, also after a cancellation."""
        until_free = self._wait_free if self.services.settings.slow_client == "hold" else None
        try:
            async with trio.open_nursery() as tasks:
                tasks.start_soon(self._preparer.run, self._channel.send, self._refused, name="command preparation")
                tasks.start_soon(self._run_model, tasks.cancel_scope, name="model generator")
                tasks.start_soon(self.playout.run, self._hand, until_free, name="pacer")
                tasks.start_soon(self.values.run, name="setting values")
                if self.worlds is not None:
                    tasks.start_soon(self.worlds.pictures.run, name="pictures of moments")
                    tasks.start_soon(self.worlds.run, name="saved worlds")
                tasks.start_soon(self.lifetime.run, self._say, self.end, name="limits")
        except Exception:  # a fault of the runtime, unless author code has raised (below)
            self.reason = self.reason or "replica_failed"
            raise
        finally:
            if self.error is not None:  # also if the client has left at the same moment
                self.reason = "model_error"
                who = self._run.failed_hook or "the model"
                self.services.failures.log(log, self.error, "session %s: %s raised", self.id, who)
            self.playout.close()
            self._run.close()
            if self.uploads is not None:
                await self.uploads.aclose()
            self.reason = self.reason or "client_left"
            self.ended.set()
            self._ledger.discard()
            self._dismiss(list(self._attachments.values()))
            self._last = None

    def begin_at(self, loaded: Any) -> None:
        """Go on from a saved world (`execution.landing.LoadedWorld`) before the first step. Call it before `run`."""
        assert self.worlds is not None, "the model saves its worlds"
        self._channel.send(self.worlds.begin_command(self._ledger.next_number(), loaded))

    def end(self, reason: EndReason, failure: str = "") -> None:
        """End the session from this side; `run` returns when the model has let go of it.

        Its clients get the goodbye then, or after `late_code.FAREWELL` seconds if a step still computes.

        Args:
            failure: what the model did, in words, if that is the reason; clients see it only with `debug`.
        """
        self.reason = self.reason or reason
        self._failure = self._failure or failure
        self._scope.cancel()
        self.lifetime.over()

    # ---- attachments --------------------------------------------------------------------------------------------------

    def attach(self, attachment: Attachment) -> None:
        """Attach a client, and give it the last picture at once."""
        self._attachments[attachment.number] = attachment
        self._see_who_watches()
        if (ending := self.lifetime.in_sight()) is not None:
            attachment.say("reactor.ending", ending)
        self._late.repeat(attachment.say)
        if self._last is not None:
            self._offer(attachment, *self._last)
        if self._goodbye_said:
            self._dismiss([attachment])

    def detach(self, attachment: Attachment) -> None:
        """Detach a client."""
        self._attachments.pop(attachment.number, None)
        self.values.forget(attachment.number)
        self._see_who_watches()

    def keep_for(self, detached: Attachment) -> None:
        """Attach `detached` for the controlling client, which is away and may come back, until it attaches again."""
        self._attachments[detached.number] = detached
        self._see_who_watches()

    # ---- commands -----------------------------------------------------------------------------------------------------

    def submit(self, name: str, data: bytes, id: int | None, traceparent: str | None = None) -> None:  # noqa: A002
        """Take a command of the controlling client. Raises CommandError to refuse it, Flood to close the client."""
        self.lifetime.acted()
        files: dict[str, UploadedFile] = {}
        try:
            self._ledger.admit()
            preparations: list[Preparation] = []
            if name in PLAYBACK:
                arguments = playback_commands.checked_playback(self.services, self.worlds, self.stepping, name, data)
                sharing = playback_commands.SHARING.get(name, "none")
            else:
                spec = self.services.placement.declaration.command(name)
                try:
                    arguments = spec.arguments.decode(data, partial(command_preparation.find_file, self.uploads, files))
                except Exception as error:
                    raise undecoded(name, error, self.services.failures, self.id, self.services.debug) from None
                preparations, sharing = moderations(self.services.placement.moderate, spec, arguments), spec.sharing
            command = self._ledger.add(name, arguments, data, files, id, traceparent, sharing, self._shown_step)
        except CommandError as error:
            self._ledger.refused(name, id, traceparent, error.code)
            if self.journal is not None and error.code != "busy":  # a flood is not worth a disk
                self.journal.refused(name, data, id, error.code, error.message)
            raise
        if name in PLAYBACK:
            self._steer(command)
            preparations = [] if self.worlds is None else self.worlds.preparations(command)
        load = partial(command_preparation.load_file, self.uploads, self.id, name)
        preparations = [*(partial(load, file) for file in files.values()), *preparations]
        if preparations or self._preparer:
            self._preparer.add(command, preparations)
        else:
            self._channel.send(command)

    async def upload(self, name: str, mime_type: str, size: int, body: AsyncIterator[bytes]) -> StoredUpload:
        """Take a file of `size` bytes of the controlling client, and call `@file_uploaded` when it is complete.

        Raises Refused, and the exceptions of `body`.
        """
        if self.uploads is None:
            raise Refused(Refusal("not_found", "this model takes no files"))
        try:
            with self.lifetime.busy():
                upload = await self.uploads.receive(name, mime_type, size, body)
        except Refused as refused:
            if refused.refusal.kind.status >= 500:  # the server's fault, not the client's
                why = "session %s: an upload failed: %s (runtime.uploads.folder says where files go)"
                log.error(why, self.id, refused.refusal.message)
            raise
        if self.journal is not None:
            self.journal.uploaded(upload)
        hook = self.services.placement.declaration.file_uploaded
        if hook is not None and self.uploads.token is not None:
            assert hook.file_parameter is not None
            file, number = self.uploads.find(upload.id), self._ledger.next_number()
            arguments, files = {hook.file_parameter: file}, {upload.id: file}
            command = Command(number, self.controller, FILE_UPLOADED, arguments, None, files=files, group=number)
            self._preparer.add(command, [partial(command_preparation.load_file, self.uploads, self.id, FILE_UPLOADED, file)])
        return upload

    # ---- input frames -------------------------------------------------------------------------------------------------

    def take_input(self, track: str, frame: InputFrame) -> None:
        """Take a frame of an input track of the controlling client. Never waits."""
        self.lifetime.acted()
        self._run.take_input(track, frame)

    # ---- messages of the model's side ---------------------------------------------------------------------------------

    def _answered(self, answer: Answer) -> None:
        """Answer commands that were applied or refused; an applied command only if it has an id."""
        controller = self._attachments.get(self.controller)
        self.values.change(answer.values)
        for command in self._ledger.take(answer):
            if self.worlds is not None:
                answer = self.worlds.answered(command, answer)
            if answer.code is None:
                self._applied(command, answer)
            elif self.journal is not None:
                self.journal.refused(command.name, command.data, command.id, answer.code, answer.message)
            if controller is None:
                continue
            if answer.code is not None:
                hidden = answer.code == "internal_error" and not self.services.debug
                data = {"code": answer.code, "message": HIDDEN.format(command.name) if hidden else answer.message}
                controller.say("reactor.error", data, command.id)
            elif command.id is not None:
                controller.say("reactor.ack", {"step": answer.step, "reply": msgspec.Raw(answer.reply)}, command.id)
        self.values.tell()  # after the answer: values that come before it are older than the command

    def _state_changed(self, message: StateValuesChanged) -> None:
        """Take over values of settings that author code has set."""
        self.values.change(message.values)
        self.values.tell()

    def _model_sent(self, message: ModelMessageSent) -> None:
        """Send a message of the model to every client, or to one."""
        data = msgspec.Raw(message.data)
        if self.journal is not None:
            self.journal.told(message.type, data, message.client)
        for number, attachment in self._attachments.items():
            if message.client is None or number == message.client:
                attachment.say(message.type, data)
        self._reports.took(len(message.data))

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _steer(self, command: Command) -> None:
        """Hold the picture and the next step, or let the picture go on, now: the command may wait, for a step or others."""
        if command.name not in ("reactor.pause", "reactor.step"):
            return
        if pauses := command.arguments.get("paused"):  # None: a step
            self.playout.pause()
            self._channel.send(messages.PauseSteps(command.number))
        else:
            self.playout.resume(command.at)
            self._shown_at = None  # the time between two frames is not the model's
        if pauses is not None and self._change(SteppingEvent.PAUSE if pauses else SteppingEvent.RESUME):
            self._say("reactor.transport", {"paused": pauses})

    def _applied(self, command: Command, answer: Answer) -> None:
        name, data = command.name, command.data
        if self.journal is not None and name != "reactor.worlds":  # it changes nothing
            carried_out = data if self.worlds is None else self.worlds.recorded(command, answer.reply)
            self.journal.commanded(name, carried_out, command.id, answer.step, command.number != max(answer.numbers))
        field = name.removeprefix("set_")  # the client takes a setting to have its value, also if a handler sets it
        known = field != name and field in self.services.placement.declaration.settings
        if known and (given := argument(data, field)) is not None:
            self.values.set_by(self.controller, field, given)

    def _dismiss(self, attachments: list[Attachment]) -> None:
        assert self.reason is not None
        for attachment in attachments:
            attachment.end(self.reason, self._why())

    def _say(self, type: str, data: Any) -> None:  # noqa: A002 - the wire's word
        for attachment in self._attachments.values():
            attachment.say(type, data)

    def _refused(self, command: Command, error: CommandError) -> None:
        self._answered(Answer((command.number,), 0, code=error.code, message=error.message))

    def _hand(self, bundle: Bundle, due: float) -> None:
        self._last = (bundle, pts := due - self.began)
        lateness, origin = self.playout.last_lateness, bundle.origin
        interval = None if self._shown_at is None else due + lateness - self._shown_at
        if self.worlds is not None:
            self.worlds.pictures.shown(bundle, due)
        first = origin.step != self._shown_step and origin.seconds > 0
        self._shown_at, self._shown_step = due + lateness, origin.step
        self.services.telemetry.handed(len(bundle.tracks), lateness, interval, origin.seconds if first else None)
        if self.journal is None and not self._watched:
            self.services.telemetry.dropped("session", "no_viewer", len(bundle.tracks))
        paces = [self._offer(attachment, bundle, pts) for attachment in list(self._attachments.values())]
        if self._frame_rate_cap.handed(due, outpaced="outpaced" in paces and "kept_up" not in paces):
            self._channel.send(messages.SetFpsLimit(self._frame_rate_cap.fps))

    def _show_again(self, bundle: Bundle) -> None:
        """Show the picture of the moment that the session goes on from, unless a frame that it has made since is shown."""
        if self._shown_step <= bundle.origin.step and self._last is not None:
            # Between two frames, both of which may be due now.
            pts = max(self._last[1] + 1e-6, trio.current_time() - self.began - 1e-6)
            self._last, self._shown_step = (bundle, pts), bundle.origin.step
            for attachment in list(self._attachments.values()):
                self._offer(attachment, bundle, pts)

    def _offer(self, attachment: Attachment, bundle: Bundle, pts: float) -> EncoderPace:
        try:
            return attachment.offer(bundle, pts)
        except Exception as error:  # a fault of the runtime at one client must not end the session of the others
            why = "session %s: client %d cannot be shown a frame: please report this"
            log.error(why, self.id, attachment.number, exc_info=error)
            self.detach(attachment)
            attachment.end("replica_failed", "the server failed to prepare pictures for this client; its log says why")
            return "unknown"

    @property
    def _watched(self) -> bool:
        return any(attachment.watches for attachment in self._attachments.values())

    def _see_who_watches(self) -> None:
        """Let the model rest while the controlling client is away and no viewer watches."""
        watched = self.controller not in self._attachments or self._watched
        if self.reason is None and self._change(SteppingEvent.WATCH if watched else SteppingEvent.UNWATCH):
            self._channel.send(messages.SetWatched(watched))

    def _change(self, event: SteppingEvent) -> bool:
        """Follow the event; whether that has changed anything."""
        before, self.stepping = self.stepping, self.stepping.after(event)
        return self.stepping is not before

    async def _wait_free(self) -> None:
        for attachment in list(self._attachments.values()):
            await attachment.wait_free()

    def _why(self) -> str:
        """The text about the model's failure for the clients; empty if there was none."""
        why = words_for_clients(self.error or self._failure, self._run.failed_hook, self.services.debug)
        return why if self.reason == "model_error" else ""

    async def _run_model(self, tasks: trio.CancelScope) -> None:
        closed = trio.Event()
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._see_to_end, closed)
                nursery.start_soon(self._bound_farewell, closed)
                try:
                    await self._run.run()
                    self.reason = self.reason or self.lifetime.reason(self._run.reason)  # the model ended it
                finally:
                    self.error = self._run.raised
                    closed.set()
                nursery.cancel_scope.cancel()
        tasks.cancel()

    async def _see_to_end(self, closed: trio.Event) -> None:
        """Task: wait for the session's end, a cancel; then end uploads, and report a step that goes on, until `closed`."""
        try:
            await trio.sleep_forever()
        finally:
            if self.uploads is not None:
                self.uploads.end()
            await self._late.see_out(closed, self.services.settings.stuck_after, self._run.stack)

    async def _bound_farewell(self, closed: trio.Event) -> None:
        """Task: wait to be cancelled, as `_see_to_end`; then say goodbye to the clients if a step goes on."""
        try:
            await trio.sleep_forever()
        finally:
            if not await comes_within(FAREWELL, closed):
                self.reason = self.reason or "client_left"
                self._goodbye_said = True
                self._dismiss([each for each in self._attachments.values() if each.watches])  # not a recording
