"""A client that checks all that it is sent: whose secret it carries, and that each command has exactly one answer."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from reactor_trio.client.decoders import Decoder, make_decoder
from reactor_trio.protocol import Packet, TrackInfo, decode_packet
from tests.soak import secret_model
from tests.soak.ledger import Ledger
from tests.support.fault_peers import BINARY, CLOSE, PATIENCE, PING, PONG, TEXT, Gone, RawClient, frame, opening

NONE = secret_model.NONE
_RECEIVE_BUFFER = (socket.SOL_SOCKET, socket.SO_RCVBUF)
NORMAL = (1000).to_bytes(2, "big")


class Refused(Exception):
    """There was no session for this client, and the server said so."""


class Ended(Gone):
    """The server said goodbye, and why."""


class Visit(RawClient):
    """One client from its socket's beginning to its end.

    Attributes:
        sets: what it has set its secret to: id of the command, secret.
        unanswered: ids of its commands that have no answer yet, and what was said.
        answers: answers to its commands by id, as long as nobody has taken them.
        errors: codes of the errors that answered no id.
        position: its newest place in the queue.
        patience: seconds in which an answer or a picture must come.
    """

    def __init__(self, port: int, path: str, ledger: Ledger, dice: Random, number: int, *, receive: int = 0) -> None:
        super().__init__(port, upgrade=False)
        if receive:
            self.socket.setsockopt(*_RECEIVE_BUFFER, receive)
        self.ledger, self.dice, self.number = ledger, dice, number
        self.sets: list[tuple[int, int]] = []
        self.unanswered: dict[int, str] = {}
        self.answers: dict[int, dict[str, Any]] = {}
        self.errors: list[str] = []
        self.position: int | None = None
        self.patience = PATIENCE
        self.welcome: dict[str, Any] | None = None
        self.bye: str | None = None
        self.frames = 0
        self.saw: list[str] = []
        self.long_steps = 0
        self.viewer = "role=viewer" in path
        self._ids = itertools.count(1)
        self._tracks: dict[int, TrackInfo] = {}
        self._decoders: dict[int, Decoder] = {}
        self._applied = 0  # id of the newest set_secret that was acknowledged, and the step that saw it
        self._applied_step = -1
        self._told = ""
        self._n = 0
        self._shown: list[tuple[int | None, int, str]] = []  # to a viewer, which knows the secrets later
        self._heard: list[str] = []
        try:
            self.send(opening(path))
            status, _, body = self.response(body=False)
            if status != 101:
                raise Refused(f"{status} {body!r}")
        except BaseException:
            self.socket.close()
            raise

    # ---- what it does

    def send(self, *parts: bytes) -> None:
        """As of RawClient; raises Gone where the server has closed the connection."""
        try:
            super().send(*parts)
        except ConnectionError:
            raise Gone from None

    def enter(self, *, queued: bool = False) -> bool:
        """Read until it has a session; with `queued` until it has that or a place in the queue. Whether it has a session."""
        while self.welcome is None:
            if queued and self.position is not None:
                return False
            self.pump()
        return True

    def command(self, name: str, **data: Any) -> int:
        """Say a command that is answered; its id."""
        id_ = next(self._ids)
        self.unanswered[id_] = name
        self.say(name, id_, **data)
        return id_

    def tell_secret(self) -> int:
        """Draw a secret and set it; the id of the command."""
        secret = self.ledger.issue(self.dice, self.number)
        id_ = next(self._ids)
        self.sets.append((id_, secret))
        self.unanswered[id_] = "set_secret"
        self.say("set_secret", id_, secret=f"{secret:016x}")
        return id_

    def settle(self) -> None:
        """Read until each command is answered. One that is not in time, on a connection that lives, is lost."""
        try:
            self.pump_until(lambda: not self.unanswered)
        except TimeoutError:
            self.ledger.problem(
                "lost acknowledgements", f"client {self.number}: no answer to {self.unanswered}", len(self.unanswered)
            )
            self.unanswered.clear()

    def reply(self, id_: int) -> dict[str, Any]:
        """The answer to one command, once it is there."""
        self.pump_until(lambda: id_ not in self.unanswered)
        return self.answers.pop(id_)

    def watch(self, frames: int) -> None:
        """Read until so many pictures have come."""
        due = self.frames + frames
        self.pump_until(lambda: self.frames >= due)

    def pump_until(self, done: Callable[[], bool]) -> None:
        """Read until that is so. Raises TimeoutError if it is not in time, whatever else comes."""
        late = time.monotonic() + self.patience
        while not done():
            if time.monotonic() > late:
                raise TimeoutError(f"not in {self.patience} s")
            self.pump()

    def leave(self) -> None:
        """Wait for all answers, say goodbye and read until the server has, too."""
        self.settle()
        self.send(frame(CLOSE, NORMAL))
        code = self.until_gone().code
        if code != 1000 and not self.viewer:  # whose session may end meanwhile
            self.ledger.problem("wrong goodbyes", f"client {self.number} said 1000 and was told {code}")
        self.socket.close()

    def until_gone(self) -> Gone:
        """Read to the end of the connection."""
        try:
            while True:
                self.pump()
        except Gone as gone:
            return gone

    def track(self, direction: str, kind: str) -> int:
        """The index of a track."""
        assert self.welcome is not None
        return next(
            track["index"] for track in self.welcome["tracks"] if (track["direction"], track["kind"]) == (direction, kind)
        )

    # ---- what it is sent

    def pump(self) -> None:
        """Take one WebSocket frame, and check what is in it. Raises Gone at the end, Refused if that is for want of room."""
        try:
            opcode, payload = self.next_frame()
        except Gone as gone:
            if self.bye == "no_room" and self.welcome is None:
                raise Refused("no_room") from None
            raise (Ended(gone.code, self.bye) if self.bye is not None else gone) from None
        if opcode == PING:
            self.send(frame(PONG, payload))
        elif opcode == TEXT:
            self._text(json.loads(payload))
        elif opcode == BINARY:
            self._packet(decode_packet(payload))

    def _text(self, message: dict[str, Any]) -> None:
        type_, data, id_ = message["type"], message["data"], message.get("id")
        if self.welcome is not None or type_ == "reactor.welcome":
            self._n += 1
            if message["n"] != self._n:
                self._wrong("lost messages", f"text {message['n']} where {self._n} was due")
                self._n = message["n"]
        if type_ in ("reactor.ack", "reactor.error") and id_ is not None:
            self._answer(id_, message)
            return
        match type_:
            case "reactor.welcome":
                self.welcome = data
                self._tracks = {track["index"]: msgspec.convert(track, TrackInfo) for track in data["tracks"]}
                if not self.viewer:
                    self.ledger.begins(data["session_id"], self.sets)
            case "reactor.queued":
                self.position = data["position"]
            case "reactor.track":
                self._tracks[data["index"]] = msgspec.convert(data, TrackInfo)
                self._decoders.pop(data["index"], None)
            case "reactor.bye":
                self.bye = data["reason"]
            case "reactor.error":
                self.errors.append(data["code"])
            case "told":
                self.ledger.count("messages checked")
                if self.viewer:
                    self._heard.append(data["secret"])
                elif data["secret"] != self._told:
                    self._crossed("a message", int(data["secret"] or "0", 16), self._told)
            case "saw":
                self.ledger.count("messages checked")
                self.saw.append(data["secret"])
            case "long_step":
                self.long_steps += 1

    def _answer(self, id_: int, message: dict[str, Any]) -> None:
        name = self.unanswered.pop(id_, None)
        if name is None:
            self._wrong("answers that nobody waits for", f"{message}")
            return
        self.ledger.count("answers" if message["type"] == "reactor.ack" else "refusals")
        self.answers[id_] = message
        if name != "set_secret":
            return
        if message["type"] == "reactor.error":
            self.sets[:] = [known for known in self.sets if known[0] != id_]
        else:
            self._applied, self._applied_step = id_, message["data"]["step"]
            self._told = next(f"{secret:016x}" for known, secret in self.sets if known == id_)

    def _packet(self, packet: Packet) -> None:
        track = self._tracks[packet.track]
        decoder = self._decoders.get(packet.track)
        if decoder is None:
            decoder = self._decoders[packet.track] = make_decoder(track)
        decoded = decoder.decode(packet)
        if track.kind == "video":
            self.frames += 1
        self.ledger.count(f"{track.codec} packets")
        for shown in decoded:
            if track.codec == "opus":
                continue  # what it leaves of a square wave is not exact
            secret = secret_model.read_picture(shown) if track.kind == "video" else secret_model.read_sound(shown)
            if secret is None:
                self._wrong("unreadable frames", f"{track.codec} packet {packet.seq} of {len(packet.payload)} bytes")
            elif self.viewer:
                self._shown.append((packet.command, secret, track.kind))
            else:
                self.check(self.sets, packet.command, secret, track.kind)
        if self.viewer:
            return
        if packet.step >= self._applied_step and (packet.command or 0) < self._applied:
            self._wrong("frames without an acknowledged command", f"step {packet.step}: {packet.command} < {self._applied}")
        elif packet.step < self._applied_step:
            self.ledger.count("frames of earlier steps after an ack")

    def check(self, sets: list[tuple[int, int]], command: int | None, secret: int, what: str) -> None:
        """What was made with `command` must carry the secret that was set last, by that command or one before it."""
        due = next((known for id_, known in reversed(sets) if command is not None and id_ <= command), NONE)
        self.ledger.count("frames checked")
        if secret != due:
            self._crossed(f"{what} made with command {command}", secret, f"{due:016x}")

    def check_viewed(self, sets: list[tuple[int, int]]) -> None:
        """Check what a viewer was shown, once the secrets of the session are known."""
        for command, secret, what in self._shown:
            self.check(sets, command, secret, what)
        known = {"", *(f"{secret:016x}" for _, secret in sets)}
        for heard in self._heard:
            if heard not in known:
                self._crossed("a message", int(heard, 16), f"one of {sorted(known)}")
        self._shown.clear()
        self._heard.clear()

    def _crossed(self, what: str, secret: int, due: str) -> None:
        owner = self.ledger.owner(secret)
        whose = "nobody's" if owner is None else f"that of client {owner}"
        foreign = owner is not None and owner != self.number
        self._wrong("cross-talk" if foreign else "wrong secrets", f"{what} carries {secret:016x}, {whose}, not {due}")

    def _wrong(self, what: str, words: str) -> None:
        role = "viewer" if self.viewer else "client"
        self.ledger.problem(what, f"{role} {self.number}: {words}")
