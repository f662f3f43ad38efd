"""A real Kafka cluster on this machine, in ZooKeeper mode, with taps and sidecars on its replication path.

    async with cluster(brokers=(101, 102, 103)) as kafka:
        kafka.admin.create_topic("orders", {0: [101], 1: [101]})

The path of bytes: follower -> [its egress sidecar] -> the leader's tap -> [its ingress sidecar] -> leader.
Nothing here is tied to one Trio run, so a fixture may start a cluster in one and close it in another.
Invariant: whatever way a cluster ends, no process of it is left.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from .addresses import Route, after_egress, after_tap, first_hop, free_subnet, hosts_file
from .admin import Admin
from .broker import Broker, BrokerPlan
from .jars import DEFAULT_KAFKA_VERSION, kafka_jars
from .jmx import jmx_options
from .processes import Process, kill_all
from .sidecars import Sidecar, SidecarPlan
from .taps import Taps
from .zookeeper import ZooKeeper

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

BAD_LOG_LINES = re.compile(
    "invalid full fetch response|Non-monotonic update|marked as failed|Error due to|OffsetOutOfRange"
)
"""What a follower logs when its fetches were tampered with badly."""
SHRINKS = re.compile("Shrinking ISR")


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Everything that is chosen about a cluster.

    Args:
        brokers: ids.
        inter_broker_protocol: decides the Fetch version, see `python -m lab versions`.
        message_format: `log.message.format.version`.
        num_replica_fetchers: fetcher threads per (follower, leader).
        broker_overrides: server.properties of every broker, last word.
        sidecars: None for brokers that speak to each other directly.
        taps: whether Fetch traffic is measured.
        jmx: whether `lab.jmx` can ask the brokers for their own metrics.
        keep: leave the files when done.
    """

    brokers: tuple[int, ...] = (101, 102, 103)
    inter_broker_protocol: str = "0.10.1-IV2"
    message_format: str = "0.10.1"
    num_replica_fetchers: int = 1
    broker_overrides: Mapping[str, str] = field(default_factory=dict)
    sidecars: SidecarPlan | None = None
    taps: bool = True
    jmx: bool = False
    keep: bool = False
    kafka_version: str = DEFAULT_KAFKA_VERSION

    def route(self, *, follower: int, leader: int) -> Route:
        """What the bytes of this pair pass."""
        plan = self.sidecars
        return Route(
            egress=plan is not None and plan.has_egress(follower),
            tap=self.taps,
            ingress=plan is not None and plan.has_ingress(leader),
        )


class Cluster:
    """Running brokers and what stands between them. Made by `start_cluster` or `cluster`."""

    def __init__(self, plan: ClusterPlan, *, home: Path, jars: Path) -> None:
        self.plan = plan
        self.home = home
        self.jars = jars
        self.addresses = free_subnet(plan.brokers)
        self.zookeeper = ZooKeeper(self.addresses, home=home / "zookeeper", jars=jars)
        self.brokers = {broker: self._broker(broker, jars) for broker in plan.brokers}
        self.sidecars = self._sidecars()
        self.taps = self._taps() if plan.taps else None

    @cached_property
    def admin(self) -> Admin:
        """The client's view: brokers by their own addresses. Blocking; use `trio.to_thread.run_sync`."""
        names = [(self.addresses.name(b), self.addresses.direct(b)) for b in self.plan.brokers]
        return Admin(hosts=hosts_file(self.home / "hosts-of-clients", names), names=[n for n, _ in names])

    @property
    def processes(self) -> list[Process]:
        taps = [self.taps.process] if self.taps else []
        return [
            *(sidecar.process for sidecar in self.sidecars.values()),
            *(broker.process for broker in self.brokers.values()),
            *taps,
            self.zookeeper.process,
        ]

    async def start(self) -> None:
        """Start everything, brokers in parallel. Raises LabError."""
        self.zookeeper.start()
        if self.taps:
            await self.taps.start()
        for sidecar in self.sidecars.values():
            sidecar.begin_start()
        await self.zookeeper.wait_started()
        for broker in self.brokers.values():
            broker.begin_start()
        for sidecar in self.sidecars.values():
            await sidecar.wait_started()
        for broker in self.brokers.values():
            await broker.wait_started()

    def close(self, *, keep: bool = False) -> None:
        """Kill every process and remove the files, unless they are to be kept."""
        if "admin" in self.__dict__:
            self.admin.close()
        kill_all(self.processes)
        if not keep:
            shutil.rmtree(self.home, ignore_errors=True)

    def bad_log_lines(self) -> list[str]:
        """Lines of brokers' logs that altered fetches must never cause."""
        return [line for broker in self.brokers.values() for line in broker.log_lines(BAD_LOG_LINES)]

    def shrinks(self) -> list[str]:
        """Lines of brokers' logs that say a replica left the in-sync set."""
        return [line for broker in self.brokers.values() for line in broker.log_lines(SHRINKS)]

    def _broker(self, broker: int, jars: Path) -> Broker:
        plan, addresses = self.plan, self.addresses
        peers = [
            (
                addresses.name(leader),
                first_hop(addresses, plan.route(follower=broker, leader=leader), follower=broker, leader=leader),
            )
            for leader in plan.brokers
            if leader != broker
        ]
        hosts = hosts_file(
            self.home / f"hosts-of-{broker}", [(addresses.name(broker), addresses.direct(broker)), *peers]
        )
        properties = {
            "inter.broker.protocol.version": plan.inter_broker_protocol,
            "log.message.format.version": plan.message_format,
            "num.replica.fetchers": str(plan.num_replica_fetchers),
            **plan.broker_overrides,
        }
        options = jmx_options(addresses.direct(broker)) if plan.jmx else ()
        identity = BrokerPlan(broker, addresses.name(broker), hosts, self.zookeeper.connect, properties, options)
        return Broker(identity, home=self.home / f"broker-{broker}", jars=jars)

    def _sidecars(self) -> dict[int, Sidecar]:
        plan = self.plan.sidecars
        if plan is None:
            return {}
        sidecars = {}
        for broker in plan.beside(self.plan.brokers):
            upstreams = {
                leader: after_egress(self.addresses, self.plan.route(follower=broker, leader=leader), leader)
                for leader in self.plan.brokers
                if leader != broker
            }
            home = self.home / f"sidecar-{broker}"
            sidecars[broker] = Sidecar(broker, plan, self.addresses, upstreams=upstreams, home=home)
        return sidecars

    def _taps(self) -> Taps:
        upstreams = {}
        for leader in self.plan.brokers:
            follower = next((b for b in self.plan.brokers if b != leader), leader)
            route = self.plan.route(follower=follower, leader=leader)
            upstreams[leader] = after_tap(self.addresses, route, leader)
        return Taps(self.addresses, upstreams=upstreams, home=self.home)


async def start_cluster(plan: ClusterPlan) -> Cluster:
    """A cluster that is up; the caller closes it.

    Raises:
        LabError: something did not start; its files are kept and their folder is in a note.
    """
    jars = await trio.to_thread.run_sync(kafka_jars, plan.kafka_version)
    home = Path(tempfile.mkdtemp(prefix="kafka-lab-"))
    made = Cluster(plan, home=home, jars=jars)
    try:
        await made.start()
    except BaseException as error:
        _close_after(made, error)
        raise
    return made


@asynccontextmanager
async def cluster(plan: ClusterPlan | None = None) -> AsyncGenerator[Cluster]:
    """A cluster for the length of a block. Its files stay if the block fails, and a note says where."""
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
