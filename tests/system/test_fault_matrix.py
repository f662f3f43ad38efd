"""Each fault of `faults.table` in the middle of a throttled move, in each version of Fetch that matters.

After each: catch-up ends, replicas are equal byte for byte, what producers were told was written is there, nobody left
the ISR whom the fault does not explain, brokers complain of nothing, the quota was kept, and the sidecars hold as much
memory and as many descriptors as before, and logged no traceback. What came of each goes to build/faults.jsonl;
docs/reliability.md has it.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
import pytest
import trio

from lab.brokers.log_lines import SHRINKS
from lab.brokers.releases import release
from lab.cluster.cluster import Cluster, start_cluster
from lab.cluster.plan import ClusterPlan
from lab.host.addresses import KAFKA_PORT
from lab.host.namespaces import Rooms, open_rooms
from lab.load.following_producer import missing
from lab.moves.move import MIB, Move
from lab.moves.open_move import OpenMove, Outcome, open_move
from lab.sidecars.sidecars import SidecarPlan

from .busy import busy_partitions
from .expectations import assert_all_kept, ratios
from .faults.files import small_disk
from .faults.scene import FOLLOWER, LEADER, QUOTA, Fault, Scene
from .faults.table import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.load.live_producer import LiveProducer
    from lab.sidecars.sidecars import Sidecar

pytestmark = [pytest.mark.system, pytest.mark.timeout(420)]

PROTOCOLS = ("0.10.1", "2.4", "2.8", "3.9", "4.1")
BROKERS = (LEADER, FOLLOWER)
EARLY = 6 * MIB
DISK_BYTES = 8 * MIB
FINISH_SECONDS = 150.0
"""After a cut of two minutes a follower's TCP tries again a minute later at the latest."""
MORE_MEMORY = 16 * MIB
FRESH_BYTES = MIB
"""What restarted ends may send beyond the quota: a gate and a batch for each connection that begins anew."""


class Held(NamedTuple):
    """By one sidecar process: descriptors beside those of connections that brokers have open between them."""

    pid: int
    descriptors: int
    resident: int


def held(matrix: Matrix) -> dict[int, Held]:
    """By each sidecar. A broker may open another connection after a fault (Kafka's channel to the controller, say), and
    a connection has two sockets, and a pipe for each direction once it has spliced there."""
    living = 2 * links(matrix)
    found = {}
    for broker, sidecar in matrix.cluster.sidecars.items():
        process = psutil.Process(sidecar.process.pid)
        descriptors = opened(process.pid)
        pipes = sum(each.startswith("pipe:") for each in descriptors)
        beside = len(descriptors) - living - min(pipes, 2 * living)
        found[broker] = Held(process.pid, beside, process.memory_info().rss)
    return found


def opened(pid: int) -> list[str]:
    """What the process's descriptors stand for, as the kernel names it."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(str(descriptor.readlink()))
    return found


def links(matrix: Matrix) -> int:
    """Connections of brokers to each other, counted at the brokers' ends: each goes through both sidecars."""
    rooms, egress = matrix.rooms, matrix.cluster.addresses.egress
    lines = [
        rooms.run(one, "ss", "-Htn", "state", "established", "dst", f"{egress(one, other)}:{KAFKA_PORT}")
        for one, other in itertools.permutations(BROKERS, 2)
    ]
    return sum(len(each.splitlines()) for each in lines)


def sockets(matrix: Matrix) -> list[str]:
    """Each TCP connection of the brokers and sidecars as the kernel tells of it: both ends, its state, its timer."""
    return [
        f"{broker}: {line}"
        for broker in BROKERS
        for line in matrix.rooms.run(broker, "ss", "-Htnpo", "state", "all", "exclude", "listening").splitlines()
    ]


def tracebacks(sidecars: list[Sidecar]) -> list[str]:
    """What they did not foresee, in all processes of theirs so far."""
    return [line for sidecar in sidecars for line in sidecar.log_lines("Traceback")]


class Matrix(NamedTuple):
    """A running cluster that the faults of one version meet one after the other."""

    cluster: Cluster
    rooms: Rooms
    journals: Path


@pytest.fixture(scope="module", params=PROTOCOLS)
def matrix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    folder = tmp_path_factory.mktemp("disk") / "journals"
    with open_rooms(BROKERS) as rooms, small_disk(folder, DISK_BYTES) as journals:
        settings = {"journal": f'directory = "{journals}"\nrotate_every = "10s"'}
        plan = ClusterPlan(
            brokers=BROKERS,
            release=release(protocol=request.param),
            rooms=rooms,
            sidecars=SidecarPlan(settings=settings),
        )
        made = trio.run(start_cluster, plan)
        try:
            trio.run(_all_connected, made)
            yield Matrix(made, rooms, journals)
        finally:
            made.close()


async def _all_connected(cluster: Cluster) -> None:
    """Each broker follows the other: what a cluster holds from then on, it held before."""
    async with busy_partitions(cluster, {0: [LEADER, FOLLOWER], 1: [FOLLOWER, LEADER]}):
        pass


def assert_whole(outcome: Outcome, fault: Fault) -> None:
    assert outcome.equal, outcome.comparisons
    unexplained = [
        line
        for line in outcome.lines
        if not fault.excused.search(line) and not (fault.shrinks and SHRINKS.search(line))
    ]
    assert unexplained == []


def assert_nothing_lost(producers: list[LiveProducer]) -> float:
    """Everything that was acknowledged has an offset of its own, none is missing in between. Return the longest wait in
    seconds."""
    for producer in producers:
        assert producer.acknowledged
        offsets = [record.offset for record in producer.acknowledged]
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        assert producer.errors == []
    return max((producer.percentile(1.0) for producer in producers), default=0.0)


async def assert_stored(cluster: Cluster, producers: list[LiveProducer]) -> None:
    """Both brokers have on disk, at the offset that the producer was told, the record that it was told of."""
    for producer in producers:
        told = list(producer.acknowledged)
        # Who was out of the ISR was not waited for, and has what it missed once it is back.
        await trio.to_thread.run_sync(partial(cluster.admin.wait_in_sync, producer.topic, timeout_seconds=30))
        for broker in BROKERS:
            directory = cluster.brokers[broker].log_dir / f"{producer.topic}-{producer.partition}"
            assert await trio.to_thread.run_sync(missing, directory, told) == [], broker


async def assert_given_back(matrix: Matrix, before: dict[int, Held], seconds: float) -> None:
    """Processes that lived through it hold what they held: connections that were lost are found out in time."""
    deadline = trio.current_time() + seconds
    while True:
        now = held(matrix)
        grown = [
            (old, new)
            for old, new in ((before[broker], now[broker]) for broker in now)
            if old.pid == new.pid and (new.descriptors > old.descriptors or new.resident > old.resident + MORE_MEMORY)
        ]
        if not grown:
            return
        descriptors = [f"{new.pid}: {sorted(opened(new.pid))}" for _, new in grown]
        assert trio.current_time() < deadline, "\n".join([str(grown), *descriptors, *sockets(matrix)])
        await trio.sleep(0.5)


async def struck(scene: Scene, fault: Fault) -> float:
    """Let it happen in mid-move; return when it was over."""
    await scene.move.wait_moved_bytes(EARLY, timeout_seconds=60)
    await fault.strike(scene)
    return time.monotonic()


def back_seconds(move: OpenMove, over: float) -> float | None:
    """From the end of the fault to the next bytes; None: all had moved by then."""
    after = move.moved(over)
    return round(after[0].t - over, 2) if after else None


@pytest.mark.parametrize("name", FAULTS)
async def test_after_it_everything_is_as_before(
    matrix: Matrix, name: str, tmp_path: Path, record: Callable[..., None]
) -> None:
    fault, cluster = FAULTS[name], matrix.cluster
    leader, follower = (fault.leader, LEADER + FOLLOWER - fault.leader)
    move = Move(
        "sidecar strict", "both", QUOTA, bytes_per_partition=fault.mebibytes * MIB // 8,
        leaders=(leader,), followers=(follower,), topic_configs=fault.topic_configs,
    )  # fmt: skip
    sidecars = list(cluster.sidecars.values())
    before, said = held(matrix), tracebacks(sidecars)
    async with AsyncExitStack() as stack:
        producers: list[LiveProducer] = []
        if fault.produces:
            producers = await stack.enter_async_context(busy_partitions(cluster, {0: [leader, follower]}))
        opened = await stack.enter_async_context(open_move(cluster, move))
        over = await struck(Scene(cluster, matrix.rooms, opened, matrix.journals, tmp_path), fault)
        assert_whole(await opened.finish(timeout_seconds=FINISH_SECONDS), fault)
        assert_all_kept(opened, opened.started, float("inf"), QUOTA, extra_bytes=FRESH_BYTES + fault.beyond_bytes)
        waited = assert_nothing_lost(producers)
        await assert_stored(cluster, producers)
        record(
            "faults",
            fault=name,
            fetch_version=cluster.plan.release.fetch_version,
            back_seconds=back_seconds(opened, over),
            producers_worst_seconds=round(waited, 2) if fault.produces else None,
            **ratios(opened.moved(), QUOTA),
        )
    await assert_given_back(matrix, before, fault.settles_seconds)
    assert tracebacks(sidecars) == said
