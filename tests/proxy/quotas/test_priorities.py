"""``[priorities]``: what is read, what is refused, and how urgent a need is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocol.metadata import ReplicaCount
from proxy.errors import ConfigurationError
from proxy.quotas.priorities import DEFAULT_PRIORITIES, Need, Priorities
from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import effective


def read(table: str) -> Priorities:
    quota_file = parse_quotas(f"[priorities]\n{table}".encode())
    return effective(quota_file, 101, datetime(2026, 11, 1, tzinfo=UTC)).priorities


def test_without_the_table_needs_go_in_their_order() -> None:
    assert parse_quotas(b"").priorities == read("") == DEFAULT_PRIORITIES
    assert [DEFAULT_PRIORITIES.urgency_of_need(need) for need in Need] == [2, 1, 0]
    assert DEFAULT_PRIORITIES.asks_who_is_in_sync
    assert DEFAULT_PRIORITIES.urgency_of_topic("t") == 0


def test_keys_are_kafkas_and_may_be_quoted() -> None:
    expected = Priorities(("payments", Need.UNDER_MIN_ISR), 3, 4)
    order = 'order = ["topic:payments", "under-min-isr"]\n'
    assert read(f"{order}min.insync.replicas = 3\ndefault.replication.factor = 4") == expected
    assert read(f'{order}"min.insync.replicas" = 3\n"default.replication.factor" = 4') == expected


@pytest.mark.parametrize(
    ("order", "topic", "need", "urgency"),
    [
        (("a*", *Need), "abc", Need.MOVES, 3),
        (("a*", *Need), "b", Need.MOVES, 0),
        (("a*", *Need), "b", Need.UNDER_MIN_ISR, 2),
        (("a",), "a", Need.UNDER_MIN_ISR, 1),
        (("a",), "b", Need.UNDER_MIN_ISR, 0),
        ((Need.MOVES,), "b", Need.MOVES, 1),
        ((), "b", Need.UNDER_MIN_ISR, 0),
    ],
)
def test_what_fits_an_earlier_entry_is_more_urgent(
    order: tuple[Need | str, ...], topic: str, need: Need, urgency: int
) -> None:
    priorities = Priorities(order)
    assert max(priorities.urgency_of_topic(topic), priorities.urgency_of_need(need)) == urgency


@pytest.mark.parametrize(("order", "asks"), [((), False), (("a",), False), ((Need.MOVES,), False), (tuple(Need), True)])
def test_nobody_is_asked_where_it_makes_no_difference(order: tuple[Need | str, ...], *, asks: bool) -> None:
    assert Priorities(order).asks_who_is_in_sync is asks


@pytest.mark.parametrize(
    ("partition", "fewest", "factor", "need"),
    [
        (ReplicaCount(3, 1), 3, None, Need.UNDER_MIN_ISR),
        (ReplicaCount(3, 2), 3, None, Need.UNDER_REPLICATED),
        (ReplicaCount(4, 3), 3, None, Need.MOVES),  # the fourth is added by a reassignment
        (ReplicaCount(4, 2), 3, None, Need.UNDER_REPLICATED),
        (ReplicaCount(2, 1), 1, None, Need.MOVES),  # a topic of one replica is in no need
        (ReplicaCount(6, 3), 6, None, Need.UNDER_REPLICATED),  # all partitions move: nobody tells which were added
        (ReplicaCount(6, 3), 6, 3, Need.MOVES),
        (ReplicaCount(3, 0), 3, None, Need.UNDER_MIN_ISR),
    ],
)
def test_what_a_partition_needs(partition: ReplicaCount, fewest: int, factor: int | None, need: Need) -> None:
    assert Priorities(replication_factor=factor).need_of(partition, fewest) is need


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("order = 3", "quotas.toml: priorities.order: expected a list of under-min-isr, under-replicated, moves and"),
        ('order = ["under-min-irs"]', 'found "under-min-irs" (did you mean under-min-isr?)'),
        ('order = ["topic:a b"]', 'found "topic:a b"'),
        ('order = ["moves", "moves"]', 'priorities.order: expected each once, found "moves" twice'),
        (f"order = {['topic:a'] * 17}", "16 at most"),
        (
            "min.insync.replicas = 0",
            "priorities.min.insync.replicas: expected a number of replicas from 1 to 100, found 0",
        ),
        ("default.replication.factor = true", "priorities.default.replication.factor: expected a number of replicas"),
        ("min.insync = 2", "priorities.min.insync: unknown key; expected order, min.insync.replicas, "),
        ("share = 2", "priorities.share: unknown key"),
        (
            'min.insync.replicas = 2\n"min.insync.replicas" = 3',
            "priorities.min.insync.replicas: set twice, as a dotted key and as a quoted one",
        ),
    ],
)
def test_a_problem_is_named_by_its_place(table: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(table)
    assert problem in str(caught.value)


def test_the_table_is_one() -> None:
    with pytest.raises(ConfigurationError, match="priorities: expected a table, found 3"):
        parse_quotas(b"priorities = 3")
