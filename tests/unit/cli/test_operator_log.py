"""The operator's log, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys

from charterer.cli.operator import log_formatter


def record() -> logging.LogRecord:
    try:
        raise ValueError("no such pool")
    except ValueError:
        made = logging.LogRecord("charterer.app", logging.WARNING, "", 1, "pool %s failed", ("a100",), sys.exc_info())
    made.created = 1_780_000_000.0
    return made


def test_a_line_of_json_has_the_time_in_utc_and_the_traceback() -> None:
    line = json.loads(log_formatter("json").format(record()))
    trace = line.pop("exc_info")
    assert line == {
        "time": "2026-05-28T20:26:40Z",
        "level": "WARNING",
        "logger": "charterer.app",
        "message": "pool a100 failed",
    }
    assert "ValueError: no such pool" in trace
    assert "\n" not in log_formatter("json").format(record())


def test_a_line_of_text_has_level_logger_and_message() -> None:
    assert "WARNING charterer.app: pool a100 failed" in log_formatter("text").format(record())
