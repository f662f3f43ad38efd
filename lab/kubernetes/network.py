"""A network namespace for a node and its pods, joined to ours by one link: pods are reached by their own addresses.

    ours ── link ── bridge of the node ── a link for each pod

Needs root and iproute2. Knows no Kubernetes.
Invariant: when the block ends, namespace and link are gone.
"""

from __future__ import annotations

import itertools
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..brokers.jars import required_command
from ..errors import LabError
from ..host.commands import output_of
from ..host.networks import own_network

if TYPE_CHECKING:
    from collections.abc import Iterator

BRIDGE = "pods"
_numbers = itertools.count()


class NodeNetwork:
    """Made by `node_network`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.name = f"kn{os.getpid()}x{next(_numbers)}"

    @property
    def subnet(self) -> str:
        return f"{self._prefix}.0/24"

    @property
    def ours(self) -> str:
        """Our end's address."""
        return f"{self._prefix}.1"

    @property
    def node(self) -> str:
        """The node's own address."""
        return f"{self._prefix}.2"

    @property
    def pods(self) -> tuple[str, str]:
        """First and last address of pods."""
        return f"{self._prefix}.10", f"{self._prefix}.250"

    def within(self) -> list[str]:
        """Return the prefix that runs a command in the namespace; unlike `ip netns exec` it leaves /sys as it is."""
        return ["nsenter", f"--net=/run/netns/{self.name}", "--"]

    def open(self) -> None:
        """Open the network. Raises LabError."""
        output_of("ip", "netns", "add", self.name)
        inside = ("ip", "-n", self.name)
        output_of("ip", "link", "add", self._link, "type", "veth", "peer", "name", "uplink", "netns", self.name)
        output_of(*inside, "link", "add", BRIDGE, "type", "bridge")
        output_of(*inside, "link", "set", "uplink", "master", BRIDGE, "up")
        output_of(*inside, "link", "set", BRIDGE, "up")
        output_of(*inside, "link", "set", "lo", "up")
        output_of(*inside, "addr", "add", f"{self.node}/24", "dev", BRIDGE)
        output_of("ip", "addr", "add", f"{self.ours}/24", "dev", self._link)
        output_of("ip", "link", "set", self._link, "up")

    def close(self) -> None:
        """Close the network; parts that were never made are no error."""
        output_of("ip", "link", "delete", self._link, check=False)
        output_of("ip", "netns", "delete", self.name, check=False)

    @property
    def _link(self) -> str:
        return f"{self.name}u"


@contextmanager
def node_network() -> Iterator[NodeNetwork]:
    """Open a node's network for the length of a block. Raises LabError: what is missing, or not allowed."""
    required_command("ip", "network namespaces (Debian: apt-get install iproute2)")
    required_command("nsenter", "namespaces (Debian: apt-get install util-linux)")
    if os.geteuid() != 0:
        raise LabError("network namespaces need root")
    with own_network() as prefix:
        network = NodeNetwork(prefix)
        try:
            network.open()
            yield network
        finally:
            network.close()
