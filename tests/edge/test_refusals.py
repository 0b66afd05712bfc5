"""Refusals in the log: each kind at once, a flood of them in one line every ten seconds, and never a query."""

from __future__ import annotations

import logging

import trio
from tests.support.known_facts import facts_of

from reactor_trio.edge.refusal_log import QUIET, Refusals
from reactor_trio.server.server_metrics import Metrics
from reactor_trio.transport import Refused, Response

FULL = Response.refusing(Refused("full", "the server is full"))


async def test_a_flood_of_refusals_is_a_few_lines(autojump_clock, caplog):
    caplog.set_level(logging.INFO)
    metrics = Metrics(facts_of("model"))
    refusals = Refusals(metrics)
    for _ in range(1000):
        refusals.note("1.2.3.4:5", FULL)
    refusals.note("1.2.3.4:5", Response.plain(404, "none"))
    await trio.sleep(QUIET)
    refusals.note("6.7.8.9:10", FULL)
    assert caplog.messages[0].startswith("1.2.3.4:5 was refused, 503 Service Unavailable: each session and each place")
    assert caplog.messages[1] == "1.2.3.4:5 was refused, 404 Not Found"
    assert caplog.messages[2].startswith("6.7.8.9:10 was refused, 503 ")
    assert caplog.messages[2].endswith("; 999 more since the last such line")
    assert len(caplog.messages) == 3
    closed = Refusals(metrics, lambda: False)
    closed.note("1.2.3.4:5", FULL)
    assert len(caplog.messages) == 3  # the model loads: no news
    assert 'reactor_requests_refused_total{status="503"} 1002.0' in metrics.exposition().decode()
