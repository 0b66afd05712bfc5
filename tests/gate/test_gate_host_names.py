"""The host names for which a gate answers; `tests/edge/test_host_names.py` has those of a server."""

from __future__ import annotations

import socket

from tests.support.gate_kit import open_gate

from reactor_trio.configuration.settings import Settings
from reactor_trio.testing.memory_exchange import answer_to
from reactor_trio.transport import Request


async def test_a_gate_at_all_addresses_answers_for_this_machines_name(autojump_clock, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "GPU-Box")
    async with open_gate(settings=Settings(host="0.0.0.0")) as gate:
        assert (status(gate, "gpu-box"), status(gate, "gpu-box.evil.example")) == (200, 421)
    async with open_gate() as gate:
        assert status(gate, "gpu-box") == 421


def status(gate, host):
    return answer_to(gate.site, Request(method="GET", path="/ready", host=host, authority=host)).status
