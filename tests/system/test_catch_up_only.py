"""A mirror under `catch_up_only`, on a real broker: 200 partitions resume, and one is read at its tail beside them.

Without it the same quota mutes the connection, and the tail with it: that figure stands beside.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

import lab.clients
from lab.brokers.releases import release
from lab.clients.program import ClientProgram, ingresses, servers
from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.moves.scenes import topic
from lab.sidecars.sidecars import SidecarPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.cluster.cluster import Cluster

BROKER, OTHER = 101, 102
RATE = 4_000_000
PARTITIONS, RECORDS, RECORD_BYTES = 200, 40, 10_000
RESPONSE_BYTES = 2**20
"""`max.partition.fetch.bytes`: what a response brings at most of the first partition of a grant."""
QUOTAS = f"""
[clients.mirror]
consumer_byte_rate = {RATE}
catch_up_only = true
[clients.muted]
consumer_byte_rate = {RATE}
"""
PROGRAMS = Path(lab.clients.__file__).parent
WITHOUT_COLLECTIONS = ("-Xms1g", "-Xmn900m", "-XX:MetaspaceSize=128m", "-XX:+UseSerialGC")
"""Options of a JVM that makes no garbage worth collecting."""
MIRRORS = {
    "kafka-clients": ClientProgram(PROGRAMS / "Mirror.java", "4.1.0", WITHOUT_COLLECTIONS),
    "librdkafka": ClientProgram(PROGRAMS / "mirror_librdkafka.py", None),
}


class Mirrored(NamedTuple):
    alone: list[float]
    """Seconds from the producer to the consumer of each record at the tail, before the others resume."""
    beside: list[float]
    """The same while they catch up."""
    onlooker: list[float]
    """The same by a consumer of the tail alone, without a quota: the broker's pauses are its own, too."""
    behind: list[tuple[float, int]]
    """When each poll brought bytes of the others, in seconds, and how many."""
    wrong: list[str]

    @property
    def bytes_per_second(self) -> float:
        return sum(size for _, size in self.behind[1:]) / (self.behind[-1][0] - self.behind[0][0])

    def worst_second(self) -> int:
        return max(sum(size for at, size in self.behind if began <= at < began + 1) for began, _ in self.behind)


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


def quantiles(seconds: list[float]) -> list[float]:
    """The median, p90, p99 and the longest, in milliseconds."""
    ordered = sorted(seconds)
    return [round(ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1000, 1) for part in (0.5, 0.9, 0.99, 1)]


async def mirrored(running: Cluster, mirror: ClientProgram, client_id: str) -> Mirrored:
    async with topic(running, {partition: [BROKER] for partition in range(PARTITIONS + 1)}) as name:
        arguments = (servers(running), name, client_id, PARTITIONS, RECORDS, RECORD_BYTES, 3)
        events = await mirror.run(running, ingresses(running), arguments)
    assert events[-1] == ["done"]
    alone, beside, onlooker = (
        [int(event[1]) / 1e9 for event in events if event[0] == who] for who in ("alone", "beside", "onlooker")
    )
    behind = [(int(event[1]) / 1000, int(event[2])) for event in events if event[0] == "behind"]
    return Mirrored(alone, beside, onlooker, behind, [" ".join(event) for event in events if event[0] == "wrong"])


@pytest.fixture(scope="module")
def shared_listener() -> Iterator[Cluster]:
    plan = ClusterPlan(
        brokers=(BROKER, OTHER), release=release(protocol="4.1"), taps=False, sidecars=SidecarPlan(quotas=QUOTAS)
    )
    made = trio.run(start_cluster, plan)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.system
@pytest.mark.timeout(180)
@pytest.mark.parametrize("library", MIRRORS)
async def test_a_mirror_that_resumes_keeps_to_its_rate_and_its_tail_waits_for_nothing(
    shared_listener: Cluster, library: str, record: Callable[..., None]
) -> None:
    found = {
        client_id: await mirrored(shared_listener, MIRRORS[library], client_id) for client_id in ("mirror", "muted")
    }
    figures = {
        client_id: {
            "alone_ms": quantiles(each.alone), "beside_ms": quantiles(each.beside),
            "onlooker_ms": quantiles(each.onlooker), "worst_second": each.worst_second(),
            "bytes_per_second": round(each.bytes_per_second),
        }
        for client_id, each in found.items()
    }  # fmt: skip
    record("catch_up_only", library=library, **figures)
    mirror, muted = found["mirror"], found["muted"]
    assert mirror.wrong == muted.wrong == []
    assert mirror.worst_second() <= 1.25 * RATE + RESPONSE_BYTES
    assert mirror.bytes_per_second > 0.8 * RATE
    # The broker's collections of garbage take up to 125 ms here, for the mirror as for whoever looks on.
    assert p99(mirror.beside) - p99(mirror.onlooker) <= 0.05  # 5 ms are wanted
    assert p99(muted.beside) > 10 * p99(mirror.beside)
    counted = shared_listener.sidecars[BROKER].metrics()
    free = sum(counted["replication_throttle_client_free_bytes_total"].values())
    assert 0 < free < RATE  # the tail alone, of records of 20 bytes
