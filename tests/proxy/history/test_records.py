"""Records as lines, and back: cut, foreign and hostile lines cost themselves alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from proxy.history.records import MAX_CHARACTERS, Record, encode, of_override, read_back, shortened
from proxy.quotas.layer_values import Effect
from proxy.quotas.override import Override, PlacedValue

NOW = datetime(2026, 12, 1, tzinfo=UTC)
LINES = encode(Record(time=NOW + timedelta(minutes=each), event="stopped", text=str(each)) for each in range(3))


def texts(*contents: bytes, since: datetime = NOW, most_bytes: int = 10**6) -> list[str]:
    return [json.loads(line)["text"] for line in read_back(contents, since, most_bytes).lines]


@given(st.integers(0, len(LINES)))
def test_a_line_that_was_cut_anywhere_costs_itself_alone(at: int) -> None:
    found = read_back([LINES[:at] + b"\n" + LINES], NOW, 10**6)
    assert [json.loads(line)["text"] for line in found.lines] == ["0", "1", "2"]
    assert found.unreadable <= 1


@given(st.binary(max_size=200))
def test_whatever_lies_in_the_file_is_passed_over(foreign: bytes) -> None:
    found = read_back([foreign + b"\n" + LINES], NOW, 10**6)
    assert [json.loads(line).get("text") for line in found.lines][-3:] == ["0", "1", "2"]


def test_other_versions_lines_are_read() -> None:
    line = b'{"time":"2026-12-01T00:00:00Z","event":"taken_to_the_moon","text":"x","new":[1]}'
    assert texts(line) == ["x"]
    assert msgspec.json.decode(line, type=Record).event == "taken_to_the_moon"
    assert read_back([b'{"time":"2026-12-01T00:00:00","event":"x"}', b"[" * 10_000], NOW, 10).unreadable == 2


def test_what_is_older_is_left_out_and_what_is_too_much_is_counted() -> None:
    assert texts(LINES, since=NOW + timedelta(minutes=1)) == ["1", "2"]
    found = read_back([LINES], NOW, len(LINES) // 2)
    assert ([json.loads(line)["text"] for line in found.lines], found.left_out) == (["2"], 2)


def test_files_are_read_in_the_order_of_time_and_a_line_that_was_written_twice_is_there_once() -> None:
    first, second, third = LINES.splitlines(keepends=True)
    assert texts(second + third, first + second) == ["0", "1", "2"]


@given(st.text(max_size=50), st.text(max_size=50))
def test_any_name_and_reason_is_one_line(by: str, reason: str) -> None:
    override = Override(id="aaaa", by=by, since=NOW, reason=reason, changes=(PlacedValue("broker", "k", "v"),))
    line = encode([of_override(override, "set", by, [Effect("broker", "k", by, by, reason, by)], NOW)])
    assert (line.count(b"\n"), json.loads(line)["event"]) == (1, "override_set")
    assert json.loads(line)["effects"][0]["before"] == by


def test_a_lone_surrogate_of_a_path_is_written_all_the_same() -> None:
    assert texts(encode([Record(time=NOW, event="started", text="a\udc80b")])) == ["a?b"]


def test_long_texts_are_cut() -> None:
    assert len(shortened("x" * 10**6)) == MAX_CHARACTERS + 1
