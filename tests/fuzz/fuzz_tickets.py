"""Tickets: what is shown as a token, and payloads that a back end signed although they are wrong."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from jwt import PyJWS

from reactor_trio.edge.tickets import Tickets
from reactor_trio.transport import Refusal, Refused
from tests.fuzz.fuzzing import LONGEST, Run, Target, kind_of, mutated

KEY = b"k" * 32
NOW = 1_800_000_000.0
_SIGNED = b"signed "
_PAYLOADS = [
    b'{"exp": 1800000060, "jti": "one", "role": "control"}',
    b'{"exp": 1800000060.5, "jti": "two", "role": "viewer", "sub": "ann", "max_session": 60, "aud": "fuzzed"}',
    b'{"exp": 1800000060, "jti": "three", "role": "control", "aud": ["other", "fuzzed"], "nbf": 1799999999}',
    b'{"exp": 1700000000, "jti": "old", "role": "control"}',
]


class JsonWebTokens(Target):
    """A ticket is good, or refused with a reason; whatever is shown, nothing else is raised."""

    name, share = "ticket", 6
    words = (b'"exp": ', b'"jti": ', b'"role": ', b'"aud": ', b"eyJ", b'"alg":"none"', b"-1", b"1e400", b".", b"..", b"=")

    def seeds(self) -> list[bytes]:
        jws = PyJWS()
        tokens = [jws.encode(payload, KEY, "HS256").encode() for payload in _PAYLOADS]
        headers = [{"crit": ["exp"]}, {"kid": "1"}, {"b64": False}, {"zip": "DEF"}]
        tokens += [jws.encode(_PAYLOADS[0], KEY, "HS256", headers=header).encode() for header in headers]
        return tokens + [_SIGNED + payload for payload in _PAYLOADS]

    def make(self, dice: random.Random, pool: list[bytes]) -> bytes:
        if dice.random() < 0.5:
            return mutated(dice, pool, self.words)
        return (_SIGNED + mutated(dice, _PAYLOADS, self.words))[:LONGEST]

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        jws, tickets = PyJWS(), Tickets([KEY], "fuzzed", lambda: NOW, most=100)

        async def run(data: bytes) -> str:
            if data.startswith(_SIGNED):
                text = jws.encode(data.removeprefix(_SIGNED), KEY, "HS256")
            else:
                text = data.decode("latin-1")
            why: Refusal | None = None
            try:
                ticket = tickets.read(text)
                tickets.spend(ticket)
            except Refused as refused:
                why = refused.refusal
            if why is not None:
                assert len(why.message) < 500
                return f"{why.kind.denied}: {kind_of(why.message)}"
            assert ticket.role in ("control", "viewer")
            assert ticket.exp + 5 > NOW
            return f"good: {ticket.role}"

        yield run
