"""The parts of a cluster as its plan wants them: which addresses each broker, sidecar and tap is told, and in which
files.

The path of bytes: follower -> [its egress sidecar] -> the leader's tap -> [its ingress sidecar] -> leader.
Starts nothing. Invariant: every hop of a route goes on to the one that stands next on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..brokers.broker import Broker, BrokerPlan
from ..brokers.jmx import jmx_options
from ..brokers.jmx_exporter import exporter_options
from ..brokers.kraft import kraft_properties
from ..brokers.security import Keys, Secured, Security, secured
from ..brokers.zookeeper import zookeeper_properties
from ..host.addresses import after_egress, after_tap, first_hop, free_subnet, hosts_file
from ..measuring.taps import TapOptions, Taps
from ..sidecars.sidecars import Sidecar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..brokers.releases import Release
    from .plan import ClusterPlan


class Wiring:
    """The parts of one cluster, each told the addresses of the others.

    Args:
        home: where the files of all parts are.
        jars: Kafka's, of the plan's release.
    """

    def __init__(self, plan: ClusterPlan, *, home: Path, jars: Path) -> None:
        self.plan = plan
        self.home = home
        self.jars = jars
        self.addresses = free_subnet(plan.brokers) if plan.rooms is None else plan.rooms.addresses
        self.keys = Keys(home / "tls", self.addresses)

    def broker(self, broker: int) -> Broker:
        """Make a broker with its own file of hosts, by which it reaches each peer through what stands between them."""
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
        identity = BrokerPlan(broker, hosts, self.properties(broker, plan.release), options, within)
        return Broker(identity, home=self.home / f"broker-{broker}", jars=self.jars)

    def properties(self, broker: int, release: Release) -> dict[str, str]:
        """Return the broker's server.properties as a release has them."""
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
            **({"broker.rack": self.plan.racks[broker]} if broker in self.plan.racks else {}),
            **self.plan.broker_overrides,
        }

    def sidecars(self) -> dict[int, Sidecar]:
        """Make the sidecars, by the broker that each stands beside."""
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
            # A container, as a program of its own, joins a room by itself.
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

    def taps(self, topic_name: Callable[[str], str]) -> Taps:
        """Make the taps between the two sidecars of each link."""
        addresses, hops = self.addresses, {}
        for leader in self.plan.brokers:
            follower = next((b for b in self.plan.brokers if b not in {leader, *self.plan.around}), leader)
            route = self.plan.route(follower=follower, leader=leader)
            hops[leader] = (addresses.tap(leader), after_tap(addresses, route, leader))
        return Taps(hops, home=self.home, topic_name=topic_name, **self._tapped())

    def _tapped(self) -> TapOptions:
        security, keys = self.plan.security, self.keys
        opened = (keys.tap(), keys.authority.certificate) if security.network_encrypts else None
        return TapOptions(port=security.port, keys=opened)

    def broker_taps(self, topic_name: Callable[[str], str]) -> dict[str, Taps]:
        """Make the taps between each broker and its own sidecar, by whose broker: the follower's, the leader's."""
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
                topic_name=topic_name,
                name=f"tap-at-{side}",
                garble=self.home / f"garble-{side}",
                **self._tapped(),
            )
            for side, found in hops.items()
        }
