"""Clusters of real brokers, started once for all tests that need them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from lab.cluster.cluster import Cluster, start_cluster
from lab.cluster.plan import ClusterPlan
from lab.moves.move import MIB, Move
from lab.moves.mover import Mover
from lab.sidecars.sidecars import SidecarPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.cases import Case
    from lab.moves.move import MoveResult

WARM_UP = Move("unthrottled", bytes_per_partition=MIB, followers=(102, 103))
"""Brokers that have just started take 0.54 to 0.72 s from the request of their first move to its first byte, without
sidecars as well; later ones take 0.08 s. That would be 5 % of a move's time, and say nothing of the quota."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test that needs a cluster is charged with its start and its first move: 14 s on an idle machine, of the
    60 s that every other test has."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(240))


def _started(plan: ClusterPlan, *, first: Move | None = None) -> Iterator[Cluster]:
    # Not tied to one Trio run: each test has a run of its own.
    cluster = trio.run(start_cluster, plan)
    try:
        if first is not None:
            trio.run(Mover(cluster).run, first)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def native_cluster() -> Iterator[Cluster]:
    """Three brokers of protocol 0.10.1 (Fetch v3) with taps, and nothing else between them."""
    yield from _started(ClusterPlan(), first=WARM_UP)


@pytest.fixture(scope="session")
def sidecar_cluster() -> Iterator[Cluster]:
    """The same with a sidecar beside every broker, both roles, without quotas."""
    yield from _started(ClusterPlan(sidecars=SidecarPlan()), first=WARM_UP)


@pytest.fixture(scope="session")
def four_fetchers_native() -> Iterator[Cluster]:
    """As `native_cluster`, with num.replica.fetchers=4."""
    yield from _started(ClusterPlan(num_replica_fetchers=4), first=WARM_UP)


@pytest.fixture(scope="session")
def four_fetchers_sidecars() -> Iterator[Cluster]:
    """As `sidecar_cluster`, with num.replica.fetchers=4."""
    yield from _started(ClusterPlan(num_replica_fetchers=4, sidecars=SidecarPlan()), first=WARM_UP)


@pytest.fixture(scope="session")
def watched_cluster() -> Iterator[Cluster]:
    """Two brokers with sidecars that also show their own metrics, and shrink the ISR after 5 s instead of 30."""
    yield from _started(
        ClusterPlan(
            brokers=(101, 102),
            broker_overrides={"replica.lag.time.max.ms": "5000"},
            sidecars=SidecarPlan(),
            jmx=True,
        )
    )


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> Callable[[Case, MoveResult], None]:
    """Keep what a case came to, one JSON line each, for `benchmarks.moves` to make its table of."""
    path = request.config.rootpath / "build" / "moves.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)

    def record(case: Case, result: MoveResult) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"case": case.name, **result.summary()}) + "\n")

    return record


@pytest.fixture(scope="session")
def record(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Keep figures of a run: `record("in_sync", worst_seconds=0.2)` adds a JSON line to build/in_sync.jsonl."""

    def write(file: str, **figures: object) -> None:
        path = request.config.rootpath / "build" / f"{file}.jsonl"
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(figures) + "\n")

    return write
