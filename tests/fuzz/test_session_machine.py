"""Hypothesis plays scripts of clients against a server in virtual time; what each heard is checked against the contract.

A script is a list of actions, which shrinks well; the whole of it runs in one `trio.run`. Nothing is predicted from the
order in which tasks run: the oracle takes each session's transcript (every text, every frame, when) and asks whether some
server that keeps the contract could have said it. An answer's `step` makes that exact: a frame of step `s`
shows what was acknowledged with a step up to `s`, and nothing else.

In CI the same examples each time; with the marker `soak` more of them, from a seed that is printed.
"""

from __future__ import annotations

import json
import logging
import random
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import pytest
import trio
import trio.testing
from hypothesis import strategies as st

from reactor_trio.client.client_transport import TransportClosed
from reactor_trio.errors import ConnectionRefused
from reactor_trio.protocol import decode_packet
from reactor_trio.protocol.close_codes import ABNORMAL, NORMAL
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_connection import Stall
from reactor_trio.testing.memory_server import TestServer
from tests.fuzz.fuzzing import unwrapped
from tests.fuzz.script_models import AsyncPipeline, Blocking, Pipeline, RunLoop

RATE, PENDING, UNANSWERED = 20, 4, 12
LIMITS = {"commands_per_second": RATE, "pending_commands": PENDING, "unanswered_commands": UNANSWERED}
MODELS: dict[str, Any] = {"sync": Pipeline, "async": AsyncPipeline, "run_loop": RunLoop, "blocking": Blocking}
#: what may happen to a command that is valid, besides being refused as too many
ENDS = {"refuse": "refused_here", "broken": "internal_error"}
#: commands that are refused at intake
INVALID = {
    "x_too_large": ("set_x", {"x": 100}),
    "x_text": ("set_x", {"x": "3"}),
    "x_empty": ("set_x", {}),
    "unknown": ("no_such", {}),
    "x_extra": ("set_x", {"x": 1, "z": 2}),
    "mark_null": ("mark", {"value": None}),
}


@dataclass
class Sent:
    """A command, and its answers."""

    id: int
    kind: str
    value: int
    at: float
    answers: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Peer:
    """One client's whole life."""

    role: str
    transport: Any
    stall: Stall
    joined: float
    texts: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    frames: list[tuple[float, Any, tuple[int, int, int]]] = field(default_factory=list)
    sent: dict[int, Sent] = field(default_factory=dict)
    unnumbered: list[int] = field(default_factory=list)
    keyframes: int = 0
    welcomed: float | None = None
    #: why its connection ended: its own doing, or a close code
    gone: str | None = None
    ever_stalled: bool = False
    ever_spoke: bool = False
    closed: trio.Event = field(default_factory=trio.Event)

    async def listen(self) -> None:
        try:
            while True:
                message = await self.transport.receive()
                now = trio.current_time()
                if isinstance(message, str):
                    text = json.loads(message)
                    self.texts.append((now, text))
                    if text["type"] == "reactor.welcome":
                        self.welcomed = now
                else:
                    packet = decode_packet(message)
                    self.frames.append((now, packet, tuple(packet.payload)))
        except TransportClosed as closed:
            self.gone = self.gone or f"closed {closed.code}"
            self.closed.set()

    def of(self, type_: str) -> list[dict[str, Any]]:
        return [text for _, text in self.texts if text["type"] == type_]


class World:
    """Plays a script."""

    def __init__(self, server: TestServer, nursery: trio.Nursery) -> None:
        self.server, self.nursery = server, nursery
        self.slots: dict[int, Peer] = {}
        self.peers: list[Peer] = []
        self.cost = 0.2
        self._ids = 0
        self.drained = False

    async def play(self, action: tuple[Any, ...]) -> None:
        what, slot, *rest = action
        if what == "connect":
            await self._connect(slot, rest[0])
        elif what == "sleep":
            await trio.sleep(rest[0])
        elif what == "cost":
            self.cost = rest[0]
        elif (peer := self.slots.get(slot)) is not None:
            await self._act(peer, slot, what, rest)

    async def _connect(self, slot: int, role: str) -> None:
        if slot in self.slots:
            return
        stall = Stall()
        try:
            transport = await self.server._open_memory(f"ws://127.0.0.1/ws?video=raw&role={role}", stall)
        except ConnectionRefused as refused:
            if refused.status != 503:
                raise
            return
        peer = self.slots[slot] = Peer(role, transport, stall, trio.current_time())
        self.peers.append(peer)
        self.nursery.start_soon(peer.listen)

    async def _act(self, peer: Peer, slot: int, what: str, rest: list[Any]) -> None:
        match what:
            case "leave" | "vanish":
                peer.gone = peer.gone or what
                peer.stall.resume()
                await peer.transport.aclose(NORMAL if what == "leave" else ABNORMAL)
                del self.slots[slot]
            case "stall":
                peer.ever_stalled = True
                peer.stall.stall()
            case "resume":
                peer.stall.resume()
            case "say":
                await self._say(peer, *rest)
            case "burst":
                count, kind, value = rest
                for number in range(count):
                    await self._say(peer, kind, (value + number) % 90)

    async def _say(self, peer: Peer, kind: str, value: int) -> None:
        peer.ever_spoke = True
        self._ids += 1
        now = trio.current_time()
        if kind == "set_y":  # never with an id
            message: dict[str, Any] = {"type": "set_y", "data": {"y": value}}
            peer.unnumbered.append(value)
        elif kind == "junk":
            message = {"type": 7}
        elif kind == "keyframe":
            message = {"type": "reactor.keyframe", "data": {"track": value}}
            peer.keyframes += value == 0
        else:
            name, data = INVALID.get(kind) or (kind, {"x": value} if kind == "set_x" else {"value": value})
            message = {"type": name, "data": data, "id": self._ids}
            peer.sent[self._ids] = Sent(self._ids, kind, value, now)
        try:
            await peer.transport.send(json.dumps(message))
        except TransportClosed:
            peer.sent.pop(self._ids, None)

    async def end(self, drain: bool) -> None:
        """Everybody reads, and what is under way comes to its end; then the server goes down, or all leave."""
        for peer in self.slots.values():
            peer.stall.resume()
        self.cost = 1.0
        await trio.sleep(25)
        settled = [peer for peer in self.slots.values() if peer.gone is None]
        for peer in settled:
            if peer.welcomed is not None and peer.role == "control":
                unanswered = [sent.id for sent in peer.sent.values() if not self._answer(peer, sent.id)]
                assert not unanswered, "commands without an answer"
        if drain:
            await self.server.drain()
            for peer in settled:
                await peer.closed.wait()
                assert peer.gone == "closed 1001", peer.gone
                assert peer.of("reactor.bye") == [peer.texts[-1][1]]
                assert peer.texts[-1][1]["data"]["reason"] == "draining"
        for peer in self.slots.values():
            peer.gone = peer.gone or "left"
            await peer.transport.aclose()
        await trio.sleep(10)

    def _answer(self, peer: Peer, id_: int) -> bool:
        return any(text.get("id") == id_ for _, text in peer.texts)


def check(world: World, log: list[tuple[int, str, int]], exact: bool) -> None:
    """Every client's transcript against the contract."""
    secrets: list[int] = []
    for peer in world.peers:
        check_texts(peer)
        if peer.welcomed is None:
            assert not peer.frames
            continue
        if peer.role == "viewer":
            assert not peer.of("reactor.ack")
            check_frames(peer, None, exact)
        else:
            told = peer.of("secret")
            assert len(told) <= 1
            secret = told[0]["data"]["secret"] if told else None
            secrets += [secret] if secret is not None else []
            check_answers(peer, secret, exact)
            check_frames(peer, secret, exact)
            check_handlers(peer, [(name, value) for whose, name, value in log if whose == secret], exact)
    assert len(set(secrets)) == len(secrets), "two sessions share a secret"
    check_queue(world.peers)


def check_texts(peer: Peer) -> None:
    """`n` counts from the welcome; each id is answered once at most; nothing follows the goodbye."""
    first = next((at for at, (_, text) in enumerate(peer.texts) if "n" in text), len(peer.texts))
    numbers = [text["n"] for _, text in peer.texts[first:]]
    reason = (peer.texts[-1][1]["data"] or {}).get("reason") if numbers else None
    if reason in ("flood", "too_slow") and (peer.ever_stalled or peer.ever_spoke):
        # who reads nothing, or floods, gets the end alone, even without its welcome, and sees by `n` that there was more
        assert numbers.pop() > len(numbers)
    assert numbers == list(range(1, len(numbers) + 1))
    assert not numbers or peer.texts[first][1]["type"] == "reactor.welcome"
    for _, text in peer.texts[:first]:
        assert text["type"] in ("reactor.queued", "reactor.error", "reactor.bye")
        assert text["type"] != "reactor.error" or text["data"]["code"] in ("not_admitted", "protocol_error")
    for at, (_, text) in enumerate(peer.texts):
        if text["type"] in ("reactor.ack", "reactor.error") and "id" in text:
            peer.sent[text["id"]].answers.append(text)
        assert text["type"] != "reactor.bye" or at == len(peer.texts) - 1
    for sent in peer.sent.values():
        assert len(sent.answers) <= 1, f"{len(sent.answers)} answers to one command"
    positions = [text["data"]["position"] for text in peer.of("reactor.queued")]
    assert all(position >= 1 for position in positions)
    assert positions == sorted(positions, reverse=True), "a place in the queue got worse"


def check_answers(peer: Peer, secret: int | None, exact: bool) -> None:
    """Each answer is one that the command may have; acks come in the order of application."""
    order = [text for _, text in peer.texts if text["type"] == "reactor.ack"]
    steps = [ack["data"]["step"] for ack in order]
    assert steps == sorted(steps)
    handled = [
        text["id"]
        for _, text in peer.texts
        if "id" in text and (text["type"] == "reactor.ack" or text["data"]["code"] in ENDS.values())
    ]
    assert handled == sorted(handled) or any(sent.kind == "refresh" for sent in peer.sent.values())
    in_line = [id_ for id_ in handled if peer.sent[id_].kind != "refresh"]
    assert in_line == sorted(in_line), "answers out of order"
    x = 0
    for _, text in peer.texts:
        if "id" not in text:
            continue
        sent, data = peer.sent[text["id"]], text["data"]
        if text["type"] == "reactor.error":
            code = data["code"]
            if sent.kind in INVALID:
                assert code in ("invalid_command", "busy", "not_admitted"), text
                assert code != "invalid_command" or "$" in data["message"] or sent.kind == "unknown", text
            else:
                assert code in (ENDS.get(sent.kind, "busy"), "busy", "not_admitted"), text
            if code == "busy" and "pending" in data["message"]:
                assert len(peer.sent) + len(peer.unnumbered) > PENDING
            continue
        assert sent.kind not in INVALID, "an invalid command was applied"
        assert sent.kind not in ENDS
        if sent.kind == "set_x":
            x = sent.value
            assert data.get("reply") is None
        elif exact or sent.kind != "refresh":
            whose, value, seen = data["reply"]
            assert whose == secret, "another session's handler answered"
            assert seen == x, "a handler saw a state that was not acknowledged before it"
            assert value == sent.value or sent.kind == "refresh"


def check_frames(peer: Peer, secret: int | None, exact: bool) -> None:
    """One session's secret in all of them; numbers and times rise; each shows exactly what was acknowledged by its step."""
    frames = peer.frames
    seqs, times = [packet.seq for _, packet, _ in frames], [packet.pts_us for _, packet, _ in frames]
    assert seqs == sorted(seqs)
    assert len(seqs) - len(set(seqs)) <= peer.keyframes, "a picture comes again only where its client asked for a keyframe"
    assert times == sorted(times)
    assert len({picture[0] for _, _, picture in frames}) <= 1, "frames of two sessions"
    if secret is None:
        return
    acks = [(text["data"]["step"], text["id"]) for text in peer.of("reactor.ack")]
    latest = -1
    for at, packet, (whose, x, y) in frames:
        assert whose == secret, "a frame of another session"
        seen = [id_ for step, id_ in acks if step <= packet.step]
        values = [peer.sent[id_].value for id_ in seen if peer.sent[id_].kind == "set_x"]
        if exact:
            assert x == (values[-1] if values else 0), f"step {packet.step} shows x={x}, acknowledged was {values}"
            if not peer.unnumbered:
                assert packet.command == (seen[-1] if seen else None)
        else:
            assert x in {0, *(sent.value for sent in peer.sent.values() if sent.kind == "set_x" and sent.at <= at)}
        if y or latest >= 0:
            found = [number for number, value in enumerate(peer.unnumbered) if value == y and number >= latest]
            assert found, f"y={y} was never set, or is older than one that was shown"
            latest = found[0]


def check_handlers(peer: Peer, called: list[tuple[str, int]], exact: bool) -> None:
    """In the order of sending, each once, those that were acknowledged among them; of `refresh` the newest counts."""
    for kind in ("mark", "slow", "refuse", "broken"):
        sent = [s for s in peer.sent.values() if s.kind == kind]
        values = [value for name, value in called if name == kind]
        rest = iter(sent)
        assert all(any(s.value == value for s in rest) for value in values), f"{kind}: handlers called out of order or twice"
        answered = [s for s in sent if s.answers and s.answers[0]["data"].get("code") in (None, ENDS.get(kind))]
        assert len(answered) <= len(values), f"{kind}: acknowledged, but not called"
    runs = sum(name == "refresh" for name, _ in called)
    assert runs <= sum(s.kind == "refresh" for s in peer.sent.values())


def check_queue(peers: list[Peer]) -> None:
    """Who waits longest is admitted first."""
    admitted = [peer.welcomed for peer in peers if peer.role == "control" and peer.welcomed is not None]
    assert admitted == sorted(admitted)


# ---- scripts ------------------------------------------------------------------------------------------------------------

SLOTS = st.integers(0, 2)
KINDS = st.sampled_from(
    [
        "set_x",
        "set_x",
        "set_x",
        "mark",
        "mark",
        "set_y",
        "refresh",
        "refresh",
        "slow",
        "refuse",
        "broken",
        "junk",
        "keyframe",
        *INVALID,
    ]
)
VALUES = st.integers(1, 89)
ACTIONS = st.one_of(
    st.tuples(st.just("say"), SLOTS, KINDS, VALUES),
    st.tuples(st.just("say"), SLOTS, KINDS, VALUES),
    st.tuples(st.just("burst"), SLOTS, st.integers(2, 30), KINDS, VALUES),
    st.tuples(st.just("sleep"), st.just(0), st.sampled_from([0.01, 0.05, 0.3, 1.0, 17.0])),
    st.tuples(st.just("connect"), SLOTS, st.sampled_from(["control", "control", "viewer"])),
    st.tuples(st.sampled_from(["leave", "vanish", "stall", "resume"]), SLOTS),
    st.tuples(st.just("cost"), st.just(0), st.sampled_from([0.02, 0.2, 0.5, 2.0])),
    st.tuples(st.just("say"), SLOTS, st.just("die"), VALUES),
)
SCRIPTS = st.lists(ACTIONS, min_size=8, max_size=40).map(lambda actions: [("connect", 0, "control"), *actions])


def play(model: str, script: list[tuple[Any, ...]], drain: bool) -> None:
    """Run `script` and check all that was heard."""

    async def run() -> None:
        world: World | None = None
        kind = MODELS[model]
        async with open_server(
            kind, config={"cost": 0.0}, step_cost=lambda _: 0.2 if world is None else world.cost, queue=1, limits=LIMITS
        ) as server:
            async with trio.open_nursery() as nursery:
                world = World(server, nursery)
                for action in script:
                    if action[-2] == "die" and model == "run_loop":
                        continue  # a run loop that raises is the end of its server
                    await world.play(action)
                await world.end(drain)
                nursery.cancel_scope.cancel()
            check(world, server.model.log, exact=model != "blocking")

    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    except BaseExceptionGroup as group:
        raise unwrapped(group) from None
    finally:
        logging.disable(before)


def examples(model: str, count: int, seed: int | None) -> None:
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        derandomize=seed is None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=True,
    )
    @hypothesis.given(SCRIPTS, st.booleans())
    def scripts(script: list[tuple[Any, ...]], drain: bool) -> None:
        play(model, script, drain)

    (scripts if seed is None else hypothesis.seed(seed)(scripts))()


@pytest.mark.parametrize("model", MODELS)
def test_whatever_clients_do_the_contract_holds(model):
    examples(model, 60 if model != "blocking" else 25, None)


@pytest.mark.soak
@pytest.mark.parametrize("model", MODELS)
def test_thousands_of_scripts(model):
    seed = random.SystemRandom().randrange(10**6)
    print(f"\n{model}: seed {seed}")
    examples(model, 2000, seed)
