"""Clusters as values: what Hypothesis draws, shrinks to the smallest that fails, and prints."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

from hypothesis import strategies as st

from ..proxy.conversation import LIMIT, MIB
from ..proxy.session_conversation import topic_of
from .world import Connection, World

QUOTA = 4 * MIB
VERSIONS = (3, 11, 12, 17, 18)
MORE_THAN_SHARE = 1.5
"""So much more a follower has to be able to fetch, since some of its fetches find the gate closed."""
WAIT_SECONDS = 0.05
"""What a fetch takes besides its way: bytes on the network, a wait for the gate."""


class Follower(NamedTuple):
    """`hop_ms` one way, up to `jitter_ms` more, drawn by `seed`. `live_ms`: producers write to a partition in sync."""

    hop_ms: float
    jitter_ms: float = 0.0
    partitions: int = 8
    live_ms: int | None = None
    begins_ms: int = 0
    seed: int = 0


class Case(NamedTuple):
    """Followers of one leader. `follower_rate`: the quota of each follower's own sidecar; None: it has none."""

    followers: tuple[Follower, ...]
    version: int = 12
    leader_rate: float | None = QUOTA
    follower_rate: float | None = None

    def run(self, seconds: float) -> list[Connection]:
        numbers = range(1, len(self.followers) + 1)
        leader_rate, follower_rate = self.leader_rate, self.follower_rate
        world = World((0, *numbers), leader_rate=leader_rate, follower_rate=follower_rate, version=self.version)
        made = [self._connect(world, number, each) for number, each in zip(numbers, self.followers, strict=True)]
        world.run(seconds)
        return made

    def _connect(self, world: World, number: int, follower: Follower) -> Connection:
        topic, live = (topic_of(self.version, f"{name}{number}") for name in ("behind", "live"))
        draw = random.Random(follower.seed)

        def hop() -> float:
            return (follower.hop_ms + draw.uniform(0, follower.jitter_ms)) / 1000

        return world.connect(
            number,
            0,
            [(topic, partition) for partition in range(follower.partitions)],
            hop=hop,
            live=() if follower.live_ms is None else [(live, 0)],
            live_seconds=math.inf if follower.live_ms is None else follower.live_ms / 1000,
            begins=follower.begins_ms / 1000,
        )


def followers(most_ms: float) -> st.SearchStrategy[Follower]:
    """Up to `most_ms` away, one way."""
    return st.builds(
        Follower,
        hop_ms=st.floats(0.2, most_ms),
        jitter_ms=st.floats(0, 5),
        partitions=st.integers(1, 12),
        live_ms=st.sampled_from([None, 20, 100, 500]),
        begins_ms=st.integers(0, 300),
        seed=st.integers(0, 9),
    )


def cases(*, most: int, most_ms: float) -> st.SearchStrategy[Case]:
    """Up to `most` followers of one leader that throttles."""
    drawn = st.builds(
        Case,
        st.lists(followers(most_ms), min_size=2, max_size=most).map(tuple),
        version=st.sampled_from(VERSIONS),
        follower_rate=st.none(),  # drawn by its type otherwise: -4e16 bytes per second, once
        leader_rate=st.sampled_from([MIB, QUOTA, 20 * MIB]),
    )
    return drawn.filter(each_can_have_its_share)


def each_can_have_its_share(case: Case) -> bool:
    """A fetch brings at most replica.fetch.max.bytes of a partition, and the next one begins a round trip later: what
    this leaves of a share is no sidecar's doing."""
    share = (case.leader_rate or 0.0) / len(case.followers)
    return all(
        each.partitions * LIMIT >= MORE_THAN_SHARE * share * (2 * (each.hop_ms + each.jitter_ms) / 1000 + WAIT_SECONDS)
        for each in case.followers
    )
