"""What sidecars cost that which they do not throttle: the same moves with and without them, in turns.

    python -m benchmarks.unthrottled [--json] [--rounds 3]

Two scenes: a move without any quotas, through the sidecars of both its ends; and a topic that no list names, moving
beside one that is throttled (natively where there are no sidecars). No taps on either side. A time is from the
reassignment to the follower's last byte on disk, looked at every 5 ms. Knows the lab, judges nothing.
"""

from __future__ import annotations

import json
import statistics
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import click
import trio

from lab.cluster import ClusterPlan, cluster
from lab.moves import MIB
from lab.scenes import fill_topic, native_quotas, sidecar_quotas, topic, until_equal, until_moved
from lab.sidecars import SidecarPlan, lists_toml

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.cluster import Cluster

LEADER, FOLLOWER = 101, 102
PARTITIONS = range(8)
GIB = 1024 * MIB
THROTTLED_BYTES = 16 * MIB
QUOTA = 4.0 * MIB
_LOOK_SECONDS = 0.005
_PATIENCE_SECONDS = 120.0


class Run(NamedTuple):
    bytes_per_second: float
    cpu_seconds_per_gib: float
    """Of all sidecars together; 0 without any."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scene: its rounds without sidecars and with them."""

    scene: str
    without: list[Run] = field(default_factory=list)
    through: list[Run] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Median throughput through sidecars over that without."""
        return _median_rate(self.through) / _median_rate(self.without)

    @property
    def cpu_seconds_per_gib(self) -> float:
        return statistics.median(run.cpu_seconds_per_gib for run in self.through)

    def summary(self) -> dict[str, object]:
        """One flat row for JSON."""
        return {
            "scene": self.scene,
            "without_bytes_per_second": [round(run.bytes_per_second) for run in self.without],
            "through_bytes_per_second": [round(run.bytes_per_second) for run in self.through],
            "ratio_of_medians": round(self.ratio, 3),
            "sidecars_cpu_seconds_per_gib": round(self.cpu_seconds_per_gib, 3),
        }


def _median_rate(runs: Sequence[Run]) -> float:
    return statistics.median(run.bytes_per_second for run in runs)


def bytes_on_disk(log_dir: Path, name: str) -> int:
    """Size of all segments of a topic's replicas on one broker."""
    return sum(segment.stat().st_size for segment in log_dir.glob(f"{name}-*/*.log"))


async def _moved(kafka: Cluster, name: str) -> Run:
    total = bytes_on_disk(kafka.brokers[LEADER].log_dir, name)
    cpu, started = _cpu_seconds(kafka), time.monotonic()
    await trio.to_thread.run_sync(kafka.admin.reassign, name, {p: [LEADER, FOLLOWER] for p in PARTITIONS})
    target = kafka.brokers[FOLLOWER].log_dir
    with trio.fail_after(_PATIENCE_SECONDS):
        while bytes_on_disk(target, name) < total:  # noqa: ASYNC110 - a file system tells nobody
            await trio.sleep(_LOOK_SECONDS)
    took, cpu = time.monotonic() - started, _cpu_seconds(kafka) - cpu
    await until_moved(kafka, name, PARTITIONS, timeout_seconds=30)
    await until_equal(kafka, name, timeout_seconds=30)
    return Run(total / took, cpu * GIB / total)


def _cpu_seconds(kafka: Cluster) -> float:
    return sum(sidecar.process.cpu_seconds() for sidecar in kafka.sidecars.values())


async def no_quotas(kafka: Cluster, bytes_per_partition: int) -> Run:
    """A move when there is no quota at all."""
    async with topic(kafka, {p: [LEADER] for p in PARTITIONS}, prefix="free") as name:
        await fill_topic(kafka, name, dict.fromkeys(PARTITIONS, LEADER), bytes_per_partition=bytes_per_partition)
        return await _moved(kafka, name)


async def beside_a_throttled_one(kafka: Cluster, bytes_per_partition: int) -> Run:
    """A move of a topic that is not listed while another one, from and to the same brokers, is held back
    on both sides."""
    rates = {"leader": QUOTA, "follower": QUOTA}
    async with (
        topic(kafka, {0: [LEADER]}, prefix="slow") as slow,
        topic(kafka, {p: [LEADER] for p in PARTITIONS}, prefix="free") as name,
        AsyncExitStack() as throttled,
    ):
        await fill_topic(kafka, slow, {0: LEADER}, bytes_per_partition=THROTTLED_BYTES)
        await fill_topic(kafka, name, dict.fromkeys(PARTITIONS, LEADER), bytes_per_partition=bytes_per_partition)
        lists = {"leader": f"0:{LEADER}", "follower": f"0:{FOLLOWER}"}
        both = (LEADER, FOLLOWER)
        quotas = (
            sidecar_quotas(kafka, lists_toml(rates, {slow: lists}), both, policy="strict")
            if kafka.sidecars
            else native_quotas(kafka, slow, lists=lists, rates=rates, brokers=both)
        )
        await throttled.enter_async_context(quotas)
        await trio.to_thread.run_sync(kafka.admin.reassign, slow, {0: [LEADER, FOLLOWER]})
        await trio.sleep(1)
        found = await _moved(kafka, name)
        await until_moved(kafka, slow, [0], timeout_seconds=60)
    return found


SCENES = {"no quotas at all": no_quotas, "unlisted, beside a throttled topic": beside_a_throttled_one}


async def measure(*, rounds: int, bytes_per_partition: int) -> list[Comparison]:
    """Every scene, so many times on each cluster, in turns; one more round before is thrown away. Raises LabError."""
    found = [Comparison(scene) for scene in SCENES]
    brokers = (LEADER, FOLLOWER)
    async with (
        cluster(ClusterPlan(brokers=brokers, taps=False)) as plain,
        cluster(ClusterPlan(brokers=brokers, taps=False, sidecars=SidecarPlan())) as guarded,
    ):
        for comparison, run in zip(found, SCENES.values(), strict=True):
            for round_ in range(-1, rounds):
                without = await run(plain, bytes_per_partition)
                through = await run(guarded, bytes_per_partition)
                if round_ >= 0:
                    comparison.without.append(without)
                    comparison.through.append(through)
    return found


@click.command(context_settings={"show_default": True})
@click.option("--rounds", default=3, type=click.IntRange(min=1), help="Runs of each scene on each cluster.")
@click.option("--mib", default=64, type=click.IntRange(min=1), help="Size of each of the 8 partitions, MiB.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per scene instead of a table.")
def main(rounds: int, mib: int, as_json: bool) -> None:
    """Compare the throughput of unthrottled moves with and without sidecars."""
    found = trio.run(lambda: measure(rounds=rounds, bytes_per_partition=mib * MIB))
    if not as_json:
        print(
            "| scene | without, MiB/s | through two sidecars, MiB/s | ratio of medians | sidecars' CPU, s/GiB |\n"
            "|---|---|---|---|---|"
        )
    for one in found:
        if as_json:
            print(json.dumps(one.summary()))
        else:
            columns = (
                " ".join(f"{run.bytes_per_second / MIB:.0f}" for run in runs) for runs in (one.without, one.through)
            )
            print(f"| {one.scene} | {' | '.join(columns)} | {one.ratio:.2f} | {one.cpu_seconds_per_gib:.2f} |")


if __name__ == "__main__":
    main()
