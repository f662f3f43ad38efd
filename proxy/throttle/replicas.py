"""The throttled replicas that a follower fetches over one connection, sorted by what may be done with them.

They are kept sorted, not sorted anew for each request: a fetch of a thousand partitions costs what has changed since
the one before. Pure; knows a role's lists, not its budget.

Invariant: between two requests `known` holds the replicas that the last request asked for and the lists select, and
`behind` and `new` hold those of them that have this standing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.work_in_steps import HEAVY, collected, parts

from ..statistics.display_rate import DisplayRate, GrowthMeter
from .batch_sizes import TopicBatches
from .peer_latencies import LinkTimings
from .replica import BEHIND, FOLLOWER, NEW, TRUNCATED, LinkPolicy, Replica
from .service_order import ServiceOrder
from .throttled_lists import ListedReplicasCache

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from protocol.fetch.batches import BatchWalk
    from protocol.fetch.walker import RequestEntry
    from protocol.session.requests import PartitionKey
    from protocol.work_in_steps import Steps

    from .replica import ReplicaState
    from .throttled_lists import Selection


ABSENCE_SECONDS = 10.0
"""A partition that was left out for longer counts as new when it is asked for again."""
COUNTED_SECONDS = 30.0
"""A replica that no request asked for in this time is left out of figures. A fetcher without partitions, because a
reassignment was cancelled, sends no more requests, and its connection stays open until connections.max.idle.ms (10
minutes by default). A fetcher that has partitions asks again after request.timeout.ms (30 s) at the latest."""


@dataclass(slots=True)
class ReplicaCountLimit:
    """Limits how many throttled replicas may be remembered, by one connection and by all of a role.

    A replica takes about 700 bytes, whether its partition exists or a follower made the name up. One for which there is
    no room passes untouched. Kafka advises at most 4000 partitions a broker, 200 000 a cluster. Invariant: `count` is
    never less than the number of replicas remembered, and is counted anew once a second.
    """

    most: int = 200_000
    most_of_connection: int = 20_000
    count: int = 0
    """Replicas of connections that ended, or that are asked for no longer, are included until it is counted anew."""
    is_memory_short: bool = False
    """True while the process is close to its limit of memory (`limits.max_memory`): no new replica is remembered."""

    def admits(self, of_connection: int) -> bool:
        """True if a connection that remembers `of_connection` replicas may remember one more, and that one is
        counted."""
        if of_connection >= self.most_of_connection or self.count >= self.most or self.is_memory_short:
            return False
        self.count += 1
        return True


class Replicas:
    """The replicas of one connection, by (topic, partition)."""

    __slots__ = (
        "_asked_at", "_chosen", "_omitted", "_remembered", "_requests", "_topics", "answered_at",
        "behind", "changed", "fetch_version", "gain", "generation", "growth", "known", "moved", "new", "not_remembered",
        "order", "policy", "timings",
    )  # fmt: skip

    def __init__(self, selection: Selection, remembered: ReplicaCountLimit, policy: LinkPolicy = FOLLOWER) -> None:
        self.policy = policy
        self._chosen = ListedReplicasCache(selection)
        self._remembered = remembered
        self.known: dict[PartitionKey, Replica] = {}
        self.behind: dict[PartitionKey, Replica] = {}
        self.new: dict[PartitionKey, Replica] = {}
        self.order = ServiceOrder(self.behind)
        """The replicas that are behind, the one served least first."""
        self.changed: dict[Replica, None] = {}
        """Replicas whose standing an answer may have changed; the next request classifies them anew."""
        self.moved: dict[PartitionKey, None] | None = None
        """The replicas that came into `behind` or left it since `link_session` cleared this; None: any may have."""
        self._topics = TopicBatches()
        self.generation = 0
        """A number that grows whenever a replica comes or goes, is asked for with other values, or changes its
        standing."""
        self._omitted: dict[PartitionKey, tuple[Replica, float]] = {}
        """The replicas that the follower leaves out, because it throttles them, natively or by its own sidecar, each
        with the time of the last request that asked for it. If it asks for one again within `ABSENCE_SECONDS`, what was
        known of it still tells whether it is behind."""
        self.fetch_version: int | None = None
        """The version of the last replica's Fetch, for people; None: there was none."""
        self.gain = DisplayRate(0.0)
        """The messages per second by which their lag shrinks; negative while it grows."""
        self.growth = GrowthMeter()  # bytes per second that producers add to those that are behind
        self.timings = LinkTimings()
        self._asked_at = 0.0
        self.answered_at = math.inf
        """The time at which the last answer had gone on, or its last part was looked at; inf before the first."""
        self._requests = 0
        self.not_remembered = 0
        """How often a replica was asked for that the lists select and that passed untouched, because no more may be
        remembered."""

    def __len__(self) -> int:
        return len(self.known) + len(self._omitted)

    def state(self, now: float) -> list[ReplicaState]:
        """Return what another process is to `restore`; nothing that asks for these may be in flight."""
        changed = self.changed
        found = [replica.state()._replace(is_changed=replica in changed) for replica in self.known.values()]
        missing = self._omitted.values()
        return found + [replica.state()._replace(missing_seconds=max(now - since, 0.0)) for replica, since in missing]

    def restore(self, states: Iterable[ReplicaState], now: float) -> None:
        """Restore the replicas of another process that the lists select here. The others are not throttled, so
        nothing is remembered of them."""
        self._asked_at = now
        for state in states:
            key = (state.topic, state.partition)
            if not self.selects(key) or not self._remembered.admits(len(self)):
                continue
            replica = Replica.from_state(state, now)
            if state.missing_seconds is not None:
                self._omitted[key] = (replica, now - state.missing_seconds)
                continue
            self.known[key] = replica
            self._place(key, replica)
            if state.is_changed:
                self.changed[replica] = None

    def counted(self, now: float) -> list[Replica]:
        """Return the replicas asked for within `COUNTED_SECONDS`, whether or not the last request listed them."""
        found = list(self.known.values()) if now - self._asked_at < COUNTED_SECONDS else []
        return found + [replica for replica, since in self._omitted.values() if now - since < COUNTED_SECONDS]

    def leader_is_asked(self, keys: Collection[PartitionKey], now: float) -> None:
        """Note that a request that asks the leader for these is forwarded, so their high watermarks will be known
        again."""
        for key in keys:
            replica = self.known.get(key)
            if replica is not None:
                replica.leader_asked_at = now

    def progressed(self, replica: Replica, high_watermark: int, now: float) -> None:
        """Record another high watermark of a known replica: the next request classifies it anew."""
        if replica.high_watermark >= 0 and replica.lag:
            self.gain.add(replica.high_watermark - high_watermark, now)
            self.growth.add(max(high_watermark - replica.high_watermark, 0) * replica.bytes_per_message, now)
        replica.high_watermark, replica.error_code = high_watermark, 0
        self.changed[replica] = None

    def saw_batches(self, replica: Replica, walk: BatchWalk) -> None:
        """Record that records of a replica were cut off where their grant ended."""
        replica.saw_batches(walk)
        self._topics.saw(replica.key[0], walk.alike_bytes)

    def clear(self) -> None:
        """Forget everything: a fetch passed unread, so what is known may be out of date."""
        self.generation += 1
        self.moved = None
        if self.known or self._omitted:
            for each in (self.known, self.behind, self.new, self.changed, self._omitted):
                each.clear()
            self.order.clear()

    def asked(self, entries: Sequence[RequestEntry], now: float) -> Steps[None]:
        """Process a request that lists everything the follower wants; what it leaves out is remembered for a while."""
        changed, self.changed = self.changed, {}
        self._requests += 1
        found = 0
        for part in parts(entries, HEAVY if self._requests == 1 else 1):
            found += self._record_offsets(part, changed, now)
            if part is not entries:
                yield
        if found != len(self.known):
            known, number = self.known, self._requests
            missing = yield from collected(list(known), lambda part: [k for k in part if known[k].asked_in != number])
            yield from self._miss(missing, changed)
        yield from self._look_again(changed, now)

    def _record_offsets(self, entries: Sequence[RequestEntry], changed: dict[Replica, None], now: float) -> int:
        """Process entries of a request that lists everything. Return how many replicas they ask for."""
        known, free_topics, number = self.known, self._chosen.free_topics, self._requests
        asked = self.policy.asked
        found = gained = 0
        for entry in entries:
            topic, partition, leader_epoch, fetch_offset, limit_bytes, _, _ = entry
            if topic in free_topics:
                continue
            key = (topic, partition)
            replica = known.get(key)
            if replica is None:
                if not self._meet(key, entry, now):
                    continue
                replica = known[key]
            if replica.asked_in != number:  # a partition may be listed twice
                replica.asked_in = number
                found += 1
            if (
                fetch_offset != replica.fetch_offset
                or leader_epoch != replica.leader_epoch
                or limit_bytes != replica.limit_bytes
            ):
                stood = replica.standing
                self.generation += 1
                gained += asked(replica, entry)
                changed.pop(replica, None)
                if replica.standing is not stood or stood is TRUNCATED:
                    self._place(key, replica)
        if gained:
            self.gain.add(gained, now)
        return found

    def asked_more(self, entries: Sequence[RequestEntry], forgotten: Sequence[PartitionKey], now: float) -> Steps[None]:
        """Process a request within a fetch session: only what it lists has changed, only what it forgets is left
        out."""
        changed, self.changed, asked = self.changed, {}, self.policy.asked
        gained = 0
        for part in parts(entries):
            for entry in part:
                key = (entry.topic, entry.partition)
                replica = self.known.get(key)
                if replica is None:
                    self._meet(key, entry, now)
                    continue
                gained += asked(replica, entry)
                changed.pop(replica, None)
                self._place(key, replica)
            if part is not entries:
                yield
        if gained:
            self.gain.add(gained, now)
        if forgotten:
            yield from self._miss(list(dict.fromkeys(key for key in forgotten if key in self.known)), changed)
        yield from self._look_again(changed, now)

    def asked_again(self, now: float) -> Steps[None]:
        """Process a request that asks for just what the one before asked for."""
        changed, self.changed = self.changed, {}
        return self._look_again(changed, now)

    def refused(self, key: PartitionKey, error_code: int) -> None:
        """Forget the values forwarded before: the leader answered with an error."""
        replica = self.known[key]
        replica.error_code = error_code
        replica.forget()
        self._place(key, replica)

    def reselect(self) -> bool:
        """Drop replicas that the lists no longer select; replicas that they select now are taken up when a request
        lists them next. True: the lists have changed.
        """
        if not self._chosen.renew():
            return False
        self._let_go([key for key in self.known if not self.selects(key)])
        return True

    def selects(self, key: PartitionKey) -> bool:
        """True if the lists selected the replica at the last `reselect`."""
        return self._chosen.selects(key)

    def _meet(self, key: PartitionKey, entry: RequestEntry, now: float) -> bool:
        if not self.selects(key):
            return False
        replica, since = self._omitted.pop(key, (None, now))
        returns = replica is not None and now - since < ABSENCE_SECONDS
        if replica is None or not returns:
            if not self._remembered.admits(len(self)):
                self.not_remembered += 1
                return False
            replica = Replica(entry, now)
            replica.suppose(self._topics.of(entry.topic))
        else:
            self.gain.add(self.policy.asked(replica, entry, returns=True), now)
        self.known[key] = replica
        self._place(key, replica, returns=returns)
        return True

    def _miss(self, keys: Sequence[PartitionKey], changed: dict[Replica, None]) -> Steps[None]:
        """Remember these replicas, which are asked for no more, as they are: they are not classified again."""
        for part in parts(keys):
            for key in part:
                self._omitted[key] = (self.known[key], self._asked_at)
                changed.pop(self.known[key], None)
            self._let_go(part)
            if part is not keys:
                yield

    def _let_go(self, keys: Collection[PartitionKey]) -> None:
        self.generation += 1
        for key in keys:
            replica = self.known.pop(key)
            if self.behind.pop(key, None) is not None:
                self._move(key, replica)
            self.new.pop(key, None)
            self.changed.pop(replica, None)

    def _look_again(self, changed: Collection[Replica], now: float) -> Steps[None]:
        """Classify replicas again that answers have changed and that are asked for as before; forget those that have
        been left out for too long."""
        if changed:
            yield from self._classify_again(list(changed))
        if self._topics.has_news:
            yield from self._topics.tell(list(self.known.values()))
        if self._omitted:
            old = [key for key, (_, since) in self._omitted.items() if now - since >= ABSENCE_SECONDS]
            for key in old:
                del self._omitted[key]
        self._asked_at = now
        if now - self.answered_at > self.policy.tail_seconds:
            yield from self._doubt_tail()

    def _classify_again(self, replicas: Sequence[Replica]) -> Steps[None]:
        asked_again = self.policy.asked_again
        for part in parts(replicas):
            for replica in asked_again(part):
                self._place(replica.key, replica)
            if part is not replicas:
                yield

    def _doubt_tail(self) -> Steps[None]:
        """Take those at the tail for new: much may have been written while the peer was away."""
        replicas = list(self.known.values())
        for part in parts(replicas):
            for replica in part:
                if replica.is_at_tail:
                    replica.standing = NEW
                    self._place(replica.key, replica)
                    self.changed[replica] = None
            if part is not replicas:
                yield

    def _place(self, key: PartitionKey, replica: Replica, *, returns: bool = False) -> None:
        self.generation += 1
        standing = replica.standing
        if standing is not BEHIND:
            if self.behind.pop(key, None) is not None:
                self._move(key, replica)
        elif key not in self.behind:
            self.behind[key] = replica
            if not returns:
                self.order.level_up(replica)
            self._move(key, replica)
        if standing is not NEW:
            self.new.pop(key, None)
        elif key not in self.new:
            self.new[key] = replica
        if standing is TRUNCATED:
            # Its high watermark is unknown: unless the answer tells it, the replica is new at the next request.
            self.changed[replica] = None

    def _move(self, key: PartitionKey, replica: Replica) -> None:
        """Note that a replica came into `behind` or left it."""
        self.order.touch(replica)
        if self.moved is not None:
            self.moved[key] = None
