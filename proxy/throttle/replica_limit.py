"""Limits how many throttled replicas may be remembered, by one connection and by all of a role.

A replica takes about 700 bytes of memory, whether its partition exists or a follower made the name up. A replica for
which there is no room passes untouched; those remembered before go on being throttled.

Invariant: `count` is never less than the number of replicas remembered, and is counted anew once a second.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ReplicaCountLimit:
    """The number of replicas that one role remembers, and its limits.

    Kafka advises at most 4000 partitions a broker, 200 000 a cluster.
    """

    most: int = 200_000
    most_of_connection: int = 20_000
    count: int = 0
    """Replicas of connections that ended, or that are asked for no longer, are included until it is counted anew."""
    is_memory_short: bool = False
    """The process is close to its limit of memory (`limits.max_memory`): no new replica is remembered."""

    def admits(self, of_connection: int) -> bool:
        """True if a connection that remembers `of_connection` replicas may remember one more, and that one is
        counted."""
        if of_connection >= self.most_of_connection or self.count >= self.most or self.is_memory_short:
            return False
        self.count += 1
        return True
