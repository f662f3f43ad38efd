"""The pipeline by spark-submit on a node: a driver and two executors, and a job in one pod, all restricted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.ring import Cluster, write
from tests.deploy.containers import Containers
from tests.system.printed_tables import role_rows

from .spark_jobs import SparkJobs, archive_image

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.kubernetes.control_plane import ControlPlane
    from lab.kubernetes.node import Node

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(3000)]

GENERATED = Cluster(brokers=2, partitions=4, seconds=60)


@pytest.fixture
def jobs(cluster: tuple[ControlPlane, Node], tmp_path: Path) -> Iterator[SparkJobs]:
    servers, node = cluster
    archive = archive_image(Containers(), tmp_path)
    node.import_image(archive)
    archive.unlink()
    made = SparkJobs(servers, node, tmp_path)
    try:
        made.make()
        yield made
    finally:
        made.delete()


def test_a_driver_and_two_executors_do_what_one_process_does(jobs: SparkJobs) -> None:
    """What they answer is the generated truth; a job that fails is a pod that failed."""
    write(GENERATED, jobs.data / "journal")
    phase, said = jobs.submit("ingest", "ingest", "/data/journal", "--into", "/data/tables")
    assert phase == "Succeeded", said
    assert f"lines: {GENERATED.lines}, of them set aside: 0" in said
    assert jobs.executors("ingest") == ["Succeeded", "Succeeded"]
    phase, table = jobs.run_alone("audit", "audit", "/data/tables")
    assert phase == "Succeeded", table
    assert role_rows(table, ("broker", "role", "worst_11s", "kept")) == [
        (broker, role, "1.000", "True") for broker in ("101", "102") for role in ("follower", "leader")
    ]
    # By the exact model, which is Python on executors.
    phase, said = jobs.submit("replay", "replay", "--flow", "1:2:20MB", "--leader", "1MB/s")
    assert phase == "Succeeded", said
    assert round(float(said.split()[-1])) == 20
    phase, said = jobs.submit("nothing", "ingest", "/data/nowhere", "--into", "/data/tables")
    assert phase == "Failed"
    assert "/data/nowhere" in said
