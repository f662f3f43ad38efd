from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import InvalidValueError
from proxy.quotas.replicas import EVERY_PARTITION, NO_PARTITION, Partitions, ReplicaList, parse_replicas


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        # Kafka's LogConfigTest, trunk
        ("*", ReplicaList(every=True)),
        ("* ", ReplicaList(every=True)),
        ("", ReplicaList()),
        (" ", ReplicaList()),
        ("100:10", ReplicaList(((100, 10),))),
        ("100:10,12:10", ReplicaList(((100, 10), (12, 10)))),
        ("100:10,12:10,15:1  ", ReplicaList(((100, 10), (12, 10), (15, 1)))),
        ("100:0,", ReplicaList(((100, 0),))),
        # valid for Kafka's validator, fatal for its parser
        ("0:1, 1:1", ReplicaList(((0, 1), (1, 1)))),
        ("0:1,,1:1", ReplicaList(((0, 1), (1, 1)))),
        (",", ReplicaList()),
    ],
)
def test_what_kafka_accepts_is_accepted(written: str, expected: ReplicaList) -> None:
    assert parse_replicas(written) == expected


@pytest.mark.parametrize(
    "written",
    [
        # Kafka's LogConfigTest, trunk
        "100",
        "100:",
        "100:0,10",
        "100:0,10:",
        "100 :0,10:   ",
        "100: 0,10:0",
        "*,100:10",
        "* ,100:10",
        # accepted by 0.10.1 and 2.5, where they fail later
        "*,0:1",
        "**",
        "-1:1",
        "a:1",
        "٣:1",
        "4294967296:1",
    ],
)
def test_what_kafka_refuses_is_refused(written: str) -> None:
    with pytest.raises(InvalidValueError, match=r'expected "partition:broker,…", "\*" or "", found "'):
        parse_replicas(written)


@pytest.mark.parametrize("written", [1, True, None, [], ["0:1"], {}])
def test_only_text_is_a_list(written: object) -> None:
    with pytest.raises(InvalidValueError, match="found"):
        parse_replicas(written)


@pytest.mark.parametrize(
    ("written", "broker", "partitions"),
    [
        # Kafka's DynamicConfigChangeTest
        ("0:101,0:102,1:101,1:102", 102, Partitions(frozenset({0, 1}))),
        ("0:101,0:102,1:101,1:102", 103, NO_PARTITION),
        ("*", 102, EVERY_PARTITION),
        ("", 102, NO_PARTITION),
    ],
)
def test_the_second_number_is_the_broker_that_throttles(written: str, broker: int, partitions: Partitions) -> None:
    assert parse_replicas(written).partitions_on(broker) == partitions


def test_partitions_are_shown_as_written() -> None:
    assert str(EVERY_PARTITION) == "*"
    assert str(NO_PARTITION) == ""
    assert str(Partitions(frozenset({10, 2, 1}))) == "1,2,10"


_IDS = st.integers(0, 2**31 - 1)
_BLANK = st.sampled_from(["", " ", "  "])


@given(st.lists(st.tuples(_IDS, _IDS, _BLANK, _BLANK)))
def test_blanks_around_entries_change_nothing(entries: list[tuple[int, int, str, str]]) -> None:
    written = ",".join(f"{before}{p}:{b}{after}" for p, b, before, after in entries)
    assert parse_replicas(written).entries == tuple((p, b) for p, b, _, _ in entries)


@given(st.text())
def test_any_text_is_a_list_or_refused(written: str) -> None:
    try:
        parsed = parse_replicas(written)
    except InvalidValueError:
        return
    assert parsed.every == (written.replace(",", "").strip() == "*")
