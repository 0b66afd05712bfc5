"""Refusals in the log: each kind at once, a flood of them in one line every ten seconds, and never a query."""

from __future__ import annotations

import logging

import pytest
import trio
from tests.support.known_facts import facts_of

from reactor_trio.configuration.settings import LimitSettings
from reactor_trio.edge.address_limits import AddressLimits
from reactor_trio.edge.refusal_log import LINE_PAUSE, RefusalLog
from reactor_trio.protocol.refusals import REFUSAL_CODES
from reactor_trio.server.server_metrics import Metrics
from reactor_trio.transport import Refusal

FULL = Refusal("full", "the server is full")

#: The codes whose line is another: it names the address and the reason, the address and the limit, or it is the phase's.
DENIED = (
    "token_missing", "token_wrong", "token_expired", "token_early", "token_used", "unclaimed", "not_allowed", "tickets_full",
)  # fmt: skip
LIMITED = (
    "address_connections", "address_handshakes", "address_requests", "address_failures", "address_waiting", "connections",
)  # fmt: skip
PHASES = ("loading", "failed", "draining")


def refusal_log(metrics: Metrics) -> RefusalLog:
    return RefusalLog(metrics, AddressLimits(LimitSettings(), ()))


async def test_a_flood_of_refusals_is_a_few_lines(autojump_clock, caplog):
    caplog.set_level(logging.INFO)
    metrics = Metrics(facts_of("model"))
    refusals = refusal_log(metrics)
    for _ in range(1000):
        refusals.note("1.2.3.4:5", None, FULL)
    refusals.note("1.2.3.4:5", None, Refusal("not_found", "none", client="a page"))
    await trio.sleep(LINE_PAUSE)
    refusals.note("6.7.8.9:10", None, FULL)
    assert caplog.messages[0].startswith("1.2.3.4:5 was refused, 503 Service Unavailable: each session and each place")
    assert caplog.messages[1] == "1.2.3.4:5, a page, was refused, 404 Not Found: there is nothing at its path"
    assert caplog.messages[2].startswith("6.7.8.9:10 was refused, 503 ")
    assert caplog.messages[2].endswith("; 999 more since the last such line")
    assert len(caplog.messages) == 3
    assert 'reactor_requests_refused_total{status="503"} 1001.0' in metrics.exposition().decode()


@pytest.mark.parametrize("code", REFUSAL_CODES)
async def test_the_code_alone_decides_what_counts_it_and_which_line_the_log_has(autojump_clock, caplog, code):
    """So a 429 of a session with too many files has one, and a 403 for a token has none beside that with its address."""
    caplog.set_level(logging.INFO)
    metrics = Metrics(facts_of("model"))
    refusals = refusal_log(metrics)
    for _ in range(2):
        assert refusals.note("1.2.3.4:5", "1.2.3.4", Refusal(code, "because")).code == code
    begins = "access: 1.2.3.4 was refused: " if code in DENIED else "1.2.3.4 " if code in LIMITED else "1.2.3.4:5 "
    assert [line.startswith(begins) for line in caplog.messages] == ([] if code in PHASES else [True])
    counted = [line.partition("{")[0] for line in metrics.exposition().decode().splitlines() if line.endswith("} 2.0")]
    besides = {"reactor_access_denied_total"} if code in DENIED else set()
    besides |= {"reactor_connections_refused_total"} if code in LIMITED else set()
    assert set(counted) == {"reactor_requests_refused_total"} | besides
    assert len(counted) == 1 + len(besides)
