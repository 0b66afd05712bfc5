"""`get_logger`: lines with fields of any name."""

from __future__ import annotations

import logging
from typing import Any

from reactor_trio import get_logger
from reactor_trio.cli.log_output import LineFormatter


def test_fields_of_any_name_reach_the_line(caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    log = get_logger("my.model")
    log.info("loaded 100 %", name="a", message="b", model="c", seconds=2.5, msg="d")
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == ("my.model", "INFO", "loaded 100 %")
    assert record.filename == "test_log.py"
    line = LineFormatter("served", as_json=True).format(record)
    for part in ('"name":"a"', '"message_":"b"', '"model_":"c"', '"seconds":2.5', '"msg":"d"'):
        assert part in line


def test_each_level(caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    log = get_logger("my.model")
    log.debug("a")
    log.warning("b")
    log.error("c")
    try:
        raise ValueError("seen")
    except ValueError:
        log.exception("d", step=3)
    assert [record.levelname for record in caplog.records] == ["DEBUG", "WARNING", "ERROR", "ERROR"]
    assert caplog.records[3].exc_info is not None
    assert caplog.records[2].exc_info is None
