"""A real recording: a sidecar with a journal between a leader and a follower, and what the pipeline makes of it."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

from lab.embedded.follower import EmbeddedFollower, FetcherSettings
from lab.embedded.leader import EmbeddedLeader
from pipeline.jobs.audit import seconds_with_quota, summary
from pipeline.jobs.lag import per_replica, sum_replica_lag
from pipeline.journals.ingest import ingest
from pipeline.tables import Tables
from proxy.config.settings import load_settings
from proxy.quota_files.reload import QuotaWatch
from proxy.serving.serve import serve
from proxy.statistics.counters import Statistics
from tests.pipeline.frames import moves
from tests.proxy.recorded_log import RecordedLog
from tests.proxy.serving.test_sidecar import until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

MIB = 1024 * 1024
KEYS = [("orders", 0), ("orders", 1), ("free", 0)]
MESSAGES = 6000
"""Three seconds' worth: whenever it begins there is a whole second in which they are behind and nothing else."""
QUOTA = 4 * MIB


class Recorded(NamedTuple):
    seconds: float
    bytes_by_partition: dict[tuple[str, int], int]
    statistics: Statistics


async def record(folder: Path) -> Recorded:
    """A follower catches up on two throttled partitions, and on one that is not."""
    leader = EmbeddedLeader()
    for topic, partition in KEYS:
        leader.produce(topic, partition, MESSAGES)
    follower = EmbeddedFollower(KEYS, settings=FetcherSettings(backoff_seconds=0.05))
    statistics, log = Statistics(), RecordedLog()
    async with leader.listening() as (_, upstream), trio.open_nursery() as nursery:
        (folder / "proxy.toml").write_text(
            f'[broker]\nid = 101\n[ingress]\nlisten = "127.0.0.1:0"\nupstream = "127.0.0.1:{upstream}"\n'
            '[http]\nlisten = "127.0.0.1:0"\n[journal]\ndirectory = "journal"\n'
        )
        settings = load_settings(folder / "proxy.toml")
        watch = QuotaWatch.open(settings.quotas.file, broker_id=101, log=log)
        run = partial(serve, settings, watch, statistics=statistics, log=log, signals=False)
        addresses = await nursery.start(run)
        began = trio.current_time()
        fetching = trio.CancelScope()

        async def fetch() -> None:
            with fetching:
                await follower.run(*addresses["ingress.listen"])

        nursery.start_soon(fetch)
        with trio.fail_after(20):
            await follower.wait_caught_up(dict.fromkeys(KEYS, MESSAGES))
        seconds = trio.current_time() - began
        at_the_end = follower.fetches
        await until(lambda: follower.fetches >= at_the_end + 2)  # the next answer says that it has caught up
        fetching.cancel()
        await until(lambda: "connection_closed" in log.events)
        nursery.cancel_scope.cancel()
    taken = {key: sum(d.record_bytes for d in follower.deliveries if (d.topic, d.partition) == key) for key in KEYS}
    return Recorded(seconds, taken, statistics)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recorded]:
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "quotas.toml").write_text(
        f"[brokers.101]\nleader.replication.throttled.rate = {QUOTA}\n"
        '[topics.orders]\nleader.replication.throttled.replicas = "*"\n'
    )
    return folder, trio.run(record, folder)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, recording: tuple[Path, Recorded]) -> Tables:
    folder, _ = recording
    outcome = ingest(spark, [str(folder / "journal")], str(folder / "tables"))
    assert (outcome.files, outcome.quarantined) == ({"whole": 1}, 0)
    return Tables(spark, str(folder / "tables"))


def test_bytes_are_those_that_arrived_exactly(recording: tuple[Path, Recorded], tables: Tables) -> None:
    rows = tables.traffic.groupBy("topic", "partition", "throttled").sum("record_bytes").collect()
    found = {(row.topic, row.partition): row["sum(record_bytes)"] for row in rows}
    assert found == recording[1].bytes_by_partition
    assert {(row.topic, row.throttled) for row in rows} == {("orders", True), ("free", False)}


def test_bytes_are_those_that_the_quota_was_charged(recording: tuple[Path, Recorded], tables: Tables) -> None:
    leader = recording[1].statistics.leader
    row = tables.traffic.where("throttled").groupBy().sum("wire_bytes", "omitted").first()
    assert row is not None
    assert row["sum(wire_bytes)"] == leader.throttled_bytes_in_sync + leader.throttled_bytes_catching_up
    assert row["sum(omitted)"] == leader.omitted_partitions


def test_the_bound_was_kept_and_the_moves_took_what_they_took(recording: tuple[Path, Recorded], tables: Tables) -> None:
    (row,) = summary(seconds_with_quota(tables.traffic, tables.events)).collect()
    assert (row.limit, row.enforce, row.kept) == (QUOTA, True, True)
    found = moves(tables.traffic, tables.events).collect()
    assert {(move.source, move.destination, move.finished) for move in found} == {("101", "102", True)}
    assert max(move.seconds for move in found) == pytest.approx(recording[1].seconds, abs=1.5)
    last = sum_replica_lag(per_replica(tables.traffic.where("throttled"))).orderBy("time").collect()[-1]
    assert (last.lag, last.behind) == (0, 0)


def test_what_happened_is_told(tables: Tables) -> None:
    rows = tables.events.orderBy("tick").collect()
    assert {"file_opened", "start", "quota", "connection", "file_closed"} <= {row.kind for row in rows}
    (selection,) = {row.selection for row in rows if row.kind == "quota" and row.role == "leader"}
    assert json.loads(selection) == {"orders": "*"}
    (connection,) = [row for row in rows if row.kind == "connection"]
    assert (connection.role, connection.peer) == ("leader", "102")
    assert connection.replica_fetches > 0
