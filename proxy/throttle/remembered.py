"""How many throttled replicas may be remembered, by one connection and by all of a role.

A replica costs about 700 bytes, whether there is such a partition or a follower made its name up. What is not
remembered passes untouched, and those remembered before go on being throttled.

Invariant: `count` is never less than what is remembered, and is put right once a second.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Remembered:
    """Of one role. Kafka advises at most 4000 partitions a broker, 200 000 a cluster."""

    most: int = 200_000
    most_of_connection: int = 20_000
    count: int = 0
    """Those of connections that ended, or that are asked for no longer, are in it until it is put right."""
    is_memory_short: bool = False
    """The process nears what it may have of memory: nothing new is remembered."""

    def admits(self, of_connection: int) -> bool:
        """Whether a connection that remembers so many may remember one more, which is counted then."""
        if of_connection >= self.most_of_connection or self.count >= self.most or self.is_memory_short:
            return False
        self.count += 1
        return True
