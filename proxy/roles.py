"""The two roles of a broker in replication, and therefore of the sidecar beside it (KIP-73)."""

from __future__ import annotations

import enum


class Role(enum.Enum):
    """The value is the metric label, the log key and the prefix of Kafka's config keys."""

    LEADER = "leader"
    FOLLOWER = "follower"
