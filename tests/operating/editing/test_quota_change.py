from __future__ import annotations

import pytest

from operating.editing.facts import Place
from operating.editing.quota_change import ENFORCE, Pair, Whose, parse_pairs, parse_value, places
from proxy.errors import InvalidValueError

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
        (RATE, None, "a-*", Place(("topics", "a-*"), RATE)),
        (ENFORCE, None, None, Place(("mode",), "enforce")),
    ],
)
def test_where_a_key_stands(key: str, broker: str | None, topic: str | None, place: Place) -> None:
    assert places(key, Whose(() if broker is None else (broker,), topic=topic)) == [place]


@pytest.mark.parametrize(
    ("key", "broker", "topic", "problem"),
    [
        ("bandwidth", None, None, r"bandwidth: unknown key; expected one of .*, mode.enforce$"),
        ("leader.rate", None, None, r"unknown key; .* \(did you mean leader.replication.throttled.rate\?\)"),
        ("leader.replication.throttled.rates", None, None, r"did you mean leader.replication.throttled.rate\?"),
        (RATE, "101", "a", "a rate inside the rate is the same for every broker that reads the file"),
        (LIST, "101", "a", 'of a topic, or of a broker: for one broker write "0:101,1:101"'),
        (ENFORCE, "101", None, "leave out --broker, --topic, --peer and --rack"),
    ],
)
def test_where_it_does_not(key: str, broker: str | None, topic: str | None, problem: str) -> None:
    with pytest.raises(InvalidValueError, match=problem):
        places(key, Whose(() if broker is None else (broker,), topic=topic))


@pytest.mark.parametrize(
    ("whose", "section"),
    [(Whose(peer="102"), ("peers", "102")), (Whose(rack="eu 1.b"), ("racks", "eu 1.b"))],
)
def test_a_rate_inside_the_rate_stands_in_a_section_of_its_own(whose: Whose, section: tuple[str, str]) -> None:
    assert places(RATE, whose) == [Place(section, RATE)]
    with pytest.raises(InvalidValueError, match="a list is of a topic or a broker"):
        places(LIST, whose)


@pytest.mark.parametrize(
    ("whose", "problem"),
    [
        (Whose(peer="102", rack="a"), "one of them at a time"),
        (Whose(peer="kafka-102"), '--peer: expected the other broker\'s id, found "kafka-102"'),
        (Whose(topic='"orders"'), "--topic: expected a topic name or glob"),
        (Whose(rack='a"b'), "--rack: expected a rack without quotes"),
        (Whose(("101",), peer="102"), "leave out --broker"),
    ],
)
def test_of_whom_no_rate_is(whose: Whose, problem: str) -> None:
    with pytest.raises(InvalidValueError, match=problem):
        places(RATE, whose)


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


TABLE = '{ within = "2h", max = "5MiB/s" }'


@pytest.mark.parametrize("text", [TABLE, f" {TABLE}\n", f"{TABLE}  # two hours\n"])
def test_a_table_is_one_value(text: str) -> None:
    assert parse_value(RATE, text) == {"within": "2h", "max": "5MiB/s"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{TABLE}\n[topics.orders]\nx = 1", "expected nothing behind the table, found topics$"),
        (f"{TABLE}\nmax = 1\nmin = 2\n", "expected nothing behind the table, found max, min$"),
        ('{ within = "2h",\n  max = "5MiB/s" }', r"Invalid .* \(TOML has it on one line\)$"),
        ("{ within = 2h }\n", r"expected a table like .* \(at line 1, column 21\)$"),
        (f"{{ max = {'9' * 5000} }}", "expected a table like { .*: line 1: expected at most 256 characters"),
        ("{ finish_by = 2026-13-01T06:00:00Z }", "expected a table like { "),
        ("{ max = " + "[" * 1000 + " }", "expected a table like { .*brackets at most 16 deep"),
    ],
)
def test_what_is_more_than_a_table_or_less_is_refused_whole(text: str, problem: str) -> None:
    with pytest.raises(InvalidValueError, match=problem):
        parse_value(RATE, text)


def test_brokers_are_named_each_by_itself() -> None:
    assert places(RATE, Whose(("101", "default", "101"))) == [
        Place(("brokers", "101"), RATE), Place(("brokers", "default"), RATE)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "text", "pairs"),
    [
        (RATE, "5", [Pair(RATE, "5")]),
        (RATE, None, [Pair(RATE, None)]),
        (f"{RATE}=5", None, [Pair(RATE, "5")]),
        (f"{LIST}=", None, [Pair(LIST, "")]),
        (f"{LIST}=[0:1,1:1],{RATE}=5", None, [Pair(LIST, "0:1,1:1"), Pair(RATE, "5")]),
        (f"{LIST}=0:1,1:1, {RATE} = 5", None, [Pair(LIST, "0:1,1:1"), Pair(RATE, "5")]),
        (f"{RATE}=5=6", None, [Pair(RATE, "5=6")]),
    ],
)
def test_pairs_as_kafka_configs_takes_them(key: str, text: str | None, pairs: list[Pair]) -> None:
    assert parse_pairs(key, text) == pairs


@pytest.mark.parametrize(
    ("key", "problem"),
    [("=5", "expected KEY=VALUE"), (f"{RATE}=5,{RATE}=6", "expected each key once"), ("a=1,=2", "expected KEY=VALUE")],
)
def test_no_pairs(key: str, problem: str) -> None:
    with pytest.raises(InvalidValueError, match=problem):
        parse_pairs(key, None)
