"""A real Kafka cluster on this machine, of any release of `lab.releases`, with taps and sidecars between its brokers.

    async with cluster(ClusterPlan(release=release(protocol="3.9"))) as kafka:
        kafka.admin.create_topic("orders", {0: [101], 1: [101]})

The path of bytes: follower -> [its egress sidecar] -> the leader's tap -> [its ingress sidecar] -> leader.
Nothing here is tied to one Trio run, so a fixture may start a cluster in one and close it in another.
Invariant: whatever way a cluster ends, no process of it is left.
"""

from __future__ import annotations

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
from .errors import LabError
from .identifiers import new_kafka_uuid
from .jars import kafka_jars, version_numbers
from .jmx import jmx_options
from .jmx_exporter import exporter_options
from .kraft import format_storage, kraft_properties, storage_template
from .log_lines import RELEVANT, SHRINKS, complaints
from .processes import Process, kill_all
from .records import SMALL, Shape
from .releases import RELEASES, Release
from .security import FIRST_PEM_FILES, Keys, Secured, Security, secured
from .sidecars import Sidecar, SidecarPlan
from .taps import TapOptions, Taps
from .zookeeper import ZooKeeper, zookeeper_properties
from .zookeeper_admin import ZooKeeperAdmin

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from .rooms import Rooms


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Everything that is chosen about a cluster.

    Args:
        brokers: ids.
        release: binaries and what they speak, see `python -m lab versions`.
        num_replica_fetchers: fetcher threads per (follower, leader).
        broker_overrides: server.properties of every broker, last word, such as
            `{"max.incremental.fetch.session.cache.slots": "1"}`.
        sidecars: None for brokers that speak to each other directly.
        taps: whether Fetch traffic is measured, between the two sidecars of a link.
        taps_at_brokers: whether it is also between each broker and its own sidecar; of two brokers. These taps can
            garble: a request, when the file `garble-follower` or `garble-leader` is made in the cluster's `home`.
        rooms: a network namespace for each broker and its sidecar; None: all on one loopback network.
        jmx: whether `lab.jmx` can ask the brokers for their own metrics.
        exporter: a configuration of Prometheus' JMX exporter, which then serves them (`lab.jmx_exporter`).
        security: of the replication between brokers; the lab's clients have a plaintext listener.
        keep: leave the files when done.
    """

    brokers: tuple[int, ...] = (101, 102, 103)
    release: Release = RELEASES[0]
    num_replica_fetchers: int = 1
    broker_overrides: Mapping[str, str] = field(default_factory=dict)
    sidecars: SidecarPlan | None = None
    taps: bool = True
    taps_at_brokers: bool = False
    rooms: Rooms | None = None
    jmx: bool = False
    exporter: Path | None = None
    security: Security = Security.PLAINTEXT
    keep: bool = False

    def __post_init__(self) -> None:
        # A broker's tap stands before the one egress that its only follower has.
        if self.taps_at_brokers and (len(self.brokers) != 2 or self.sidecars is None or self.sidecars.transparent):
            raise LabError("taps at brokers are for two brokers with sidecars that are dialled")
        if self.security.protocol != "PLAINTEXT" and version_numbers(self.release.kafka) < FIRST_PEM_FILES:
            raise LabError(f"Kafka {self.release.kafka} reads no keys of PEM files (KIP-651): it speaks plaintext here")
        if self.security is Security.TLS_BETWEEN and self.sidecars is None:
            raise LabError("TLS between sidecars takes sidecars")

    def route(self, *, follower: int, leader: int) -> Route:
        """What the bytes of this pair pass."""
        plan = self.sidecars
        return Route(
            egress=plan is not None and plan.has_egress(follower) and not plan.transparent,
            tap=self.taps,
            ingress=plan is not None and plan.has_ingress(leader),
        )


class Cluster:
    """Running brokers and what stands between them. Made by `start_cluster` or `cluster`."""

    def __init__(self, plan: ClusterPlan, *, home: Path, jars: Path) -> None:
        self.plan = plan
        self.home = home
        self.jars = jars
        self.addresses = free_subnet(plan.brokers) if plan.rooms is None else plan.rooms.addresses
        self.keys = Keys(home / "tls", self.addresses)
        self.zookeeper = None
        if plan.release.mode == "zookeeper":
            self.zookeeper = ZooKeeper(self.addresses, home=home / "zookeeper", jars=jars)
        self.brokers = {broker: self._broker(broker) for broker in plan.brokers}
        self.sidecars = self._sidecars()
        self._topic_names: dict[str, str] = {}
        self._noise = dict.fromkeys(plan.brokers, plan.release.noise)
        self.taps = self._taps() if plan.taps else None
        self.broker_taps = self._broker_taps() if plan.taps_at_brokers else {}

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
            *(sidecar.process for sidecar in self.sidecars.values()),
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
        """One step of a rolling upgrade or downgrade: stop a broker and start it on the same data as another release.

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
        restarted.become(self._properties(broker, release), jars=jars)
        await restarted.start()

    def close(self, *, keep: bool = False) -> None:
        """Kill every process and remove the files, unless they are to be kept."""
        if "admin" in self.__dict__:
            self.admin.close()
        kill_all(self.processes)
        if not keep:
            shutil.rmtree(self.home, ignore_errors=True)

    def shape(self, shape: Shape = SMALL) -> Shape:
        """The same batches as this cluster's logs hold them; brokers then need not convert what is produced."""
        return shape.stored_as(self.plan.release.records)

    def topic_name(self, topic_id: str) -> str:
        """The name of a topic by its id; the id itself if no broker knows it (any more). May ask a broker."""
        if topic_id not in self._topic_names:
            self._topic_names.update(self.admin.topic_names())
        return self._topic_names.setdefault(topic_id, topic_id)

    def bad_log_lines(self) -> list[str]:
        """Lines of brokers' logs that altered fetches must never cause."""
        return [
            line
            for broker in self.brokers.values()
            for line in complaints(broker.log_lines(RELEVANT), self._noise[broker.id])
        ]

    def shrinks(self) -> list[str]:
        """Lines of brokers' logs that say a replica left the in-sync set."""
        return [line for broker in self.brokers.values() for line in broker.log_lines(SHRINKS)]

    def _broker(self, broker: int) -> Broker:
        plan, addresses = self.plan, self.addresses
        peers = [
            (
                addresses.name(leader),
                addresses.follower_tap(leader)
                if plan.taps_at_brokers
                else first_hop(addresses, plan.route(follower=broker, leader=leader), follower=broker, leader=leader),
            )
            for leader in plan.brokers
            if leader != broker
        ]
        hosts = hosts_file(
            self.home / f"hosts-of-{broker}", [(addresses.name(broker), addresses.direct(broker)), *peers]
        )
        options = jmx_options(addresses.direct(broker)) if plan.jmx else ()
        if plan.exporter is not None:
            options += exporter_options(addresses.direct(broker), plan.exporter)
        options += plan.security.jvm_options
        within = () if plan.rooms is None else plan.rooms.within(broker)
        identity = BrokerPlan(broker, hosts, self._properties(broker, plan.release), options, within)
        return Broker(identity, home=self.home / f"broker-{broker}", jars=self.jars)

    def _properties(self, broker: int, release: Release) -> dict[str, str]:
        if release.mode == "kraft":
            properties = kraft_properties(self.addresses, broker)
        else:
            # Upgrades raise the message format last, when every broker speaks the new protocol.
            properties = zookeeper_properties(
                self.addresses,
                broker,
                protocol=release.protocol,
                message_format=self.plan.release.message_format,
            )
        name = self.addresses.name(broker)
        return {
            **secured(properties, self.plan.security, name=name, keys=self.keys, broker=broker),
            "num.replica.fetchers": str(self.plan.num_replica_fetchers),
            **self.plan.broker_overrides,
        }

    def _format_storage(self) -> None:
        scram = self.plan.security.scram
        template = storage_template(self.plan.release.protocol, jars=self.jars, scram=scram)
        cluster_id = new_kafka_uuid()
        for broker in self.brokers.values():
            format_storage(broker.log_dir, template, node=broker.id, cluster_id=cluster_id)

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
            if self.plan.taps_at_brokers:
                upstreams[broker] = self.addresses.leader_tap(broker)
            home = self.home / f"sidecar-{broker}"
            rooms = self.plan.rooms
            # A program of its own, a container, joins a room by itself.
            within = () if rooms is None or plan.program else rooms.within_as_sidecar(broker)
            sidecars[broker] = Sidecar(
                broker,
                plan,
                self.addresses,
                upstreams=upstreams,
                home=home,
                within=within,
                secured=None if self.plan.security is Security.PLAINTEXT else Secured(self.plan.security, self.keys),
                port=self.plan.security.port,
            )
        return sidecars

    def _taps(self) -> Taps:
        addresses, hops = self.addresses, {}
        for leader in self.plan.brokers:
            follower = next((b for b in self.plan.brokers if b != leader), leader)
            route = self.plan.route(follower=follower, leader=leader)
            hops[leader] = (addresses.tap(leader), after_tap(addresses, route, leader))
        return Taps(hops, home=self.home, topic_name=self.topic_name, **self._tapped())

    def _tapped(self) -> TapOptions:
        security, keys = self.plan.security, self.keys
        opened = (keys.tap(), keys.authority.certificate) if security.network_encrypts else None
        return TapOptions(port=security.port, keys=opened)

    def _broker_taps(self) -> dict[str, Taps]:
        """By whose brokers they stand: the follower's, the leader's."""
        addresses, plan = self.addresses, self.plan
        pairs = [(follower, leader) for follower in plan.brokers for leader in plan.brokers if follower != leader]
        hops = {
            "follower": {
                leader: (
                    addresses.follower_tap(leader),
                    first_hop(
                        addresses, plan.route(follower=follower, leader=leader), follower=follower, leader=leader
                    ),
                )
                for follower, leader in pairs
            },
            "leader": {leader: (addresses.leader_tap(leader), addresses.direct(leader)) for leader in plan.brokers},
        }
        return {
            side: Taps(
                found,
                home=self.home,
                topic_name=self.topic_name,
                name=f"tap-at-{side}",
                garble=self.home / f"garble-{side}",
                **self._tapped(),
            )
            for side, found in hops.items()
        }


async def start_cluster(plan: ClusterPlan) -> Cluster:
    """A cluster that is up; the caller closes it.

    Raises:
        LabError: something did not start; its files are kept and their folder is in a note.
    """
    jars = await trio.to_thread.run_sync(kafka_jars, plan.release.kafka)
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
