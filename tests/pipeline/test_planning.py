from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from operating.cli import cli as sidecar
from pipeline.errors import InputError
from pipeline.measured import measure
from pipeline.planning import Wanted, plan, quotas_toml, read_reassignment
from pipeline.sizes import SUMMARY, whole
from reassignment import Capacity, Deadline, Size, TopicPartition
from tests.pipeline.frames import traffic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

MB = 1_000_000.0
ORDERS_0, ORDERS_1, PAYMENTS = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("pay.ments", 0)
CURRENT = {ORDERS_0: (101, 102), ORDERS_1: (101, 103), PAYMENTS: (102, 101)}
TARGET = {ORDERS_0: (104, 102), ORDERS_1: (101, 104), PAYMENTS: (102, 101)}
SIZES = {ORDERS_0: Size(101, 1000 * MB, 0.5 * MB), ORDERS_1: Size(101, 2000 * MB)}
WANTED = Wanted(Deadline(1000), Capacity(100 * MB, 2))


def measured(lines: DataFrame) -> tuple[dict[TopicPartition, Size], dict[int, float]]:
    return measure(whole(SUMMARY.of(lines)), lines)


def test_rates_end_the_move_in_time() -> None:
    """101 sends 1000 + 2000 MB in 1000 s, and 0.5 MB/s that is written meanwhile; 104 takes the same. 102 and 103
    would lead if 101 failed. The arithmetic itself: tests/reassignment/test_rates.py."""
    planned = plan(TARGET, CURRENT, SIZES, {104: 2 * MB, 101: MB}, WANTED)
    assert planned.problems == ()
    assert planned.rates.keys() == {(101, "leader"), (102, "leader"), (103, "leader"), (104, "follower")}
    assert all(3.5 * MB <= rate < 3.5 * MB + 1024 for rate in planned.rates.values())


@pytest.mark.parametrize(
    ("wanted", "inflow", "problem"),
    [
        (
            Wanted(Deadline(10), Capacity(100 * MB, 2)),
            {},
            "broker 101 as leader: needs 286.58 MiB/s (300500992 B/s) to end in time, but must stay below",
        ),
        (WANTED, {104: 90 * MB}, "broker 104 as follower: no rate is admissible: inflow 90000000 B/s"),
    ],
)
def test_what_cannot_be_is_refused_and_says_which_broker(
    wanted: Wanted, inflow: dict[int, float], problem: str
) -> None:
    planned = plan(TARGET, CURRENT, SIZES, inflow, wanted)
    with pytest.raises(InputError) as error:
        quotas_toml(planned)
    assert problem in str(error.value)


def test_what_is_not_known_is_said() -> None:
    assert plan(TARGET, CURRENT, {ORDERS_0: SIZES[ORDERS_0]}, {}, WANTED).unknown == (ORDERS_1,)
    with pytest.raises(InputError, match="new-0: not in the current assignment"):
        plan({TopicPartition("new", 0): (101,)}, CURRENT, SIZES, {}, WANTED)


def test_the_sidecar_accepts_the_file_and_means_the_same(tmp_path: Path) -> None:
    (tmp_path / "quotas.toml").write_text(quotas_toml(plan(TARGET, CURRENT, SIZES, {}, WANTED)))
    (tmp_path / "proxy.toml").write_text(
        '[broker]\nid = 104\n[[egress.peers]]\nbroker = 101\nlisten = "127.0.0.1:0"\nupstream = "a:9092"\n'
    )
    result = CliRunner().invoke(sidecar, ["check", "--config", str(tmp_path / "proxy.toml"), "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    # One file for all brokers: what is listed for the others selects nothing here, and check says so.
    assert [warning.partition(":")[0] for warning in report["warnings"]] == [
        "topics.orders.leader.replication.throttled.replicas"
    ]
    follower = report["roles"]["follower"]
    assert 3.5 * MB <= follower["quota_bytes_per_second"] < 3.5 * MB + 1024
    assert follower["replicas"] == {"orders": "0,1"}


def test_a_wrong_reassignment_says_where() -> None:
    """All that can be wrong with one: tests/reassignment/test_assignment.py."""
    with pytest.raises(InputError, match=r"^r.json: line 1: not JSON"):
        read_reassignment("{", "r.json")


def test_what_the_journals_measured(spark: SparkSession) -> None:
    """100 bytes a message: 10 a second fetched of a log of 500 that grows by 2; 3000 bytes a second in sync."""
    rows = [
        {"at": at, "role": "follower", "fetch_offset": 10 * at, "high_watermark": 500 + 2 * at} for at in range(60)
    ] + [
        {"at": at, "role": "follower", "partition": 1, "in_sync": True, "fetch_offset": 30 * at,
         "high_watermark": 30 * at, "record_bytes": 3000}
        for at in range(60)
    ]  # fmt: skip
    sizes, inflow = measured(traffic(spark, rows))
    assert inflow == {101: pytest.approx(3000)}
    size = sizes[ORDERS_0]
    assert size.leader == 102
    assert size.bytes == pytest.approx(618 * 100, rel=0.03)
    assert size.written_bytes_per_second == pytest.approx(200, rel=0.03)


def test_of_two_brokers_that_led_a_partition_the_last_one_counts(spark: SparkSession) -> None:
    """Whatever the order of rows: 101 led it until second 30, 105 from then on, with less in its log."""
    rows = [
        {"at": at, "broker": 102, "role": "follower", "peer": "101" if at < 30 else "105", "fetch_offset": 10 * at,
         "high_watermark": 900 if at < 30 else 600}
        for at in range(60)
    ]  # fmt: skip
    for ordered in (rows, rows[30:] + rows[:30]):
        size = measured(traffic(spark, ordered))[0][ORDERS_0]
        assert (size.leader, size.bytes) == (105, pytest.approx(60_000, rel=0.05))


def test_minutes_that_are_not_over_count_as_long_as_they_were(spark: SparkSession) -> None:
    """90 seconds at 3000 bytes a second, from the fiftieth second of a minute on: no minute of a clock is full."""
    rows = [
        {"at": 50 + at, "role": "follower", "in_sync": True, "fetch_offset": 30 * at, "high_watermark": 30 * at,
         "record_bytes": 3000}
        for at in range(90)
    ]  # fmt: skip
    assert measured(traffic(spark, rows))[1] == {101: pytest.approx(3000)}
