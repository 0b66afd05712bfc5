"""A model that floods its streams and its log: each line is shown or counted, also when the server ends."""

from __future__ import annotations

import re
import signal

import pytest
from tests.support.fault_checks import MODEL
from tests.support.fault_peers import PATIENCE, RawClient, reactor_run

from reactor_trio.concurrency.bounded_prints import LINES

FLOODS = MODEL + '''
import logging
import sys

class Model(Model):
    @event
    def talk(self, lines: int):
        for number in range(lines):
            print("a line of print", number)
            logging.getLogger("author").info("a line of log %d", number)
            sys.stderr.write("a line of write\\n")
'''


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_each_line_is_shown_or_counted_also_those_of_the_last_second(tmp_path, isolation):
    with reactor_run(tmp_path, FLOODS, isolation=isolation) as server:
        with RawClient(server.port) as client:
            for number in (1, 2):
                client.say("talk", number, lines=1000)
                client.answer(number)
                server.wait_log("prints too much")
            server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0
        printed = server.process.stdout.read()
    shown = [f"{printed}{server.log}".count(f"a line of {kind}") for kind in ("print", "log", "write")]
    left_out = [int(lines) for lines in re.findall(r"prints too much at \S+model.py:\d+: (\d+) lines", server.log)]
    assert len(left_out) >= 2  # of the first second, and at the end
    assert min(shown) >= LINES
    assert sum(shown) + sum(left_out) == 2 * 3 * 1000
