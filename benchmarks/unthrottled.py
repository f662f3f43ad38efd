"""The cost of sidecars to traffic that they do not throttle: the same moves with and without them, in turns.

    python -m benchmarks.unthrottled [--json] [--rounds 3] [--link 1]

Two scenes: a move without any quotas, through the sidecars of both its ends; and a topic that no list names, moving
beside one that is throttled (by the brokers' own quota where there are no sidecars). No taps on either side. HAProxy
takes its turn in the sidecars' places, too: the same two hops, but it understands nothing. A time is counted from the
reassignment to the follower's last byte on disk, which is looked at every 5 ms. With `--link` each broker has a network
namespace and a network card of that speed; without, all are on loopback and share two cores. Knows the lab, judges
nothing.
"""

from __future__ import annotations

import json
import statistics
import time
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import click
import trio

from lab import stopping
from lab.cluster.cluster import cluster
from lab.cluster.plan import ClusterPlan
from lab.errors import LabError
from lab.host.addresses import KAFKA_PORT
from lab.host.namespaces import open_rooms
from lab.host.processes import Process, accepts_connections, kill_all, wait_until
from lab.moves.move import MIB
from lab.moves.scenes import fill_topic, native_quotas, sidecar_quotas, topic, until_equal, until_moved
from lab.sidecars.sidecars import SidecarPlan, lists_toml

from .byte_path.contenders.peer import MissingError
from .byte_path.contenders.proxies import SPLICE, haproxy_command, haproxy_version

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from pathlib import Path

    from lab.cluster.cluster import Cluster

LEADER, FOLLOWER = 101, 102
BROKERS = (LEADER, FOLLOWER)
PARTITIONS = range(8)
GIB = 1024 * MIB
THROTTLED_BYTES = 64 * MIB
QUOTA = 4.0 * MIB
"""The throttled topic takes a quarter of a minute: longer than what moves beside it, over a link too."""
_LOOK_SECONDS = 0.005
_PATIENCE_SECONDS = 120.0
_START_SECONDS = 10.0

Way = Literal["direct", "haproxy", "haproxy-splice", "sidecars"]
WAYS: tuple[Way, ...] = get_args(Way)
HAPROXY_OPTIONS: dict[Way, str] = {"haproxy": "", "haproxy-splice": SPLICE}


class Run(NamedTuple):
    bytes_per_second: float
    cpu_seconds_per_gib: float
    """The CPU time of all that stands in between, together; 0 where nothing does."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scene: its rounds, by what stood between the brokers."""

    scene: str
    runs: dict[Way, list[Run]] = field(default_factory=dict)

    @property
    def through(self) -> list[Run]:
        """The runs through sidecars."""
        return self.runs["sidecars"]

    def ratio(self, way: Way) -> float:
        """Return the median throughput over that of brokers that speak to each other directly."""
        return self.rate(way) / self.rate("direct")

    def rate(self, way: Way) -> float:
        """Return the median, in bytes per second."""
        return statistics.median(run.bytes_per_second for run in self.runs[way])

    def cpu_seconds_per_gib(self, way: Way) -> float:
        return statistics.median(run.cpu_seconds_per_gib for run in self.runs[way])

    def summary(self) -> dict[str, object]:
        """Return one row for JSON."""
        return {
            "scene": self.scene,
            **{
                way: {
                    "bytes_per_second": [round(run.bytes_per_second) for run in runs],
                    "ratio_of_medians": round(self.ratio(way), 3),
                    "cpu_seconds_per_gib": round(self.cpu_seconds_per_gib(way), 3),
                }
                for way, runs in self.runs.items()
            },
        }


class Stage(NamedTuple):
    """A cluster, and the processes that its replication passes at the moment."""

    kafka: Cluster
    between: list[Process]
    by_sidecars: bool

    def cpu_seconds(self) -> float:
        return sum(process.cpu_seconds() for process in self.between)


def bytes_on_disk(log_dir: Path, name: str) -> int:
    """Return the size of all segments of a topic's replicas on one broker."""
    return sum(segment.stat().st_size for segment in log_dir.glob(f"{name}-*/*.log"))


async def _moved(stage: Stage, name: str, *, beside: str | None = None) -> Run:
    """Measure a move. Raises LabError if `beside`, a throttled topic, was not moving any more when its last byte
    arrived. What was measured then was partly a move beside nothing."""
    kafka = stage.kafka
    total = bytes_on_disk(kafka.brokers[LEADER].log_dir, name)
    cpu, started = stage.cpu_seconds(), time.monotonic()
    await trio.to_thread.run_sync(kafka.admin.reassign, name, {p: [LEADER, FOLLOWER] for p in PARTITIONS})
    target = kafka.brokers[FOLLOWER].log_dir
    with trio.fail_after(_PATIENCE_SECONDS):
        while bytes_on_disk(target, name) < total:  # noqa: ASYNC110 - a file system tells nobody
            await trio.sleep(_LOOK_SECONDS)
    took, cpu = time.monotonic() - started, stage.cpu_seconds() - cpu
    if beside is not None and not await trio.to_thread.run_sync(kafka.admin.moving, beside, [0]):
        raise LabError(
            f"expected {THROTTLED_BYTES / MIB:.0f} MiB at {QUOTA / MIB:g} MiB/s to be moving still after the"
            f" {took:.1f} s of {total / MIB:.0f} MiB beside them, found that they had moved: measure fewer bytes"
        )
    await until_moved(kafka, name, PARTITIONS, timeout_seconds=30)
    await until_equal(kafka, name, timeout_seconds=30)
    return Run(total / took, cpu * GIB / total)


async def no_quotas(stage: Stage, bytes_per_partition: int) -> Run:
    """Measure a move when there is no quota at all."""
    kafka = stage.kafka
    async with topic(kafka, {p: [LEADER] for p in PARTITIONS}, prefix="free") as name:
        await fill_topic(kafka, name, dict.fromkeys(PARTITIONS, LEADER), bytes_per_partition=bytes_per_partition)
        return await _moved(stage, name)


async def beside_a_throttled_one(stage: Stage, bytes_per_partition: int) -> Run:
    """Measure a move of an unlisted topic while another one, between the same brokers, is held back on both sides."""
    kafka = stage.kafka
    rates = {"leader": QUOTA, "follower": QUOTA}
    async with (
        topic(kafka, {0: [LEADER]}, prefix="slow") as slow,
        topic(kafka, {p: [LEADER] for p in PARTITIONS}, prefix="free") as name,
        AsyncExitStack() as throttled,
    ):
        await fill_topic(kafka, slow, {0: LEADER}, bytes_per_partition=THROTTLED_BYTES)
        await fill_topic(kafka, name, dict.fromkeys(PARTITIONS, LEADER), bytes_per_partition=bytes_per_partition)
        lists = {"leader": f"0:{LEADER}", "follower": f"0:{FOLLOWER}"}
        quotas = (
            sidecar_quotas(kafka, lists_toml(rates, {slow: lists}), BROKERS, policy="strict")
            if stage.by_sidecars
            else native_quotas(kafka, slow, lists=lists, rates=rates, brokers=BROKERS)
        )
        await throttled.enter_async_context(quotas)
        await trio.to_thread.run_sync(kafka.admin.reassign, slow, {0: [LEADER, FOLLOWER]})
        await trio.sleep(1)
        found = await _moved(stage, name, beside=slow)
        await throttled.aclose()  # what is left of it need not be waited for
        await until_moved(kafka, slow, [0], timeout_seconds=60)
    return found


SCENES = {"no quotas at all": no_quotas, "unlisted, beside a throttled topic": beside_a_throttled_one}


@asynccontextmanager
async def _haproxy_in_place(kafka: Cluster, way: Way) -> AsyncGenerator[list[Process]]:
    """Stop the sidecars, have HAProxy listen where they did, and start them again."""
    for sidecar in kafka.sidecars.values():
        await sidecar.stop()
    processes = [_haproxy(kafka, broker, way) for broker in BROKERS]
    try:
        for broker, process in zip(BROKERS, processes, strict=True):
            address = kafka.addresses.ingress(broker)
            process.start()
            await wait_until(
                lambda address=address: accepts_connections(address, KAFKA_PORT),  # type: ignore[misc]
                process=process, what="it listened", timeout_seconds=_START_SECONDS,
            )  # fmt: skip
        yield processes
    finally:
        kill_all(processes)
        for sidecar in kafka.sidecars.values():
            await sidecar.start()


def _haproxy(kafka: Cluster, broker: int, way: Way) -> Process:
    places = kafka.addresses
    (other,) = set(BROKERS) - {broker}
    listen = {
        f"{places.ingress(broker)}:{KAFKA_PORT}": f"{places.direct(broker)}:{KAFKA_PORT}",
        f"{places.egress(broker, other)}:{KAFKA_PORT}": f"{places.ingress(other)}:{KAFKA_PORT}",
    }
    config = kafka.home / f"{way}-{broker}.cfg"
    command = haproxy_command(config, listen, options=HAPROXY_OPTIONS[way])
    within = kafka.plan.rooms.within(broker) if kafka.plan.rooms else ()
    return Process(f"{way} {broker}", [*within, *command], output=config.with_suffix(".log"))


@asynccontextmanager
async def _stage(plain: Cluster, guarded: Cluster, way: Way) -> AsyncGenerator[Stage]:
    if way == "direct":
        yield Stage(plain, [], by_sidecars=False)
    elif way == "sidecars":
        yield Stage(guarded, [sidecar.process for sidecar in guarded.sidecars.values()], by_sidecars=True)
    else:
        async with _haproxy_in_place(guarded, way) as processes:
            yield Stage(guarded, processes, by_sidecars=False)


@asynccontextmanager
async def _cluster(sidecars: SidecarPlan | None, link_bytes_per_second: int | None) -> AsyncGenerator[Cluster]:
    with ExitStack() as stack:
        rooms = None
        if link_bytes_per_second is not None:
            rooms = stack.enter_context(open_rooms(BROKERS, link_bytes_per_second=link_bytes_per_second))
        async with cluster(ClusterPlan(brokers=BROKERS, taps=False, sidecars=sidecars, rooms=rooms)) as made:
            yield made


async def measure(
    *,
    rounds: int,
    bytes_per_partition: int,
    ways: Sequence[Way] = ("direct", "sidecars"),
    link_bytes_per_second: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Comparison]:
    """Measure every scene, so many times each way, in turns; one more round before is thrown away. `tell` hears of each
    run.

    Raises LabError; MissingError if HAProxy is wanted and not there.
    """
    found = [Comparison(scene, {way: [] for way in ways}) for scene in SCENES]
    async with (
        _cluster(None, link_bytes_per_second) as plain,
        _cluster(SidecarPlan(), link_bytes_per_second) as guarded,
    ):
        for comparison, run in zip(found, SCENES.values(), strict=True):
            for round_ in range(-1, rounds):
                for way in ways:
                    async with _stage(plain, guarded, way) as stage:
                        result = await run(stage, bytes_per_partition)
                    tell(f"{comparison.scene}, {way}: {result.bytes_per_second / MIB:.0f} MiB/s")
                    if round_ >= 0:
                        comparison.runs[way].append(result)
    return found


@click.command(context_settings={"show_default": True})
@click.option("--rounds", default=3, type=click.IntRange(min=1), help="Runs of each scene each way.")
@click.option("--mib", default=64, type=click.IntRange(min=1), help="Size of each of the 8 partitions, MiB.")
@click.option(
    "--link", type=click.FloatRange(min=0.01), help="Speed of each broker's network card, Gbit/s; needs root."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per scene instead of a table.")
def main(rounds: int, mib: int, link: float | None, as_json: bool) -> None:
    """Compare the throughput of unthrottled moves with sidecars, with HAProxy in their places, and without."""
    ways: tuple[Way, ...] = WAYS
    try:
        haproxy_version()
    except MissingError as why:
        click.echo(f"left out: {why}", err=True)
        ways = ("direct", "sidecars")
    speed = None if link is None else int(link * 1e9 / 8)
    found, failures = stopping.run(
        partial(
            measure,
            rounds=rounds,
            bytes_per_partition=mib * MIB,
            ways=ways,
            link_bytes_per_second=speed,
            tell=partial(click.echo, err=True),
        )
    )
    if failures:
        raise click.ClickException("\n".join(failures))
    if found is None:
        raise click.Abort
    if as_json:
        for one in found:
            print(json.dumps(one.summary()))
        return
    print("| scene | in between | MiB/s | ratio of medians | CPU of it, s/GiB |\n|---|---|---|---|---|")
    for one in found:
        for way, runs in one.runs.items():
            rates = " ".join(f"{run.bytes_per_second / MIB:.0f}" for run in runs)
            print(f"| {one.scene} | {way} | {rates} | {one.ratio(way):.2f} | {one.cpu_seconds_per_gib(way):.2f} |")


if __name__ == "__main__":
    main()
