"""What the clients of a soak saw: counts, what went wrong in words, and whose each secret is. Any thread may write in it."""

from __future__ import annotations

import threading
from collections import Counter
from random import Random

#: how many of each kind of problem are kept in words
KEPT = 5
#: sessions whose secrets a viewer that came by itself may ask for
REMEMBERED = 256


class Ledger:
    """The books of one soak.

    Attributes:
        counts: what happened, by name.
        kinds: sessions and visits by what the client did.
        problems: what must not happen, by name; `words` has the first of each.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self.words: dict[str, list[str]] = {}
        self._lock = threading.Lock()
        self._issued: dict[int, int] = {}
        self._sets: dict[str, list[tuple[int, int]]] = {}

    def count(self, what: str, by: int = 1) -> None:
        """It happened."""
        with self._lock:
            self.counts[what] += by

    def kind(self, name: str) -> None:
        """A client did this."""
        with self._lock:
            self.kinds[name] += 1

    def problem(self, what: str, words: str, by: int = 1) -> None:
        """It must not happen, and did."""
        with self._lock:
            self.problems[what] += by
            kept = self.words.setdefault(what, [])
            if len(kept) < KEPT:
                kept.append(words)

    def issue(self, dice: Random, number: int) -> int:
        """A new secret, for client `number`."""
        with self._lock:
            while (secret := dice.getrandbits(64)) in self._issued or secret >> 1 == 0:
                pass
            self._issued[secret] = number
            return secret

    def owner(self, secret: int) -> int | None:
        """The client that the secret was issued for."""
        with self._lock:
            return self._issued.get(secret)

    def begins(self, session_id: str, sets: list[tuple[int, int]]) -> None:
        """A session has begun; its client writes the secrets that it sets into `sets`."""
        with self._lock:
            self.counts["sessions"] += 1
            self._sets[session_id] = sets
            if len(self._sets) > REMEMBERED:
                del self._sets[next(iter(self._sets))]

    def sets_of(self, session_id: str) -> list[tuple[int, int]]:
        """The secrets that a session's client has set: id of the command, secret. Empty if nothing is known of it."""
        with self._lock:
            return list(self._sets.get(session_id, ()))
