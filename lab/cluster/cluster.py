"""A real Kafka cluster on this machine, of any release of `brokers.releases`, with taps and sidecars between brokers.

    async with cluster(ClusterPlan(release=release(protocol="3.9"))) as kafka:
        kafka.admin.create_topic("orders", {0: [101], 1: [101]})

Nothing here is tied to one Trio run, so a fixture may start a cluster in one and close it in another.
Invariant: whatever way a cluster ends, no process of it is left.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio

from ..brokers.jars import kafka_jars
from ..brokers.kraft import format_storage, storage_template
from ..brokers.log_lines import RELEVANT, SHRINKS, complaints
from ..brokers.zookeeper import ZooKeeper
from ..errors import LabError
from ..host.addresses import hosts_file
from ..host.processes import Process, kill_all
from ..wire.identifiers import new_kafka_uuid
from ..wire.records import SMALL, Shape
from .admin import Admin
from .plan import ClusterPlan
from .wiring import Wiring
from .zookeeper_admin import ZooKeeperAdmin

if TYPE_CHECKING:
    import re
    from collections.abc import AsyncGenerator, Mapping

    from ..brokers.releases import Release


class LogMark(NamedTuple):
    """The number of lines of each kind in each broker's log; a sum over brokers would not show whose are new."""

    complaints: Mapping[int, int]
    shrinks: Mapping[int, int]


class Cluster:
    """Running brokers and what stands between them. Made by `start_cluster` or `cluster`."""

    def __init__(self, plan: ClusterPlan, *, home: Path, jars: Path) -> None:
        self.plan = plan
        self.home = home
        self.jars = jars
        self._wiring = Wiring(plan, home=home, jars=jars)
        self.addresses = self._wiring.addresses
        self.keys = self._wiring.keys
        self.zookeeper = None
        if plan.release.mode == "zookeeper":
            self.zookeeper = ZooKeeper(self.addresses, home=home / "zookeeper", jars=jars)
        self.brokers = {broker: self._wiring.broker(broker) for broker in plan.brokers}
        self.sidecars = self._wiring.sidecars()
        self.quota_windows_clear_at = 0.0
        """The time.monotonic from which on the windows of the brokers' own quotas have forgotten the last move; set by
        the code that moves."""
        self._topic_names: dict[str, str] = {}
        self._noise = dict.fromkeys(plan.brokers, plan.release.noise)
        self.taps = self._wiring.taps(self.topic_name) if plan.taps else None
        self.broker_taps = self._wiring.broker_taps(self.topic_name) if plan.taps_at_brokers else {}

    @cached_property
    def admin(self) -> Admin:
        """The client's view: brokers by their own addresses. Blocking; use `trio.to_thread.run_sync`."""
        names = [(self.addresses.name(b), self.addresses.direct(b)) for b in self.plan.brokers]
        hosts, known = hosts_file(self.home / "hosts-of-clients", names), [name for name, _ in names]
        if self.zookeeper is None or not self.plan.release.through_zookeeper:
            return Admin(hosts=hosts, names=known)
        tools = self.home / "tools"
        return ZooKeeperAdmin(hosts=hosts, names=known, zookeeper=self.zookeeper.connect, jars=self.jars, home=tools)

    @property
    def processes(self) -> list[Process]:
        others = [o.process for o in (self.taps, *self.broker_taps.values(), self.zookeeper) if o is not None]
        return [
            *(each for sidecar in self.sidecars.values() for each in (sidecar.process, *sidecar.left_behind)),
            *(broker.process for broker in self.brokers.values()),
            *others,
        ]

    async def start(self) -> None:
        """Start everything, brokers in parallel. Raises LabError."""
        if self.zookeeper:
            self.zookeeper.start()
        for taps in (self.taps, *self.broker_taps.values()):
            if taps is not None:
                await taps.start()
        for sidecar in self.sidecars.values():
            sidecar.begin_start()
        if self.zookeeper:
            await self.zookeeper.wait_started()
            if self.plan.security.scram is not None:
                await trio.to_thread.run_sync(self.zookeeper.add_user, *self.plan.security.scram)
        else:
            await trio.to_thread.run_sync(self._format_storage)
        for broker in self.brokers.values():
            broker.begin_start()
        for sidecar in self.sidecars.values():
            await sidecar.wait_started()
        for broker in self.brokers.values():
            await broker.wait_started()

    async def restart_as(self, broker: int, release: Release) -> None:
        """Restart a broker on the same data as another release: one step of a rolling upgrade or downgrade.

        In ZooKeeper mode its inter-broker protocol changes (and its binaries, if they differ), in KRaft only its
        binaries: what those speak changes for all brokers at once, by `Admin.upgrade_metadata`.

        Raises:
            LabError: the release is of the other mode, or the broker did not start.
        """
        if release.mode != self.plan.release.mode:
            raise LabError(f"a {self.plan.release.mode} cluster cannot become {release.mode}")
        jars = await trio.to_thread.run_sync(kafka_jars, release.kafka)
        restarted = self.brokers[broker]
        self._noise[broker] += release.noise
        await restarted.stop()
        restarted.become(self._wiring.properties(broker, release), jars=jars)
        await restarted.start()

    def close(self, *, keep: bool = False) -> None:
        """Kill every process and remove the files, unless they are to be kept."""
        if "admin" in self.__dict__:
            self.admin.close()
        kill_all(self.processes)
        if not keep:
            shutil.rmtree(self.home, ignore_errors=True)

    def shape(self, shape: Shape = SMALL) -> Shape:
        """Return the same batches as this cluster's logs hold them; brokers then need not convert them."""
        return shape.stored_as(self.plan.release.records)

    def topic_name(self, topic_id: str) -> str:
        """Return the name of a topic by its id; the id itself if no broker knows it (any more). May ask a broker."""
        if topic_id not in self._topic_names:
            self._topic_names.update(self.admin.topic_names())
        return self._topic_names.setdefault(topic_id, topic_id)

    def log_mark(self) -> LogMark:
        """Mark where brokers' logs end now, so that later lines can be asked for."""
        return LogMark(_counts(self._complaints()), _counts(self._lines(SHRINKS)))

    def bad_log_lines(self, *, since: LogMark | None = None) -> list[str]:
        """Return the lines of brokers' logs that altered fetches must never cause."""
        return _after(self._complaints(), since.complaints if since else {})

    def shrinks(self, *, since: LogMark | None = None) -> list[str]:
        """Return the lines of brokers' logs that say a replica left the in-sync set."""
        return _after(self._lines(SHRINKS), since.shrinks if since else {})

    def _complaints(self) -> dict[int, list[str]]:
        return {broker: complaints(lines, self._noise[broker]) for broker, lines in self._lines(RELEVANT).items()}

    def _lines(self, pattern: re.Pattern[str]) -> dict[int, list[str]]:
        return {each.id: each.log_lines(pattern) for each in self.brokers.values()}

    def _format_storage(self) -> None:
        scram = self.plan.security.scram
        template = storage_template(self.plan.release.protocol, jars=self.jars, scram=scram)
        cluster_id = new_kafka_uuid()
        for broker in self.brokers.values():
            format_storage(broker.log_dir, template, node=broker.id, cluster_id=cluster_id)


def _counts(lines: Mapping[int, list[str]]) -> dict[int, int]:
    return {broker: len(found) for broker, found in lines.items()}


def _after(lines: Mapping[int, list[str]], counts: Mapping[int, int]) -> list[str]:
    return [line for broker, found in lines.items() for line in found[counts.get(broker, 0) :]]


async def start_cluster(plan: ClusterPlan) -> Cluster:
    """Start a cluster and wait until it is up; the caller closes it.

    Raises:
        LabError: something did not start; its files are kept and their folder is in a note. Of a plan that nothing can
            be made of, none are.
    """
    jars = await trio.to_thread.run_sync(kafka_jars, plan.release.kafka)
    home = Path(tempfile.mkdtemp(prefix="kafka-lab-"))
    try:
        made = Cluster(plan, home=home, jars=jars)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    try:
        await made.start()
    except BaseException as error:
        _close_after(made, error)
        raise
    return made


@asynccontextmanager
async def cluster(plan: ClusterPlan | None = None) -> AsyncGenerator[Cluster]:
    """Run a cluster for the length of a block. Its files stay if the block fails, and a note says where."""
    made = await start_cluster(plan or ClusterPlan())
    try:
        yield made
    except BaseException as error:
        _close_after(made, error)
        raise
    made.close(keep=made.plan.keep)


def _close_after(made: Cluster, error: BaseException) -> None:
    failed = isinstance(error, Exception)
    made.close(keep=failed or made.plan.keep)
    if failed:
        error.add_note(f"the cluster's files and logs are kept in {made.home}")
