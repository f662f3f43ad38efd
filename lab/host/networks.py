"""A network of 198.18.0.0/16 (RFC 2544) that no other process has, for as long as a block lasts.

    with own_network() as prefix:      "198.18.7", whose 254 addresses are ours

Two labs with the same network would answer to each other's addresses. So each lab claims its network by a name that the
kernel gives to one process at a time, within the network namespace that has the addresses. The kernel frees the name
when the process ends, however it ends.

Invariant: no interface has an address of a network when it is claimed.
"""

from __future__ import annotations

import random
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import LabError
from .commands import output_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NETWORKS = tuple(f"198.18.{third}" for third in range(256))


@contextmanager
def own_network() -> Iterator[str]:
    """Reserve a network for the length of a block; yield its first three octets.

    Raises LabError: there is none left, or no `ip` to look by.
    """
    addresses = output_of("ip", "-oneline", "addr", "show")
    for prefix in random.sample(NETWORKS, len(NETWORKS)):
        if f" {prefix}." in addresses:
            continue
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0kafka-lab-{prefix}")
        except OSError:
            claim.close()
            continue
        with claim:
            yield prefix
        return
    raise LabError("each network of 198.18.0.0/16 is taken: end other labs, or delete the links they left behind")
