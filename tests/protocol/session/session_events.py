"""What happens between follower and leader: producers, the controller, operators, and whatever breaks."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lab.embedded.session_cache import CachedPartition
from lab.embedded.session_values import Ask
from protocol.session.requests import MAX_EPOCH, Choice, PartitionKey
from tests.protocol.session.world import NOT_LEADER_OR_FOLLOWER, OWN_BYTES, Fault, Log, Sidecar, World

PARTITIONS = st.integers(0, 5)
SOME = st.sets(PARTITIONS)
MAX_SIDECARS = 2
HOPS = st.integers(0, MAX_SIDECARS - 1)
GRANTS = st.dictionaries(PARTITIONS, st.integers(1, 2 * OWN_BYTES), max_size=3)


class SessionEvents(RuleBasedStateMachine):
    """One follower; other followers take the leader's slots; sidecars that throttle, are idle, restart."""

    @initialize(
        version=st.sampled_from([7, 11, 12, 13, 17]), hops=st.integers(1, MAX_SIDECARS), slots=st.integers(0, 3)
    )
    def begin(self, version: int, hops: int, slots: int) -> None:
        self.world = World(version=version, sidecars=hops, slots=slots)
        self.uses_ids = version >= 13
        self.generation = 0
        self.doubts = 0
        """Events for which a session may have to begin anew."""
        for number in range(4):
            self.world.add(self.key(number), records=50)

    def key(self, number: int) -> PartitionKey:
        topic = f"t{number % 2}{'' if number % 3 else self.generation}"
        return (topic.encode().ljust(16), number) if self.uses_ids else (topic, number)

    def sidecar(self, hop: int) -> Sidecar:
        return self.world.sidecars[hop % len(self.world.sidecars)]

    # What producers, the controller and operators do

    @rule(number=PARTITIONS, count=st.integers(1, 300))
    def produce(self, number: int, count: int) -> None:
        if log := self.world.leader.logs.get(self.key(number)):
            log.end += count

    @rule(number=PARTITIONS)
    def commit(self, number: int) -> None:
        if log := self.world.leader.logs.get(self.key(number)):
            log.high_watermark = log.end

    @rule(number=PARTITIONS)
    def add(self, number: int) -> None:
        self.world.add(self.key(number), records=20)

    @rule(numbers=SOME)
    def remove(self, numbers: set[int]) -> None:
        for number in numbers:
            self.world.follower.wanted.pop(self.key(number), None)

    @rule()
    def create_topics_again(self) -> None:
        for number in range(6):
            self.world.follower.wanted.pop(self.key(number), None)
        self.generation += 1
        for number in range(3):
            self.world.add(self.key(number), records=10)

    @rule(number=PARTITIONS)
    def elect(self, number: int) -> None:
        if log := self.world.leader.logs.get(self.key(number)):
            log.epoch += 1
            self.world.follower.wanted.get(self.key(number), Log()).epoch = log.epoch

    @rule(number=PARTITIONS, fails=st.booleans())
    def turn_faulty(self, number: int, fails: bool) -> None:
        if log := self.world.leader.logs.get(self.key(number)):
            log.error_code = NOT_LEADER_OR_FOLLOWER if fails else 0

    @rule(hop=HOPS, omitted=SOME, granted=GRANTS, probed=SOME, times=st.integers(1, 3))
    def throttle(self, hop: int, omitted: set[int], granted: dict[int, int], probed: set[int], times: int) -> None:
        self.sidecar(hop).choice = Choice(
            {self.key(n) for n in omitted},
            {self.key(n): size for n, size in granted.items()},
            {self.key(n): 1 for n in probed},
        )
        self.fetch(times)

    @rule(hop=HOPS)
    def throttle_everything(self, hop: int) -> None:
        self.sidecar(hop).choice = Choice({self.key(n) for n in range(6)})
        self.fetch(1)

    @rule(numbers=SOME)
    def throttle_natively(self, numbers: set[int]) -> None:
        """The follower forgets some for one request."""
        wanted = self.world.follower.wanted
        kept = {key: log for key, log in wanted.items() if key not in {self.key(n) for n in numbers}}
        self.world.follower.wanted = kept
        self.fetch(1)
        self.world.follower.wanted = wanted
        self.fetch(1)

    @rule(hop=HOPS, is_idle=st.booleans())
    def list_or_unlist(self, hop: int, is_idle: bool) -> None:
        self.doubts += self.sidecar(hop).is_idle
        self.sidecar(hop).is_idle = is_idle

    # What breaks

    @rule()
    def restart_leader(self) -> None:
        self.doubts += 1
        self.world.leader.restart()

    @rule(of=st.integers(0, 10))
    def evict(self, of: int) -> None:
        self.doubts += 1
        sessions = self.world.leader.cache.sessions
        if sessions:
            del sessions[sorted(sessions)[of % len(sessions)]]

    @rule(partitions=st.integers(1, 9))
    def open_a_session_of_another_follower(self, partitions: int) -> None:
        self.doubts += 1
        others: dict[PartitionKey, CachedPartition] = {
            ("other", number): CachedPartition(Ask(0)) for number in range(partitions)
        }
        self.world.leader.cache.create(others, uses_topic_ids=False, is_follower=True, now=self.world.now)

    @rule(hop=HOPS)
    def restart_sidecar(self, hop: int) -> None:
        self.doubts += 1
        self.sidecar(hop).restart()

    @rule(hop=HOPS)
    def reconnect(self, hop: int) -> None:
        self.doubts += 1
        self.sidecar(hop).reconnect()

    @rule(seconds=st.sampled_from([1.0, 130.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.doubts += 1
        self.world.now += seconds

    @precondition(lambda self: not self.uses_ids)
    @rule(version=st.sampled_from([7, 11, 12]))
    def upgrade(self, version: int) -> None:
        self.doubts += 1
        self.world.follower.handler.version = version

    @rule(hop=HOPS, is_blind=st.booleans())
    def understand_nothing(self, hop: int, is_blind: bool) -> None:
        self.doubts += 1
        self.sidecar(hop).is_blind = is_blind
        self.fetch(2)

    @rule()
    def grow_old(self) -> None:
        """Two milliards of requests later."""
        handler, cache = self.world.follower.handler, self.world.leader.cache
        places = [sidecar.sessions.find("leader", handler.session_id) for sidecar in self.world.sidecars]
        cached = cache.sessions.get(handler.session_id)
        sessions = [place.session for place in places if place is not None]
        if cached is None or handler.is_full or len(sessions) < len(places):
            return
        ends = [handler.epoch, *(s.follower_epoch for s in sessions), *(s.leader_epoch for s in sessions), cached.epoch]
        later = MAX_EPOCH - max(ends) - 1
        if sessions[0].follower_epoch == handler.epoch:
            handler.epoch += later
            cached.epoch += later
            for session in sessions:
                session.follower_epoch += later
                session.leader_epoch += later

    @rule(times=st.integers(1, 4))
    def fetch(self, times: int) -> None:
        for _ in range(times):
            self.world.fetch()

    @rule(hop=HOPS, fault=st.sampled_from(Fault))
    def fetch_with_a_fault(self, hop: int, fault: Fault) -> None:
        self.doubts += 1
        self.world.fetch((hop % len(self.world.sidecars), fault))
