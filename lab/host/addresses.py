"""Addresses of a cluster: one loopback subnet, and one port for everything that speaks Kafka.

Names and ports are the same for everybody (brokers advertise `kafka-101:9092`). The *address* of a name depends on who
asks, because each party has a hosts file of its own. That is how traffic between brokers is led through sidecars and
taps without privileges. Pure but for `free_subnet`, `free_ports` and `held_ports`. Invariant: no two parties share an
address.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

KAFKA_PORT = 9092
SECURED_PORT = 9091
"""The port at which brokers that encrypt or authenticate meet, as with Strimzi. Their plaintext listener is for clients
alone then."""
CONTROLLER_PORT = 9093
HTTP_PORT = 9404
REDIRECT_PORT = 15001
JMX_PORT = 9999
EXPORTER_PORT = 9405
ZOOKEEPER_PORT = 2181
MAX_BROKERS = 9

_BROKER, _INGRESS, _TAP, _HTTP, _EGRESS, _ZOOKEEPER = 10, 30, 50, 70, 100, 250
_LEADER_TAP, _FOLLOWER_TAP = 60, 80
_ATTEMPTS = 50


@dataclass(frozen=True, slots=True)
class Addresses:
    """The plan of one cluster.

    Args:
        subnet: first three octets, such as `127.31.7`.
        brokers: broker ids, at most 9.
    """

    subnet: str
    brokers: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(set(self.brokers)) == len(self.brokers) <= MAX_BROKERS:
            raise ValueError(f"expected 1 to {MAX_BROKERS} distinct broker ids, found {self.brokers}")

    def name(self, broker: int) -> str:
        """Return the advertised host name, the same for every process."""
        return f"kafka-{broker}"

    def direct(self, broker: int) -> str:
        """Return where the broker itself listens."""
        return self._at(_BROKER + self._index(broker))

    def ingress(self, broker: int) -> str:
        """Return where the sidecar of this broker listens for other brokers."""
        return self._at(_INGRESS + self._index(broker))

    def tap(self, leader: int) -> str:
        """Return where the tap in front of this leader listens."""
        return self._at(_TAP + self._index(leader))

    def leader_tap(self, leader: int) -> str:
        """Return where the tap between this leader and its own sidecar listens."""
        return self._at(_LEADER_TAP + self._index(leader))

    def follower_tap(self, leader: int) -> str:
        """Return where the tap between the followers of this leader and the followers' own sidecars listens."""
        return self._at(_FOLLOWER_TAP + self._index(leader))

    def http(self, broker: int) -> str:
        """Return where the sidecar of this broker serves HTTP."""
        return self._at(_HTTP + self._index(broker))

    def egress(self, follower: int, leader: int) -> str:
        """Return where the sidecar of `follower` listens for connections that its broker makes to `leader`."""
        return self._at(_EGRESS + 10 * self._index(follower) + self._index(leader))

    @property
    def zookeeper(self) -> str:
        return self._at(_ZOOKEEPER)

    def everything(self) -> Iterable[tuple[str, int]]:
        """Return every (address, port) a cluster may listen on."""
        yield self.zookeeper, ZOOKEEPER_PORT
        yield self.direct(self.brokers[0]), CONTROLLER_PORT
        for broker in self.brokers:
            taps = (self.tap(broker), self.leader_tap(broker), self.follower_tap(broker))
            for address in (self.direct(broker), self.ingress(broker), *taps):
                yield address, KAFKA_PORT
                yield address, SECURED_PORT
            yield self.http(broker), HTTP_PORT
            yield self.direct(broker), JMX_PORT
            yield self.direct(broker), EXPORTER_PORT
        for follower, leader in itertools.permutations(self.brokers, 2):
            yield self.egress(follower, leader), KAFKA_PORT
            yield self.egress(follower, leader), SECURED_PORT

    def _index(self, broker: int) -> int:
        return self.brokers.index(broker) + 1

    def _at(self, last: int) -> str:
        return f"{self.subnet}.{last}"


@dataclass(frozen=True, slots=True)
class Route:
    """The processes between follower and leader, apart from the two brokers."""

    egress: bool
    tap: bool
    ingress: bool


def first_hop(addresses: Addresses, route: Route, *, follower: int, leader: int) -> str:
    """Return the address the follower's hosts file has for the leader's name."""
    return addresses.egress(follower, leader) if route.egress else after_egress(addresses, route, leader)


def after_egress(addresses: Addresses, route: Route, leader: int) -> str:
    """Return where an egress sidecar (or the follower, if it has none) goes to reach the leader."""
    return addresses.tap(leader) if route.tap else after_tap(addresses, route, leader)


def after_tap(addresses: Addresses, route: Route, leader: int) -> str:
    """Return where a tap (or the process before it) goes to reach the leader."""
    return addresses.ingress(leader) if route.ingress else addresses.direct(leader)


def hosts_file(path: Path, names: Iterable[tuple[str, str]]) -> Path:
    """Write a file for `-Djdk.net.hosts.file` (and `lab.cluster.admin`) from (name, address) pairs."""
    # With that property set, Java resolves names from this file alone, so the host's own name has to be in it, too.
    own = [("localhost", "127.0.0.1"), (socket.gethostname(), "127.0.0.1")]
    path.write_text("".join(f"{address} {name}\n" for name, address in [*own, *names]), encoding="ascii")
    return path


def free_subnet(brokers: Sequence[int], *, choice: random.Random | None = None) -> Addresses:
    """Return a plan in a random 127.x.y subnet on which nothing listens yet.

    Raises:
        LabError: none was found (something listens on 0.0.0.0 at one of our ports).
    """
    dice = choice or random.Random()
    busy: tuple[str, int] | None = None
    for _ in range(_ATTEMPTS):
        plan = Addresses(f"127.{dice.randint(16, 250)}.{dice.randint(1, 250)}", tuple(brokers))
        busy = next((place for place in plan.everything() if not _free(*place)), None)
        if busy is None:
            return plan
    raise LabError(f"no free loopback subnet found; the last thing in the way listens on {busy}")


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 on which nothing listens at this moment."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


@contextlib.contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Hold ports of 127.0.0.1 that the system then gives to no other process, until the block ends.

    A process that is given one, and binds with SO_REUSEADDR, listens there meanwhile, as often as it likes: the sockets
    that hold them do not listen, so no connection reaches them. A port that is let go before its program listens may be
    another process's by then.
    """
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", 0))
        yield [int(probe.getsockname()[1]) for probe in probes]


def _free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
