"""A gate that a Trio program serves reads its certificate again when the program asks for that."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import trio
from tests.support.gate_kit import Replicas, Still
from tests.support.tls_files import Files, serial, serial_in

from reactor_trio.configuration.settings import Settings
from reactor_trio.gate.serve_gate import serve_gate
from reactor_trio.testing import open_server


async def test_a_gate_renews_its_certificate(tmp_path: Path) -> None:
    files = Files(tmp_path)
    tls = files.issue()
    async with open_server(Still) as server, trio.open_nursery() as nursery:
        lessor = Replicas([(server, "k" * 32)], 10.0)
        settings = Settings(port=0, tls=tls)
        gate = await nursery.start(partial(serve_gate, lessor, settings, schema={"name": "Still"}, most=4))
        shown = partial(trio.to_thread.run_sync, serial, files, gate.port)
        first = serial_in(tls)
        assert await shown() == first
        before = gate.certificates.context
        files.issue()
        gate.certificates.renew()
        with trio.fail_after(60):
            while gate.certificates.context is before:  # a thread reads the files
                await trio.lowlevel.checkpoint()
        assert await shown() == serial_in(tls) != first
        nursery.cancel_scope.cancel()
