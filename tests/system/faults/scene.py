"""A throttled move, what stands around it, and what a fault in the middle of it may excuse."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.moves.move import MIB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from lab.cluster.cluster import Cluster
    from lab.host.namespaces import Rooms
    from lab.moves.open_move import OpenMove
    from lab.sidecars.sidecars import Sidecar

LEADER, FOLLOWER = 101, 102
QUOTA = 4 * MIB
NEVER = re.compile(r"(?!)")


@dataclass
class Scene:
    """Two brokers, each with its sidecar in a network namespace of its own, and a move between them at the quota.

    `journals`: where both sidecars keep their journals, a file system of its own. `scratch`: for a fault's own files.
    """

    cluster: Cluster
    rooms: Rooms
    move: OpenMove
    journals: Path
    scratch: Path

    @property
    def leader(self) -> Sidecar:
        return self.cluster.sidecars[LEADER]

    @property
    def follower(self) -> Sidecar:
        return self.cluster.sidecars[FOLLOWER]


@dataclass(frozen=True)
class Fault:
    """What happens, and what of an undisturbed move then cannot be held against anybody.

    shrinks: replicas that are in sync leave the ISR for a while, and producers wait for that.
    produces: producers go on beside it; not where the broker that they write to is ended.
    excused: lines of brokers' logs that this fault causes without a sidecar as well.
    beyond_bytes: what may pass beyond the quota, once.
    settles_seconds: so long after it connections may be held whose peers are gone.
    """

    strike: Callable[[Scene], Awaitable[None]]
    shrinks: bool = False
    produces: bool = True
    excused: re.Pattern[str] = field(default=NEVER)
    beyond_bytes: int = 0
    settles_seconds: float = 15.0
    mebibytes: int = 32
    leader: int = LEADER
    topic_configs: Mapping[str, str] = field(default_factory=dict)
