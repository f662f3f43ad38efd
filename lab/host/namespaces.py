"""A network namespace for each broker, as in a pod: for what only the kernel's own routing can show.

    with open_rooms((101, 102)) as rooms:
        cluster(ClusterPlan(brokers=(101, 102), rooms=rooms, sidecars=SidecarPlan(transparent=True)))

A bridge in our own namespace joins them; clients and taps are there. Needs root and iproute2. Knows no Kafka.

Invariant: when the block ends, the namespaces and the bridge are gone.
"""

from __future__ import annotations

import itertools
import os
import shutil
from contextlib import contextmanager
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import LabError
from .addresses import Addresses
from .commands import output_of
from .networks import own_network

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SIDECAR_UID = 65532
"""The user that the sidecar's image runs as. The rules of a transparent egress except its connections."""
_OWN_ADDRESSES = (50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 250)
"""The last parts of addresses that the bridge has: those that an `Addresses` gives to taps and ZooKeeper, and one of
its own."""
_NEEDED = {"ip": "iproute2", "tc": "iproute2", "setpriv": "util-linux", "iptables": "iptables"}


_numbers = itertools.count()
"""The numbers of sets of rooms, of which one process may have several."""
_BURST_BYTES = 256 * 1024
"""The burst of a link's token bucket: more than the largest piece that TCP hands down at once."""
_QUEUE_BYTES = 4 * 1024 * 1024


class Rooms:
    """Made by `open_rooms`."""

    def __init__(self, network: str, brokers: Sequence[int], link_bytes_per_second: int | None = None) -> None:
        self._link_rate = link_bytes_per_second
        self.addresses = Addresses(network, tuple(brokers))
        self._prefix6 = f"fd98:18:{int(network.rpartition('.')[2]):x}::"
        self._bridge = f"kl{os.getpid()}x{next(_numbers)}"

    def within(self, broker: int) -> list[str]:
        """Return the command prefix that runs a command in that broker's namespace."""
        return ["ip", "netns", "exec", self._name(broker)]

    def within_as_sidecar(self, broker: int) -> list[str]:
        """Return the same prefix for the sidecar's user, who may read what root may: checkout and jars are
        world-readable."""
        return [
            *self.within(broker), "setpriv", f"--reuid={SIDECAR_UID}", f"--regid={SIDECAR_UID}", "--clear-groups",
            "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--pdeathsig=KILL", "--",
        ]  # fmt: skip

    def path(self, broker: int) -> str:
        """Return the namespace's path, for a process that joins it otherwise."""
        return f"/run/netns/{self._name(broker)}"

    def address6(self, broker: int | None) -> str:
        """Return the IPv6 address of a room in its canonical form (RFC 5952); None: of the bridge."""
        last = 1 if broker is None else 10 + self.addresses.brokers.index(broker) + 1
        return str(IPv6Address(f"{self._prefix6}{last}"))

    def run(self, broker: int, *command: str) -> str:
        """Run a command in a room, return what it said. Raises LabError."""
        return output_of(*self.within(broker), *command)

    def cut(self, broker: int) -> None:
        """Pull the cable of a room: nothing comes in or goes out, without notice. Raises LabError."""
        output_of("ip", "link", "set", self._link_of(broker), "down")

    def mend(self, broker: int) -> None:
        """Mend the cable of a room that was unplugged. Raises LabError."""
        output_of("ip", "link", "set", self._link_of(broker), "up")

    def limit(self, broker: int, bytes_per_second: int | None) -> None:
        """Let a room receive so much and no more; None: as much as comes. Raises LabError."""
        link = self._link_of(broker)
        output_of("tc", "qdisc", "del", "dev", link, "root", check=False)
        if bytes_per_second is not None:
            output_of("tc", "qdisc", "add", "dev", link, "root", *_token_bucket(bytes_per_second))

    def carried(self, broker: int) -> tuple[int, int]:
        """Return the bytes that a room has received and sent so far, as its network card would count them.

        Raises LabError.
        """
        statistics = Path("/sys/class/net", self._link_of(broker), "statistics")
        try:
            # What our end of the link sent is what the room received.
            return int((statistics / "tx_bytes").read_text()), int((statistics / "rx_bytes").read_text())
        except OSError as error:
            raise LabError(f"the room of broker {broker} is not open: {error}") from error

    def open(self) -> None:
        """Open the namespaces. Raises LabError."""
        output_of("ip", "link", "add", self._bridge, "type", "bridge")
        for last in _OWN_ADDRESSES:
            output_of("ip", "addr", "add", f"{self.addresses.subnet}.{last}/24", "dev", self._bridge)
        output_of("ip", "addr", "add", f"{self.address6(None)}/64", "dev", self._bridge, "nodad")
        output_of("ip", "link", "set", self._bridge, "up")
        for index, broker in enumerate(self.addresses.brokers):
            self._furnish(broker, self._link(index))

    def close(self) -> None:
        """Remove what was made. What was never made is no error."""
        for index, broker in enumerate(self.addresses.brokers):
            # The kernel takes a namespace apart some time later, but the links have to be gone now.
            output_of("ip", "link", "delete", self._link(index), check=False)
            output_of("ip", "netns", "delete", self._name(broker), check=False)
        output_of("ip", "link", "delete", self._bridge, check=False)

    def _furnish(self, broker: int, link: str) -> None:
        name, addresses = self._name(broker), self.addresses
        output_of("ip", "netns", "add", name)
        output_of("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        output_of("ip", "link", "set", link, "master", self._bridge, "up")
        output_of("ip", "-n", name, "link", "set", "lo", "up")
        output_of("ip", "-n", name, "link", "set", "eth0", "up")
        for address in (addresses.direct(broker), addresses.ingress(broker), addresses.http(broker)):
            output_of("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        output_of("ip", "-n", name, "addr", "add", f"{self.address6(broker)}/64", "dev", "eth0", "nodad")
        for leader in addresses.brokers:
            if leader != broker:
                output_of("ip", "-n", name, "addr", "add", f"{addresses.egress(broker, leader)}/32", "dev", "lo")
        if self._link_rate is not None:
            output_of("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", *_token_bucket(self._link_rate))

    def _link_of(self, broker: int) -> str:
        return self._link(self.addresses.brokers.index(broker))

    def _link(self, index: int) -> str:
        return f"{self._bridge}v{index}"

    def _name(self, broker: int) -> str:
        return f"{self._bridge}-{broker}"


@contextmanager
def open_rooms(brokers: Sequence[int], *, link_bytes_per_second: int | None = None) -> Iterator[Rooms]:
    """Open namespaces for the length of a block, with what each sends limited, as a network card's speed does.

    Raises LabError: what is missing, or not allowed.
    """
    missing = [f"`{command}` (Debian: apt-get install {package})" for command, package in _NEEDED.items()
               if shutil.which(command) is None]  # fmt: skip
    if missing:
        raise LabError(f"network namespaces need {', '.join(missing)}")
    if os.geteuid() != 0:
        raise LabError("network namespaces need root")
    with own_network() as network:
        rooms = Rooms(network, brokers, link_bytes_per_second)
        try:
            rooms.open()
            yield rooms
        finally:
            rooms.close()


def _token_bucket(bytes_per_second: int) -> list[str]:
    return ["tbf", "rate", f"{bytes_per_second}bps", "burst", str(_BURST_BYTES), "limit", str(_QUEUE_BYTES)]
