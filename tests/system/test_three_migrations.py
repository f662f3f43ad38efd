"""The classic three migrations, at a twentieth of their bytes: predicted from the plan alone, and recorded on brokers.

Topics of 200 MB at 300 KiB/s: two leave one broker, two come to one, one moves alone. Here they are 10 MiB of 100 kB
records, as Kafka's own tests of quotas have them. The pipeline knows nothing but the sidecars' journals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import pytest
import trio
from pyspark.sql import functions as F

from lab.brokers.releases import RELEASES
from lab.cluster.cluster import cluster
from lab.moves.move import MIB, Move
from lab.wire.records import Shape
from pipeline.journals.ingest import ingest
from pipeline.model.backtest import of_links, of_plan
from pipeline.model.duration_curve import recorded
from pipeline.model.fluid import LINE_BYTES_PER_SECOND, Stream, finish_times
from pipeline.tables import CachedFrames, Tables
from tests.pipeline.frames import moves_of
from tests.pipeline.sessions import session_in
from tests.system.recordings import Recorded, collect_journals, plan, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from pipeline.model.backtest import BackTest

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

QUOTA = 300 * 1024
SCALE = 20
TOPIC_BYTES = 200 * MIB // SCALE
RECORD_BYTES = 100_000
BROKERS = (101, 102, 103)
Policy = Literal["strict", "kip73"]


class Migration(NamedTuple):
    """Who moves to whom."""

    leaders: tuple[int, ...]
    followers: tuple[int, ...]

    def streams(self) -> list[Stream]:
        return [
            Stream(str(leader), str(follower), TOPIC_BYTES) for leader in self.leaders for follower in self.followers
        ]

    def move(self, policy: Policy) -> Move:
        return Move(
            f"sidecar {policy}",
            side="both",
            quota_bytes_per_second=QUOTA,
            partitions=len(self.leaders),
            bytes_per_partition=TOPIC_BYTES,
            leaders=self.leaders,
            followers=self.followers,
            shape=Shape(record_bytes=RECORD_BYTES, batch_records=1),
        )


MIGRATIONS = {
    "leader": Migration((101,), (102, 103)),
    "follower": Migration((101, 102), (103,)),
    "independent": Migration((101,), (102,)),
}


def predicted_seconds(migration: Migration, policy: Policy) -> float:
    """A broker's own arithmetic lets a tenth more pass in the long run."""
    rate = QUOTA * (1.1 if policy == "kip73" else 1.0)
    quotas = {(str(broker), role): rate for broker in BROKERS for role in ("leader", "follower")}
    ends = finish_times(migration.streams(), quotas, line_bytes_per_second=LINE_BYTES_PER_SECOND)
    return max(seconds or 0.0 for seconds in ends)


# Which quotas set the pace: where two share one, that one alone; of a pair of brokers both.
HELD_BY = {
    "leader": {"broker 101 as leader"},
    "follower": {"broker 103 as follower"},
    "independent": {"broker 101 as leader", "broker 102 as follower"},
}


def back_tests(tables: Tables, found: DataFrame) -> dict[str, BackTest]:
    """The fluid model and `plan`, held against these moves."""
    told = recorded(tables, found)
    return {"fluid": of_links(told), "plan": of_plan(told)}


@pytest.mark.parametrize("policy", ["strict", "kip73"])
def test_they_take_what_replay_said_and_their_bounds_are_told(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, policy: Policy
) -> None:
    folder = tmp_path_factory.mktemp("migrations")
    keep: Callable[..., None] = request.getfixturevalue("record")

    async def carry_out() -> dict[str, Recorded]:
        async with cluster(plan(BROKERS, RELEASES[0])) as running:
            found = {name: await record(running, one.move(policy)) for name, one in MIGRATIONS.items()}
            await collect_journals(running, folder / "journal")
            return found

    carried_out = trio.run(carry_out)
    spark = session_in(folder)
    try:
        ingest(spark, [str(folder / "journal")], str(folder / "tables"))
        tables = Tables(spark, str(folder / "tables"))
        with CachedFrames() as held:
            every = held.once(moves_of(tables, held))
            rows = every.collect()
            tested = {
                name: back_tests(tables, every.where(F.col("topic") == one.topic)) for name, one in carried_out.items()
            }
    finally:
        spark.stop()
    for name, migration in MIGRATIONS.items():
        seen = carried_out[name]
        found = [row for row in rows if row.topic == seen.topic]
        assert seen.equal
        assert len(found) == len(migration.streams())
        took = max(row.began + row.seconds for row in found) - seen.began
        on_the_wire = max(delivery.time for delivery in seen.deliveries) - seen.began
        predicted = predicted_seconds(migration, policy)
        keep("three_migrations", case=name, policy=policy, recorded=took, wire=on_the_wire, predicted=predicted)
        assert all(row.finished for row in found)
        assert took == pytest.approx(on_the_wire, abs=2.0)
        assert took == pytest.approx(predicted, rel=0.1)
        assert {row.bound for row in found} == {name}
        if policy == "kip73":
            continue  # the fluid model and plan are of the strict policy
        for model, told in tested[name].items():
            assert told.median_and_worst is not None
            worst = told.median_and_worst[1].error
            keep("back_test", case=name, model=model, of=len(told.tested), worst=worst)
            assert abs(worst) < 0.1
        assert len(tested[name]["fluid"].tested) == len(migration.streams())
        assert {one.what for one in tested[name]["plan"].tested} <= HELD_BY[name]
