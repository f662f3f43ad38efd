from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pipeline.errors import InputError
from pipeline.measured import measure
from pipeline.planning import Size, Wanted, plan, quotas_toml, rate_to_set, read_reassignment
from proxy.cli import cli as sidecar
from tests.pipeline.frames import traffic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MB = 1_000_000.0
CURRENT = {("orders", 0): ("101", "102"), ("orders", 1): ("101", "103"), ("pay.ments", 0): ("102", "101")}
TARGET = {("orders", 0): ("104", "102"), ("orders", 1): ("101", "104"), ("pay.ments", 0): ("102", "101")}
SIZES = {
    ("orders", 0): Size("101", 1000 * MB, 0.5 * MB),
    ("orders", 1): Size("101", 2000 * MB, 0.0),
}
WANTED = Wanted(seconds=1000, capacity_bytes_per_second=100 * MB, replication_factor=2)


def test_rates_end_the_move_in_time() -> None:
    """101 sends 1000 + 2000 MB in 1000 s, and 0.5 MB/s that is written meanwhile; 104 takes the same."""
    planned = plan(TARGET, CURRENT, SIZES, {"104": 2 * MB, "101": MB}, WANTED)
    found = {(rate.broker, rate.role): rate for rate in planned.rates}
    assert found.keys() == {("101", "leader"), ("104", "follower")}
    assert found["101", "leader"].needed == pytest.approx(3.5 * MB)
    assert (found["104", "follower"].low, found["104", "follower"].high) == (2 * MB, 99 * MB)
    assert planned.problems == ()
    assert 3.5 * MB <= rate_to_set(found["101", "leader"]) < 3.5 * MB + 1024


def test_a_slow_wish_is_raised_above_the_inflow() -> None:
    planned = plan(TARGET, CURRENT, SIZES, {"104": 50 * MB}, WANTED)
    rate = next(rate for rate in planned.rates if rate.role == "follower")
    assert 50 * MB < rate_to_set(rate) <= 50 * MB + 1024


def test_a_part_of_the_data_in_the_time_wanted() -> None:
    half = Wanted(1000, 100 * MB, 2, fraction=0.5)
    planned = plan(TARGET, CURRENT, SIZES, {}, half)
    assert [rate.needed for rate in planned.rates] == pytest.approx([2 * MB] * 2)


@pytest.mark.parametrize(
    ("wanted", "inflow", "problem"),
    [
        (Wanted(10, 100 * MB, 2), {}, "broker 101 as leader: needs 300500992 B/s to end in time, and must stay below"),
        (WANTED, {"104": 90 * MB}, "broker 104 as follower: no rate is admissible: inflow 90000000 B/s"),
    ],
)
def test_what_cannot_be_is_refused_and_says_which_broker(
    wanted: Wanted, inflow: dict[str, float], problem: str
) -> None:
    planned = plan(TARGET, CURRENT, SIZES, inflow, wanted)
    with pytest.raises(InputError) as error:
        quotas_toml(planned)
    assert problem in str(error.value)


def test_what_is_not_known_is_said() -> None:
    assert plan(TARGET, CURRENT, {("orders", 0): SIZES["orders", 0]}, {}, WANTED).unknown == (("orders", 1),)
    with pytest.raises(InputError, match="new-0: not in the current assignment"):
        plan({("new", 0): ("101",)}, CURRENT, SIZES, {}, WANTED)


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


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "r.json: line 1: not JSON"),
        ("[]", 'r.json: expected {"version":1,"partitions":[...]}'),
        ('{"partitions":[{"topic":"a","partition":"0"}]}', "r.json: partitions[0].partition: expected int, found '0'"),
        (
            '{"partitions":[{"topic":"a","partition":0,"replicas":["x"]}]}',
            "partitions[0].replicas: expected broker ids",
        ),
    ],
)
def test_a_wrong_reassignment_says_where(text: str, problem: str) -> None:
    with pytest.raises(InputError) as error:
        read_reassignment(text, "r.json")
    assert problem in str(error.value)


def test_what_the_journals_measured(spark: SparkSession) -> None:
    """100 bytes a message: 10 a second fetched of a log of 500 that grows by 2; 3000 bytes a second in sync."""
    rows = [
        {"at": at, "role": "follower", "fetch_offset": 10 * at, "high_watermark": 500 + 2 * at} for at in range(60)
    ] + [
        {"at": at, "role": "follower", "partition": 1, "in_sync": True, "fetch_offset": 30 * at,
         "high_watermark": 30 * at, "record_bytes": 3000}
        for at in range(60)
    ]  # fmt: skip
    sizes, inflow = measure(traffic(spark, rows))
    assert inflow == {"101": pytest.approx(3000)}
    size = sizes["orders", 0]
    assert size.leader == "102"
    assert size.bytes == pytest.approx(618 * 100, rel=0.03)
    assert size.written_bytes_per_second == pytest.approx(200, rel=0.03)
