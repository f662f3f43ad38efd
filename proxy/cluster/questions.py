"""The questions about the cluster: names of topic ids, listed topics, how many replicas are in sync, in which rack each
broker is, and between which brokers replication runs.

Each has its time, its request and the receiver of the answer; `polling` asks. What answers mean is decided by their
users: `topology`, `observing.quota_checks`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import trio

from protocol.metadata import (
    broker_hosts,
    cluster_and_racks,
    partitions_by_topic,
    replica_counts,
    replication_links,
    topic_names_by_id,
)
from protocol.own_requests import REASSIGNMENT_VERSIONS, added_replicas, reassignments_request
from protocol.wire.apis import API_LIST_PARTITION_REASSIGNMENTS

from ..changes import Changes
from ..config.settings_values import Address
from .broker_client import ASKING_ERRORS, CLIENT_ID, ask_broker, ask_metadata
from .host_names import HostNames
from .polling import LOOK_SECONDS, RETRY_SECONDS, Question, poll

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from protocol.metadata import Links, ReplicaCount
    from protocol.wire.topics import Topic

    from ..roles import Role
    from ..throttle.role_throttle import RoleThrottle
    from ..topology.partition_urgency import PartitionUrgency
    from ..topology.racks import Racks
    from ..topology.topic_names import TopicNames
    from .broker_client import Broker


TOPICS_PER_REQUEST = 50
"""An answer about 50 topics of 1000 partitions each takes a thread half a second to parse."""
CONFIRM_SECONDS = 5.0
"""The time between the first answer about changed lists and the second, which confirms that topics are missing."""
LISTED_TOPICS_SECONDS = 60.0
MAX_LISTED_TOPICS = 5000
"""The most topics of the lists that are checked for existence."""
REPLICAS_PER_STEP = 20_000
"""Replicas looked at before other tasks run: a millisecond."""
RACKS_SECONDS = 60.0
"""The greatest age of the racks: a broker's rack changes only when it restarts."""
UNKNOWN_RACK_SECONDS = 3.0
"""The greatest age of the racks while a rate waits for an unknown rack. Without such a rate, nothing is asked earlier
than this after the start."""
LINKS_SECONDS = 15.0
"""The time between two looks at who replicates with whom; a cluster whose answers take long is asked less often."""
BROKER_ADDRESSES_SECONDS = 60.0
"""The greatest age of the brokers' addresses."""


class TopicNameQuestion(Question["Mapping[bytes, str]"]):
    """Asks for the names of topics whose ids were met in Fetch requests (KIP-516), and of no others.

    The partitions of every topic of a large cluster take seconds to parse, and a follower that makes up ids could cause
    that again and again. So brokers are asked at most four times a second.
    """

    name = "topic_names"
    time_share = 0.5  # until the name is known, the topic counts as listed
    least_pause_seconds = 0.25
    retry_seconds = 0.25

    def __init__(self, names: TopicNames, changed: Callable[[], None]) -> None:
        """Call `changed` when more names are known, or known not to exist."""
        self._names = names
        self._changed = changed
        self._wanted = Changes()
        self._asked: list[bytes] = []
        names.wanted_more = self._wanted.notify

    async def wait_until_due(self) -> None:
        """Wait for an id that has no name yet."""
        while True:
            if not self._names.has_awaited:
                await self._wanted.wait()
            self._asked = self._names.wanted(trio.current_time())
            if self._asked:
                return
            await trio.sleep(self.least_pause_seconds)

    async def ask(self, broker: Broker) -> Mapping[bytes, str]:
        """Return the names of those topics that the broker has, by id."""
        return await ask_metadata(broker, self._asked, topic_names_by_id)

    def learn(self, found: Mapping[bytes, str] | None, now: float) -> None:
        """Record the names, and which ids have none."""
        generation = self._names.generation
        self._names.learn(found, self._asked, now)
        if self._names.generation != generation:
            self._changed()


class ListedTopicsQuestion(Question["Mapping[str, frozenset[int]]"]):
    """Asks which partitions the cluster has of the topics that lists name: a misspelt topic throttles nothing.

    Invariant: a topic or partition is missing only if two answers in a row were without it, since a broker that has
    just started knows none.
    """

    name = "listed_topics"

    def __init__(self, named: Callable[[int], list[str]], wait_changed: Callable[[], Awaitable[None]]) -> None:
        """Ask for at most so many of the topics that lists name, as `named` returns them; `wait_changed` returns when
        they change."""
        self.partitions: Mapping[str, frozenset[int]] = {}
        """The partitions of the topics of the last two answers; empty for a topic that the cluster does not have."""
        self._named = named
        self._wait_changed = wait_changed
        self._before: Mapping[str, frozenset[int]] = {}
        self._learnt_at = -math.inf
        self._asked: list[str] = []

    async def wait_until_due(self) -> None:
        """Wait until lists that name topics change, and for `LISTED_TOPICS_SECONDS` at most."""
        while True:
            now = trio.current_time()
            wait = (LISTED_TOPICS_SECONDS if self.is_confirmed else CONFIRM_SECONDS) - (now - self._learnt_at)
            with trio.move_on_after(max(wait, 0.0)):
                await self._wait_changed()
            self._asked = self._named(MAX_LISTED_TOPICS)
            if self._asked:
                return
            self.learn({}, trio.current_time())

    @property
    def is_confirmed(self) -> bool:
        """True if every topic of the last answer was in the answer before as well."""
        return self._before.keys() == self.partitions.keys()

    async def ask(self, broker: Broker) -> Mapping[str, frozenset[int]]:
        """Return the partitions of the listed topics; a topic that may not be described is left out."""
        found: dict[str, frozenset[int]] = {}
        for first in range(0, len(self._asked), TOPICS_PER_REQUEST):
            found |= await ask_metadata(broker, self._asked[first : first + TOPICS_PER_REQUEST], partitions_by_topic)
        return {topic: found[topic] for topic in self._asked if topic in found}

    def learn(self, found: Mapping[str, frozenset[int]] | None, now: float) -> None:
        """Count a partition as existing if one of the last two answers has it."""
        self._learnt_at = now
        if found is not None:
            both = found.keys() & self._before.keys()
            self.partitions = {topic: found[topic] | self._before[topic] for topic in both}
            self._before = found


class ReplicaCountQuestion(Question["Mapping[Topic, Mapping[int, ReplicaCount]]"]):
    """Asks how many replicas are in sync, for topics that have throttled replicas behind.

    Metadata counts the replicas that a reassignment adds, so each partition that moves looks under-replicated:
    ListPartitionReassignments tells which those are. Without an answer, no replica goes before another.
    """

    name = "replicas_in_sync"

    def __init__(self, needs: PartitionUrgency, throttles: Collection[RoleThrottle]) -> None:
        self._needs = needs
        self._throttles = throttles
        self._asked: Sequence[Topic] = ()

    async def wait_until_due(self) -> None:
        """Wait for a topic with replicas behind whose counts are old."""
        while True:
            self._needs.look(await self._topics_behind())
            due = self._needs.due(trio.current_time())
            if due:
                # All by name, or all by id.
                self._asked = [topic for topic in due if isinstance(topic, type(due[0]))][:TOPICS_PER_REQUEST]
                return
            await trio.sleep(LOOK_SECONDS)

    async def _topics_behind(self) -> set[Topic]:
        """Return the topics of which a replica is behind on a connection whose role or a part of it is limited."""
        found: set[Topic] = set()
        if not self._needs.priorities.most_urgency:
            return found
        looked = 0
        for throttle in self._throttles:
            limited = bool(throttle.tree.inner) or not math.isinf(throttle.quota.bytes_per_second)
            for link in tuple(throttle.links) if limited else ():
                behind = tuple(link.replicas.behind)
                found.update(topic for topic, _ in behind)
                looked += len(behind)
                if looked >= REPLICAS_PER_STEP:
                    looked = 0
                    await trio.lowlevel.checkpoint()
        return found

    async def ask(self, broker: Broker) -> Mapping[Topic, Mapping[int, ReplicaCount]]:
        """Return the counts by topic and partition, without replicas that are being added."""
        counts = await ask_metadata(broker, self._asked, replica_counts)
        if any(has.in_sync < has.replicas for partitions in counts.values() for has in partitions.values()):
            return without_added(counts, await added_at(broker))
        return counts

    def learn(self, found: Mapping[Topic, Mapping[int, ReplicaCount]] | None, now: float) -> None:
        """Learn the counts of the topics that were asked for."""
        self._needs.learn(found, self._asked, now)


async def added_at(broker: Broker) -> dict[str, dict[int, int]]:
    """Return how many replicas are being added, by topic name and partition.

    Empty if the broker does not say: one before Kafka 2.4, one that is not the controller of a cluster with ZooKeeper,
    or one that does not authorize us.
    """

    def request(version: int) -> bytes:
        return reassignments_request(0, client_id=CLIENT_ID, version=version)

    try:
        return await ask_broker(
            broker, API_LIST_PARTITION_REASSIGNMENTS, REASSIGNMENT_VERSIONS, request, added_replicas
        )
    except ASKING_ERRORS:
        return {}


def without_added(
    counts: Mapping[Topic, Mapping[int, ReplicaCount]], added: Mapping[str, Mapping[int, int]]
) -> dict[Topic, dict[int, ReplicaCount]]:
    """Return the counts without the replicas that are being added.

    A topic that `counts` has by its id too has the same mapping there.
    """
    of_mapping = {id(counts[name]): partitions for name, partitions in added.items() if name in counts}
    return {
        topic: {
            number: has._replace(replicas=max(has.replicas - of_mapping.get(id(partitions), {}).get(number, 0), 1))
            for number, has in partitions.items()
        }
        for topic, partitions in counts.items()
    }


class RackQuestion(Question["tuple[str, Mapping[int, str]]"]):
    """Asks for the cluster's id and the rack of each broker: for rates of racks, for the count of bytes between racks,
    and once for the journal.

    Due once a minute while a broker with a known id is connected, and sooner while a rate waits for an unknown rack or
    the journal for its place. Without an answer, rates of racks bound nothing, which `diagnostics.quota_diagnostics`
    reports.
    """

    name = "racks"
    retry_seconds = 0.0  # `_is_due` has the pause

    def __init__(
        self,
        racks: Racks,
        throttles: Collection[RoleThrottle],
        changed: Callable[[Role], None],
        learn_place: Callable[[str, str], None] | None = None,
    ) -> None:
        """Call `changed` with each role whose budgets changed, and `learn_place` once, with the cluster's id and our
        rack, each empty if there is none."""
        self._racks = racks
        self._throttles = throttles
        self._changed = changed
        self._learn_place = learn_place
        self._began = trio.current_time()
        self._asked_at = -math.inf
        self._asked_for: frozenset[str] = frozenset()
        """The brokers whose rack was unknown when racks were asked for last."""

    async def wait_until_due(self) -> None:
        """Wait until a rate or the journal waits for a rack, or the racks are old."""
        await poll(self._is_due)

    def _is_due(self, now: float) -> bool:
        age = now - self._asked_at
        if any(throttle.tree.has_racks for throttle in self._throttles):
            unknown = self._unknown()
            if unknown or not self._racks.is_known:
                return age >= UNKNOWN_RACK_SECONDS or bool(unknown - self._asked_for)
        is_early = age < RACKS_SECONDS or now - self._began < UNKNOWN_RACK_SECONDS
        if is_early and (self._learn_place is None or age < RETRY_SECONDS):
            return False
        return any(link.peer.isdecimal() for throttle in self._throttles for link in throttle.links)

    def _unknown(self) -> frozenset[str]:
        """Return the brokers whose rack a rate waits for."""
        return frozenset(peer for throttle in self._throttles for peer in throttle.rack_warnings().unknown)

    async def ask(self, broker: Broker) -> tuple[str, Mapping[int, str]]:
        """Return the cluster's id, and the rack of each broker that is alive, empty for one that is in none."""
        return await ask_metadata(broker, (), cluster_and_racks)

    def learn(self, found: tuple[str, Mapping[int, str]] | None, now: float) -> None:
        """Learn the racks; budgets of racks change with them."""
        self._asked_at, self._asked_for = now, self._unknown()
        if found is None:
            return
        cluster, racks = found
        if self._racks.learn(racks):
            for throttle in self._throttles:
                if throttle.racks_changed():
                    self._changed(throttle.role)
        if self._learn_place is not None:
            self._learn_place(cluster, self._racks.own)
            self._learn_place = None


class BrokerAddressQuestion(Question["frozenset[str]"]):
    """Asks at which addresses the cluster's brokers are, whose connections have places of their own and are never held
    up for what is not understood.

    Due once a minute while any of that matters. Names are looked up; one that cannot be is left out.
    """

    name = "broker_addresses"

    def __init__(self, is_due: Callable[[], bool], learn_addresses: Callable[[frozenset[str]], None]) -> None:
        self._is_due = is_due
        self._learn_addresses = learn_addresses
        self._names = HostNames()
        self._asked_at = -math.inf

    async def wait_until_due(self) -> None:
        """Wait until the addresses are old and matter."""
        await poll(lambda now: now - self._asked_at >= BROKER_ADDRESSES_SECONDS and self._is_due())

    async def ask(self, broker: Broker) -> frozenset[str]:
        """Return the addresses of the brokers that are alive."""
        found = await self._names.look_up(await ask_metadata(broker, (), broker_hosts))
        return frozenset().union(*found.values())

    def learn(self, found: frozenset[str] | None, now: float) -> None:
        """Pass the addresses on; where no broker answers, the last ones stay."""
        if found is not None:
            self._asked_at = now
            self._learn_addresses(found)


class LinkQuestion(Question["Links"]):
    """Asks between which brokers replication runs, while a quota holds: who is not seen here goes around."""

    name = "links"
    least_pause_seconds = retry_seconds = LINKS_SECONDS

    def __init__(
        self, broker_id: int, is_due: Callable[[float], bool], learn_links: Callable[[Links | None], None]
    ) -> None:
        self._broker_id = broker_id
        self._names = HostNames()
        self._is_due = is_due
        self._learn_links = learn_links

    async def wait_until_due(self) -> None:
        """Wait until a role has a quota."""
        await poll(self._is_due)

    async def ask(self, broker: Broker) -> Links:
        """Return the links of the broker beside us, from all topics."""
        links: Links = await ask_metadata(broker, None, partial(replication_links, broker_id=self._broker_id))
        places = {leader: links.hosts[leader] for leader in links.leaders}
        found = await self._names.look_up(host for host, _ in places.values())
        addresses = {
            str(Address(address, port)): leader
            for leader, (host, port) in places.items()
            for address in found.get(host, ())
        }
        return links._replace(addresses=addresses)

    def learn(self, found: Links | None, now: float) -> None:
        """Pass the links on; None: unknown."""
        del now
        self._learn_links(found)
