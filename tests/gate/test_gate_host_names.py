"""The host names for which a gate answers; `tests/edge/test_host_names.py` has those of a server."""

from __future__ import annotations

import socket

from tests.support.gate_kit import open_gate

from reactor_trio.configuration.settings import Settings


async def test_a_gate_at_all_addresses_answers_for_this_machines_name(autojump_clock, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "GPU-Box")
    async with open_gate(settings=Settings(host="0.0.0.0")) as gate:
        assert gate.site.hosts_allowed("gpu-box")
        assert not gate.site.hosts_allowed("gpu-box.evil.example")
    async with open_gate() as gate:
        assert not gate.site.hosts_allowed("gpu-box")
