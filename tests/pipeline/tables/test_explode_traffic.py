"""Lines of fifteen seconds to rows of one: what the sidecar's own code writes, read back."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from journal_schema import LINE_SECONDS
from pipeline.journals.parse_lines import parse
from pipeline.tables.explode_traffic import link_seconds, replica_seconds
from proxy.journal.encoding import Origin, encode_traffic
from proxy.ledger.blocks import LinkKey, Position, ReplicaTraffic, Seconds, Traffic, TrafficKey
from proxy.ledger.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST = 1_700_000_000
LINK = LinkKey("leader", "102", throttled=True, in_sync=False)


def lines_of(spark: SparkSession, blocks: list[Traffic]) -> DataFrame:
    text = b"".join(encode_traffic(Origin(101, "a"), block, FIRST) for block in blocks).decode().splitlines()
    parsed = parse(spark.createDataFrame([(line, "file") for line in text], "value string, source string"))
    assert parsed.where("problem is not null").count() == 0
    return parsed


def test_a_partitions_seconds_are_its_shapes_parts_of_its_sums(spark: SparkSession) -> None:
    """100 bytes in seconds 1 and 3, of 110 parts: half each, and headers likewise; nothing to say of second 0."""
    replica = ReplicaTraffic(
        "orders", 7, [False, True, True, True], [0, 50, 0, 50], 37, 6, 4, Position(10, 100, 0), Position(30, 160, 5)
    )
    seconds = Seconds([0, 50, 0, 50], [0, 68, 0, 69], [0, 3, 1, 2], [0, 1, 2, 1])
    rows = replica_seconds(lines_of(spark, [Traffic(3, LINK, seconds, [replica])])).orderBy("tick").collect()
    assert [(row.time - FIRST, row.tick, row.line_tick) for row in rows] == [(4, 4, 3), (5, 5, 3), (6, 6, 3)]
    assert {(row.broker, row.run, row.role, row.peer, row.topic, row.partition) for row in rows} == {
        (101, "a", "leader", "102", "orders", 7)
    }
    assert [(row.record_bytes, row.wire_bytes) for row in rows] == [(50, 68), (0, 0), (50, 69)]
    assert [(row.fetches, row.omitted) for row in rows] == [(2, 1), (2, 1), (2, 2)]
    assert [(row.fetch_offset, row.high_watermark, row.log_start_offset) for row in rows] == [
        (20, 120, 5), (20, 140, 5), (30, 160, 5)
    ]  # fmt: skip


def test_what_is_not_known_before_is_as_at_the_end(spark: SparkSession) -> None:
    replica = ReplicaTraffic("orders", 7, [True, True], [0, 0], 0, 2, 0, Position(5, -1, -1), Position(9, 90, 0))
    seconds = Seconds([0, 0], [0, 0], [1, 1], [0, 0])
    rows = replica_seconds(lines_of(spark, [Traffic(0, LINK, seconds, [replica])])).collect()
    assert {(row.fetch_offset, row.high_watermark, row.record_bytes) for row in rows} == {(9, 90, 0)}


def test_seconds_of_links_are_exact_and_there_only_if_something_was(spark: SparkSession) -> None:
    replica = ReplicaTraffic("orders", 0, [True] * 3, [5, 0, 0], 18, 2, 1, Position(0, 9, 0), Position(1, 9, 0))
    seconds = Seconds([5, 0, 0], [23, 0, 0], [1, 1, 0], [0, 1, 0])
    in_sync = Seconds([0, 0, 1], [0, 0, 19], [9, 9, 9], [0, 0, 0])
    blocks = [Traffic(0, LINK, seconds, [replica]), Traffic(0, LINK._replace(in_sync=True), in_sync, [replica])]
    rows = link_seconds(lines_of(spark, blocks)).orderBy("in_sync", "tick").collect()
    assert [(row.in_sync, row.tick, row.record_bytes, row.wire_bytes, row.fetches, row.omitted) for row in rows] == [
        (False, 0, 5, 23, 1, 0), (False, 1, 0, 0, 1, 1), (True, 2, 1, 19, 9, 0)
    ]  # fmt: skip


def test_whatever_the_ledger_was_told_comes_out_again(spark: SparkSession) -> None:
    """Seeded noise: sums by partition and line, and by link and second, to the byte; a partition's second to a
    few parts of the 55 of its line's most."""
    numbers = random.Random(73)
    ledger, blocks = Ledger(0.0), list[Traffic]()
    told: Counter[tuple[str, int, int]] = Counter()
    now = 0.0
    for _ in range(1500):
        now += numbers.expovariate(40.0)
        key = TrafficKey("leader", "102", numbers.choice("ab"), numbers.randrange(3), throttled=True, in_sync=False)
        size = numbers.choice((0, numbers.randrange(1, 10_000_000)))
        ledger.fetched(key, Position(0, 9, 0), record_bytes=size, wire_bytes=size + 18 if size else 0, now=now)
        told[key.topic, key.partition, int(now)] += size
        blocks += (traffic for block in ledger.take_finished(now) for traffic in block.traffic_lines())
    blocks += (traffic for block in ledger.cut(now) for traffic in block.traffic_lines())
    lines = lines_of(spark, blocks).cache()
    rows = replica_seconds(lines).collect()
    assert len(rows) == len(told)
    by_second = {row.tick: row.record_bytes for row in link_seconds(lines).collect()}
    assert by_second == {
        tick: sum(size for (*_, at), size in told.items() if at == tick) for *_, tick in told if tick in by_second
    }
    found: Counter[tuple[str, int, int]] = Counter()
    true: Counter[tuple[str, int, int]] = Counter()
    for row in rows:
        where = (row.topic, row.partition, row.line_tick)
        found[where] += row.record_bytes
        true[where] += told[row.topic, row.partition, row.tick]
        of_line = [told[row.topic, row.partition, row.line_tick + second] for second in range(LINE_SECONDS)]
        assert row.record_bytes == pytest.approx(told[row.topic, row.partition, row.tick], abs=max(of_line) / 25)
    assert found == true
