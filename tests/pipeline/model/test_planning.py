from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from operating.cli import cli as sidecar
from pipeline.errors import InputError
from pipeline.jobs.partition_sizes import SUMMARY, whole
from pipeline.jobs.plan_inputs import measure
from pipeline.model.planning import Goal, plan, quotas_toml, read_reassignment
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
WANTED = Goal(Deadline(1000), Capacity(100 * MB, 2))


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
            Goal(Deadline(10), Capacity(100 * MB, 2)),
            {},
            "broker 101 as leader: needs 286.58 MiB/s (300500992 B/s) to end in time, but must stay below",
        ),
        (WANTED, {104: 90 * MB}, "broker 104 as follower: no rate is admissible: inflow 90000000 B/s"),
    ],
)
def test_what_cannot_be_is_refused_and_says_which_broker(wanted: Goal, inflow: dict[int, float], problem: str) -> None:
    planned = plan(TARGET, CURRENT, SIZES, inflow, wanted)
    with pytest.raises(InputError) as error:
        quotas_toml(planned)
    assert problem in str(error.value)


def test_what_is_not_known_is_said() -> None:
    assert plan(TARGET, CURRENT, {ORDERS_0: SIZES[ORDERS_0]}, {}, WANTED).unknown == (ORDERS_1,)
    with pytest.raises(InputError, match="new-0: not in the current assignment"):
        plan({TopicPartition("new", 0): (101,)}, CURRENT, SIZES, {}, WANTED)


def test_a_leader_that_is_no_replica_any_more_sends_nothing() -> None:
    """Journals saw 108 and 109 lead what 104 and 105 have by now: 104 sends both, 36 GB each, in an hour."""
    one, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    sizes = {one: Size(109, 36_000 * MB), other: Size(108, 36_000 * MB)}
    planned = plan({one: (106, 105), other: (106, 105)}, {one: (104, 105), other: (104, 105)}, sizes, {},
                   Goal(Deadline(3600), Capacity(1250 * MB)))  # fmt: skip
    assert [(load.broker, load.role, load.move_bytes) for load in planned.loads] == [
        (104, "leader", 72_000 * MB), (106, "follower", 72_000 * MB)
    ]  # fmt: skip
    assert planned.rates.keys() == {(104, "leader"), (105, "leader"), (106, "follower")}
    assert all(20 * MB <= rate < 20 * MB + 1024 for rate in planned.rates.values())


@pytest.mark.parametrize(("seconds", "inflow", "least"), [(1000, 50 * MB, 50 * MB), (37.5, 60 * MB, 70 * MB - 1024)])
def test_who_stands_in_gets_a_rate_that_is_admissible_there(seconds: float, inflow: float, least: float) -> None:
    """102 takes in 50 MB/s, where leaders get 3.5; or 60, which leaves it less than 70, where leaders get 80.5."""
    planned = plan(TARGET, CURRENT, SIZES, {102: inflow}, Goal(Deadline(seconds), WANTED.capacity))
    assert planned.problems == ()
    assert planned.rates[103, "leader"] == planned.rates[101, "leader"]
    assert least < planned.rates[102, "leader"] <= least + 1024
    assert planned.rates[102, "leader"] < WANTED.capacity.bytes_per_second - inflow / 2


def test_no_admissible_rate_for_who_stands_in_is_a_problem() -> None:
    planned = plan(TARGET, CURRENT, SIZES, {102: 90 * MB}, WANTED)
    assert planned.problems == (
        "broker 102 as leader: no rate is admissible: inflow 90000000 B/s, capacity leaves 55000000 B/s",
    )


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


def in_sync(*, at: int, size: int, **values: Any) -> dict[str, Any]:
    own = {"role": "follower", "in_sync": True, "fetch_offset": at, "high_watermark": at}
    return {**own, "at": at, "record_bytes": size, **values}


def test_where_only_the_ingress_records_inflow_is_what_leaders_sent(spark: SparkSession) -> None:
    """101 and 103 send 104 10 and 5 MB/s in sync, and 101 as much to 102, which tells itself what it took in; a peer
    that is known by its address alone is no broker."""
    rows = [
        row
        for at in range(60)
        for row in (
            *(in_sync(at=at, size=size, broker=broker, role="leader", peer=peer)
              for broker, peer, size in ((101, "104", 10_000_000), (103, "104", 5_000_000), (101, "102", 10_000_000),
                                         (101, "10.0.0.9", 1000))),
            in_sync(at=at, size=9_000_000, broker=102, peer="101"),
        )
    ]  # fmt: skip
    assert measured(traffic(spark, rows))[1] == {104: pytest.approx(15 * MB), 102: pytest.approx(9 * MB)}


def test_minutes_in_which_nothing_came_count(spark: SparkSession) -> None:
    """A minute of 10 MB/s, and a byte ten hours later: but for one of 601 minutes the inflow was nothing. Another
    broker took in 1, 2, ... 20 bytes a second, in every other minute of 39."""
    rows = [in_sync(at=at, size=10_000_000) for at in range(60)] + [in_sync(at=36_000, size=1)]
    rows += [in_sync(at=120 * n, size=60 * (n + 1), broker=102) for n in range(20)]
    rows += [in_sync(at=120 * 19 + 59, size=0, broker=102)]
    assert measured(traffic(spark, rows))[1] == {101: pytest.approx(0, abs=1e-9), 102: pytest.approx(18.1)}


def test_minutes_that_are_not_over_count_as_long_as_they_were(spark: SparkSession) -> None:
    """90 seconds at 3000 bytes a second, from the fiftieth second of a minute on: no minute of a clock is full."""
    rows = [
        {"at": 50 + at, "role": "follower", "in_sync": True, "fetch_offset": 30 * at, "high_watermark": 30 * at,
         "record_bytes": 3000}
        for at in range(90)
    ]  # fmt: skip
    assert measured(traffic(spark, rows))[1] == {101: pytest.approx(3000)}
