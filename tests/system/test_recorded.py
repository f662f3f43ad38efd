"""A recorded move on real brokers: the pipeline's bytes, rates, worst windows and durations are those on the wire.

The taps count between the sidecars, in a process of their own; the journals are written by both sidecars of the link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

from admission.simple_rate import SimpleRate
from lab.brokers.releases import release
from lab.cluster.cluster import cluster
from lab.moves.move import MIB, Move
from pipeline.jobs.audit import seconds_with_quota, summary
from pipeline.jobs.rates import LEVELS, per_second, windowed
from pipeline.journals.ingest import ingest
from pipeline.tables import Tables
from tests.pipeline.frames import moves
from tests.pipeline.sessions import session_in
from tests.system.recordings import Recorded, collect_journals, plan, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

LEADER, FOLLOWER = 101, 102
QUOTA = 4 * MIB
PROTOCOLS = ("0.10.1", "1.1", "2.8", "3.3", "3.9")
"""Without fetch sessions, with them, in flexible encoding, with topic ids, and as brokers are today."""
MOVE = Move("sidecar strict", side="both", quota_bytes_per_second=QUOTA, partitions=4, bytes_per_partition=20 * MIB)
GRANT_BYTES = QUOTA // 10 + 64 * 1024
"""A gate, and the rest of a batch: what may be in one second for the tap and in the next for the sidecar, or the other
way round."""


class Run(NamedTuple):
    recorded: Recorded
    tables: Tables


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = session_in(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(
    scope="module", params=PROTOCOLS, ids=[f"Fetch v{release(protocol=one).fetch_version}" for one in PROTOCOLS]
)
def run(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("recorded")

    async def carry_out() -> Recorded:
        async with cluster(plan((LEADER, FOLLOWER), release(protocol=request.param))) as running:
            found = await record(running, MOVE)
            await collect_journals(running, folder / "journal")
            return found

    recorded = trio.run(carry_out)
    assert recorded.equal
    outcome = ingest(spark, [str(folder / "journal")], str(folder / "tables"))
    assert (set(outcome.files), outcome.quarantined) == ({"whole"}, 0)
    return Run(recorded, Tables(spark, str(folder / "tables")))


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_bytes_are_those_on_the_wire_exactly(run: Run, role: str) -> None:
    """From v13 on the first answer may come before the topic's name is known; then it is told by its id."""
    rows = run.tables.traffic.where(f"role = '{role}' and topic not like '\\\\_\\\\_%'")
    found = {row.partition: row.bytes for row in rows.groupBy("partition").agg({"record_bytes": "sum"})
             .toDF("partition", "bytes").collect()}  # fmt: skip
    assert found == run.recorded.bytes_by_partition()


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_rates_and_worst_windows_are_those_on_the_wire(run: Run, role: str) -> None:
    """The same whole seconds on both sides. A leader's quota counts headers too, some tens of bytes per entry."""
    wire = run.recorded.bytes_by_second()
    seconds = range(min(wire), max(wire) + 1)
    elevens = {end: sum(wire[at] for at in range(end - 10, end + 1)) for end in seconds}
    by_second = per_second(run.tables.seconds, LEVELS["broker"]).where(f"role = '{role}' and bytes > 0")
    counted = {row.time: row.bytes for row in by_second.collect()}
    for end in seconds[10:]:
        assert sum(counted.get(at, 0) for at in range(end - 10, end + 1)) == pytest.approx(elevens[end], rel=0.02)
    (verdict,) = (
        row for row in summary(seconds_with_quota(run.tables.seconds, run.tables.events)).collect() if row.role == role
    )
    assert (verdict.limit, verdict.enforce) == (QUOTA, True)
    assert verdict.worst_11s * 11 * QUOTA == pytest.approx(max(elevens.values()), rel=0.02)
    assert verdict.worst_1s * QUOTA == pytest.approx(max(wire.values()), abs=GRANT_BYTES)
    assert verdict.bytes == pytest.approx(sum(wire.values()), rel=0.001)


def test_kip73s_rate_is_that_of_the_wire(run: Run) -> None:
    rates = windowed(per_second(run.tables.seconds, LEVELS["broker"]), LEVELS["broker"])
    found = {row.time: row.kip73_rate for row in rates.where("role = 'follower'").collect()}
    steady = sorted(found)[11:-1]
    assert len(steady) >= 5
    for second in steady:
        rate = SimpleRate()
        for delivery in run.recorded.deliveries:
            if delivery.time < second + 1:
                rate.record(delivery.record_bytes, delivery.time)
        assert found[second] == pytest.approx(rate.measure(second + 1), rel=0.05)


def test_the_move_took_what_it_took(run: Run) -> None:
    """From the first fetch of the last partition to begin until each had caught up, to the second."""
    found = moves(run.tables.traffic, run.tables.events).collect()
    assert {(row.source, row.destination, row.finished) for row in found} == {(str(LEADER), str(FOLLOWER), True)}
    assert {row.partition for row in found} == set(range(MOVE.partitions))
    last = {p: max(d.time for d in run.recorded.deliveries if d.partition == p) for p in range(MOVE.partitions)}
    for row in found:
        assert row.began == pytest.approx(run.recorded.deliveries[0].time, abs=2)
        assert row.began + row.seconds == pytest.approx(last[row.partition], abs=2)
