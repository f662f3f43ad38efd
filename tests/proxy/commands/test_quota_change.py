from __future__ import annotations

from datetime import timedelta

import pytest

from proxy.commands.quota_change import ENFORCE, parse_place, parse_span, parse_value
from proxy.errors import InvalidValueError
from proxy.quotas.editing import Place

RATE = "leader.replication.throttled.rate"
LIST = "follower.replication.throttled.replicas"


@pytest.mark.parametrize(
    ("key", "broker", "topic", "place"),
    [
        (RATE, None, None, Place(("brokers", "default"), RATE)),
        (RATE, "default", None, Place(("brokers", "default"), RATE)),
        (RATE, "101", None, Place(("brokers", "101"), RATE)),
        (LIST, None, None, Place(("brokers", "default"), LIST)),
        (LIST, "101", None, Place(("brokers", "101"), LIST)),
        (LIST, None, "a-*", Place(("topics", "a-*"), LIST)),
        (ENFORCE, None, None, Place(("mode",), "enforce")),
    ],
)
def test_where_a_key_stands(key: str, broker: str | None, topic: str | None, place: Place) -> None:
    assert parse_place(key, broker, topic) == place


@pytest.mark.parametrize(
    ("key", "broker", "topic", "problem"),
    [
        ("leader.rate", None, None, r"leader.rate: unknown key; expected one of .*, mode.enforce"),
        ("leader.replication.throttled.rates", None, None, r"did you mean leader.replication.throttled.rate\?"),
        (RATE, None, "a", "a rate belongs to a broker"),
        (LIST, "101", "a", 'of a topic, or of a broker: for one broker write "0:101,1:101"'),
        (ENFORCE, "101", None, "leave out --broker and --topic"),
    ],
)
def test_where_it_does_not(key: str, broker: str | None, topic: str | None, problem: str) -> None:
    with pytest.raises(InvalidValueError, match=problem):
        parse_place(key, broker, topic)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (RATE, "5", 5),
        (RATE, "-1", -1),
        (RATE, "5MiB/s", "5MiB/s"),
        (RATE, "unlimited", "unlimited"),
        (LIST, "*", "*"),
        (LIST, "", ""),
        (LIST, "5", "5"),
        (ENFORCE, "true", True),
        (ENFORCE, "yes", "yes"),
    ],
)
def test_values_are_typed_as_the_file_has_them(key: str, text: str, value: object) -> None:
    found = parse_value(key, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "hours"), [("2h", 2), ("90m", 1.5), ("1d12h", 36), (" 3600s ", 1), ("1h30m", 1.5), ("366d", 366 * 24)]
)
def test_a_span(text: str, hours: float) -> None:
    assert parse_span(text) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "2", "h", "0s", "2 h", "-2h", "30m1h", "367d", "1w", "2h!"])
def test_no_span(text: str) -> None:
    with pytest.raises(InvalidValueError, match="expected a time like 2h, 90m or 1d12h, of at most 366d, found"):
        parse_span(text)
