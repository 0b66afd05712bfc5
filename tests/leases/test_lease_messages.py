"""The messages of a lease on the wire: a replica and a gate of different versions understand each other."""

from __future__ import annotations

import msgspec
import pytest

from reactor_trio.leases.messages import Beat, Claimed, Ended, Granted

ON_THE_WIRE = {
    b'{"type":"Granted","session_id":"s","url":"ws://a/ws","key":"k","claim_within":10.0,"replica":"1@n"}':
        Granted("s", "ws://a/ws", "k", 10.0, "1@n"),
    b'{"type":"Claimed"}': Claimed(),
    b'{"type":"Beat"}': Beat(),
    b'{"type":"Ended","reason":"done"}': Ended("done"),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "message"), ON_THE_WIRE.items())
def test_a_lease_message_on_the_wire(raw, message):
    assert msgspec.json.encode(message) == raw
    assert msgspec.json.decode(raw, type=Granted | Claimed | Beat | Ended) == message
