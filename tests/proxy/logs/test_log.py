""""""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from datetime import datetime, timedelta

import pytest

from proxy.logs.log import MAX_CAUSES, MAX_LINES, WINDOW_SECONDS, LogRate, open_log
from proxy.logs.log_settings import LogFormat, LogLevel, LogSettings
from proxy.logs.queue import Dropped


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_json_is_one_object_a_line_with_time_level_and_event_first() -> None:
    stream = io.StringIO()
    log = open_log(LogSettings(LogFormat.JSON, LogLevel.INFO), stream)
    log.info("quotas_reloaded", reason="two\nlines", rate=math.inf, count=3)
    log.error("quotas_reload_failed")
    first, second = (json.loads(line) for line in lines(stream))
    assert list(first) == ["timestamp", "level", "event", "reason", "rate", "count"]
    assert (first["level"], first["event"], first["reason"]) == ("info", "quotas_reloaded", "two\nlines")
    assert (first["rate"], first["count"]) == ("unlimited", 3)
    assert datetime.fromisoformat(first["timestamp"]).utcoffset() == timedelta(0)
    assert second["level"] == "error"


@pytest.mark.parametrize(
    ("level", "events"),
    [
        (LogLevel.DEBUG, ["d", "i", "w", "e"]),
        (LogLevel.INFO, ["i", "w", "e"]),
        (LogLevel.WARNING, ["w", "e"]),
        (LogLevel.ERROR, ["e"]),
    ],
)
def test_the_level_is_a_floor(level: LogLevel, events: list[str]) -> None:
    stream = io.StringIO()
    log = open_log(LogSettings(LogFormat.JSON, level), stream)
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")
    assert [json.loads(line)["event"] for line in lines(stream)] == events


@pytest.mark.parametrize(("stream", "coloured"), [(io.StringIO(), False), (Terminal(), True)])
def test_colours_are_for_terminals(stream: io.StringIO, *, coloured: bool) -> None:
    open_log(LogSettings(LogFormat.CONSOLE, LogLevel.INFO), stream).info("started", broker=1)
    assert "started" in stream.getvalue()
    assert ("\x1b[" in stream.getvalue()) is coloured


def test_an_exception_stays_on_its_line() -> None:
    stream = io.StringIO()
    log = open_log(LogSettings(LogFormat.JSON, LogLevel.INFO), stream)
    log.error("http_failed", exc_info=ValueError("why"))
    (line,) = lines(stream)
    assert "ValueError: why" in json.loads(line)["exception"]


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Gone(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("log_format", list(LogFormat))
@pytest.mark.parametrize("value", ["lone \ud800", 10**400, Hostile(), {1: Hostile()}, b"\xff", "x" * 100_000])
def test_no_value_makes_the_caller_fail(log_format: LogFormat, value: object) -> None:
    stream = io.StringIO()
    open_log(LogSettings(log_format, LogLevel.INFO), stream).info("connection_closed", found=value, seconds=1.5)
    (line,) = lines(stream)
    assert "connection_closed" in line
    assert len(line) < 40_000
    line.encode()
    if log_format is LogFormat.JSON:
        assert json.loads(line)["seconds"] == 1.5


def test_a_stream_that_is_gone_costs_the_line() -> None:
    dropped = Counter[Dropped]()
    open_log(LogSettings(LogFormat.JSON, LogLevel.INFO), Gone(), dropped).info("started")
    assert dropped == {Dropped.FAILED: 1}


def test_lines_of_one_cause_are_limited_in_rate_and_the_next_says_how_many_were_left_out() -> None:
    stream, dropped, now = io.StringIO(), Counter[Dropped](), [0.0]
    log = open_log(LogSettings(LogFormat.JSON, LogLevel.INFO), stream, dropped, now=lambda: now[0])
    for peer in range(1000):
        log.info("connection_closed", cause="malformed_frame", peer=str(peer))
    assert len(lines(stream)) == 200
    assert dropped == {Dropped.SUPPRESSED: 800}
    now[0] = 10.0
    log.info("connection_closed", cause="malformed_frame", peer="next")
    assert json.loads(lines(stream)[-1])["suppressed"] == 800


@pytest.mark.parametrize("name", ["\x1b]52;c;cm0gLXJmIC8=\x07", "\x9b2J", "two\nlines", "back\u202eward"])
def test_names_from_the_wire_are_shown_on_a_terminal_and_not_obeyed(name: str) -> None:
    stream = io.StringIO()
    log = open_log(LogSettings(LogFormat.CONSOLE, LogLevel.INFO), stream)
    log.warning("connection_closed", peer=name, changed=[name], error=ValueError(name), requests=3)
    log.error("http_failed", exc_info=ValueError(name))
    assert stream.getvalue().replace("\n", "").isprintable()
    assert "requests=3" in stream.getvalue()


def test_of_one_cause_so_many_lines_pass_and_the_next_one_says_how_many_did_not() -> None:
    rate = LogRate()
    closed = {"cause": "malformed_frame", "role": "leader"}
    admitted = [rate.admit("connection_closed", {**closed, "peer": peer}, 0.0) for peer in range(MAX_LINES + 7)]
    assert admitted == [0] * MAX_LINES + [None] * 7
    assert rate.admit("connection_closed", {**closed, "role": "follower"}, 0.0) == 0
    assert rate.admit("connection_closed", closed, WINDOW_SECONDS - 0.1) is None
    assert rate.admit("connection_closed", closed, WINDOW_SECONDS) == 8
    assert rate.admit("connection_closed", closed, WINDOW_SECONDS) == 0


def test_made_up_causes_are_one_cause_beyond_a_bound() -> None:
    rate = LogRate(most_lines=1)
    for number in range(MAX_CAUSES):
        assert rate.admit("made_up", {"cause": number}, 0.0) == 0
    assert [rate.admit("made_up", {"cause": -number}, 0.0) for number in range(1, 4)] == [0, None, None]
    assert remembered(rate) <= MAX_CAUSES + 1
    assert rate.admit("made_up", {"cause": -4}, WINDOW_SECONDS) == 2
    assert remembered(rate) <= 3


def test_made_up_causes_of_one_event_silence_no_other_event() -> None:
    """They shared a window with every cause that was new, so that whoever made some up kept a real one out."""
    rate = LogRate(most_lines=1)
    for number in range(3 * MAX_CAUSES):
        rate.admit("made_up", {"cause": number}, 0.0)
    assert rate.admit("real", {"cause": "disk"}, 1.0) == 0
    assert rate.admit("real", {"cause": "network"}, 1.0) == 0


def test_causes_that_never_come_again_are_forgotten_and_what_was_suppressed_of_them_is_said() -> None:
    """A cause with a suppressed line was remembered for ever: after enough of them all new ones shared a window."""
    rate = LogRate(most_lines=1)
    for number in range(MAX_CAUSES):
        rate.admit("made_up", {"cause": number}, 0.0)
        assert rate.admit("made_up", {"cause": number}, 0.0) is None
    assert rate.admit("made_up", {"cause": "real"}, WINDOW_SECONDS) == MAX_CAUSES
    assert rate.admit("made_up", {"cause": "another"}, WINDOW_SECONDS) == 0
    assert remembered(rate) == 2


def remembered(rate: LogRate) -> int:
    return sum(len(event.windows) for event in rate._events.values())
