"""What connections say of how long their peers take."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.quotas import Partitions, Quotas, RoleQuota
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.decision import Forward
from proxy.throttle.peer_latencies import (
    MAX_SAMPLES,
    PROVEN_SECONDS,
    STANDING_PAUSES,
    LatencySample,
    LinkTimings,
    PeerLatencies,
    PeerLatencySample,
    RoleLatencies,
)
from proxy.throttle.role_throttle import RoleThrottle
from tests.proxy.conversation import MIB, Conversation, behind, response_entry, settings, throttle

KEY = ("t", 0)


def timed(conversation: Conversation) -> Conversation:
    """The same under a rate that does not hurt: nothing else goes by these times."""
    conversation.throttle.is_auto = True
    conversation.link.replicas.timings.counted_as = PeerLatencies()
    return conversation


def taken(conversation: Conversation) -> PeerLatencySample:
    counted_as = conversation.link.replicas.timings.counted_as
    assert counted_as is not None
    return counted_as.take_sample(0.0)


@dataclass(eq=False)
class Connection:
    """A connection as `RoleLatencies` knows it, that has brought records in so many seconds."""

    peer: str = "102"
    proven_seconds: int = 100
    replicas: Any = None
    relayed: Any = None

    def __post_init__(self) -> None:
        self.replicas = SimpleNamespace(known={}, behind={}, new={}, timings=LinkTimings())
        self.replicas.timings.proven_seconds = self.proven_seconds

    def holds(self, *, behind: int, in_sync: int) -> None:
        self.replicas.behind = dict.fromkeys(range(behind))
        self.replicas.known = dict.fromkeys(range(behind + in_sync))


class TimedRole:
    """A role's timings, looked at once a second; each of its connections brings records every second."""

    def __init__(self, *connections: Connection) -> None:
        self.timings, self.connections, self.now = RoleLatencies(), list(connections), 0.0
        self.look()

    def look(self) -> LatencySample:
        self.now += 1
        for each in self.connections:
            each.replicas.timings.records_go_on(self.now, in_sync=True)
        return self.timings.take_sample(self.connections, self.now)

    def pauses(self) -> dict[str, float | None]:
        return {broker: times.pause_seconds for broker, times in self.look().brokers.items()}


def test_quartiles_and_medians_since_they_were_taken_last() -> None:
    follower = Connection()
    role = TimedRole(follower)
    assert role.look().brokers == {"102": PeerLatencySample()}
    for seconds in (0.1, 0.2, 5.0):
        follower.replicas.timings.answered(seconds)
    role.timings.came_back(follower, 0.3, 0, 0.0)
    assert role.look().brokers == {"102": PeerLatencySample(0.3, 0.2)}
    assert role.look().brokers == {"102": PeerLatencySample()}


def test_followers_count_by_their_slower_half() -> None:
    """A link that was full for the last three tenths of a second; one fetch of four that took long."""
    timings = PeerLatencies()
    for number in range(100):
        timings.came_back(0.0005 if number < 70 else 0.005)
    assert timings.take_sample(0.0) == PeerLatencySample(0.005)
    for seconds in (0.001, 0.9, 0.001, 0.001):
        timings.came_back(seconds)
    assert timings.take_sample(0.0) == PeerLatencySample(0.001)


def test_no_more_is_kept_than_a_second_needs() -> None:
    """The last of a second count: the rate may have done harm since its first."""
    timings = PeerLatencies()
    for _ in range(10 * MAX_SAMPLES):
        timings.answered(1.0)
        timings.came_back(1.0)
    for _ in range(MAX_SAMPLES):
        timings.answered(9.0)
        timings.came_back(9.0)
    timings.answered(1.0)
    assert timings.take_sample(0.0) == PeerLatencySample(9.0, 9.0)


ATTACKERS = 8


def test_connections_that_only_claim_to_be_a_broker_do_not_count() -> None:
    """Eight that nobody asked for a password, each 5 ms late with every fetch, lowered the rate to `min`."""
    follower = Connection()
    fakes = [Connection(peer, 0) for peer in ("102", "901") for _ in range(ATTACKERS)]
    role = TimedRole(follower, *fakes)
    role.timings.on_standing_queue = lambda: pytest.fail("nobody who counts is late")
    for timings in role.timings.brokers.values():
        timings.most_pause_seconds = 0.002
    for _ in range(PROVEN_SECONDS - 2):
        for each in fakes:
            role.timings.came_back(each, 0.005, 0, 0.0)
        role.timings.came_back(follower, 0.001, 0, 0.0)
        assert role.pauses() == {"102": 0.001}


def test_who_has_brought_a_brokers_records_for_half_as_long_speaks_for_it_too() -> None:
    """Another fetcher of the same broker: together they are one value. A new one is not, nor is one that has been idle
    for long and would keep the others from counting."""
    elder, second, newer, idle = Connection("102", 100), Connection("102", 60), Connection("102", 30), Connection()
    idle.replicas.timings.proven_seconds = 1000
    role = TimedRole(elder, second, newer)
    role.connections.append(idle)
    idle.replicas.timings.proven_at = -100.0
    role.timings.take_sample(role.connections, role.now)
    for connection, seconds in ((elder, 0.001), (second, 0.002), (newer, 0.5)):
        role.timings.came_back(connection, seconds, 0, 0.0)
    role.timings.came_back(second, 0.002, 0, 0.0)
    assert role.pauses() == {"102": 0.002}


def test_a_broker_counts_once_however_many_connections_it_has() -> None:
    many = [Connection("102") for _ in range(ATTACKERS)]
    one = Connection("103")
    role = TimedRole(one, *many)
    for each in many:
        role.timings.came_back(each, 0.005, 0, 0.0)
    role.timings.came_back(one, 0.001, 0, 0.0)
    assert role.pauses() == {"102": 0.005, "103": 0.001}


def test_as_long_as_no_connection_has_proven_itself_all_count() -> None:
    """A process that has just started has nothing better to go by."""
    follower, other = Connection("102", 0), Connection("103", 0)
    role = TimedRole(follower, other)
    assert role.pauses() == {"102": None, "103": None}
    for _ in range(PROVEN_SECONDS):
        role.look()
    role.connections.append(Connection("104", 0))
    role.look()
    assert role.timings.brokers.keys() == {"102", "103"}


def test_a_broker_without_connections_is_forgotten() -> None:
    role = TimedRole(Connection("102"), Connection("103"))
    del role.connections[0]
    assert role.look().brokers.keys() == {"102", "103"}
    assert role.look().brokers.keys() == {"103"}


def test_a_replica_falls_out_of_sync_if_one_more_is_behind_and_one_less_is_in_sync() -> None:
    follower, fake = Connection(), Connection("102", 0)
    role = TimedRole(follower, fake)

    def fell(connection: Connection, behind: int, in_sync: int) -> bool:
        connection.holds(behind=behind, in_sync=in_sync)
        return role.look().fell_behind

    assert not fell(follower, 2, 5)
    assert not fell(follower, 4, 5)  # a move begins
    assert not fell(follower, 4, 3)  # partitions have gone to another leader
    assert fell(follower, 5, 2)
    assert not fell(follower, 5, 2)
    assert not fell(fake, 0, 3)
    assert not fell(fake, 1, 2)  # whoever only claims to be a broker can say so of any replica


class Queue:
    """Counts how many times a standing queue was told, of pauses that may be 2 ms long."""

    def __init__(self) -> None:
        self.follower = Connection()
        self.role, self.told = TimedRole(self.follower), 0
        self.timings = self.role.timings
        self.timings.brokers["102"].most_pause_seconds = 0.002
        self.timings.on_standing_queue = self._tell

    def _tell(self) -> None:
        self.told += 1

    def came_back(self, *milliseconds: float) -> int:
        for each in milliseconds:
            self.timings.came_back(self.follower, each / 1000, 0, 0.0)
        return self.told


def test_pauses_that_are_too_long_one_after_the_other_are_told_at_once() -> None:
    queue = Queue()
    assert queue.came_back(*[1] * 200, *[3] * (STANDING_PAUSES - 1)) == 0
    assert queue.came_back(3) == 1
    assert queue.timings.take_last_pauses() == {"102": 0.003}
    assert queue.role.pauses() == {"102": None}
    assert queue.came_back(*[3] * STANDING_PAUSES) == 2


def test_a_queue_that_stands_is_told_although_a_fetch_was_in_time() -> None:
    assert Queue().came_back(*[3, 3, 3, 3, 3, 3, 3, 1] * 3) == 1


@pytest.mark.parametrize("pauses", [[3, 1], [1, 3, 3, 3], [3, 3, 1, 3], [2]], ids=str)
def test_followers_that_are_late_by_chance_are_no_queue(pauses: list[float]) -> None:
    assert Queue().came_back(*pauses * 1000) == 0


def test_until_there_is_a_best_no_pause_is_too_long() -> None:
    timings = PeerLatencies()
    assert not any(timings.came_back(9.0) for _ in range(100))


def test_an_answer_is_timed_from_when_it_was_asked_for() -> None:
    conversation = timed(behind())
    conversation.now += 1.0
    decision = conversation.ask()
    conversation.now += 0.02
    conversation.answer(decision, {KEY: 10_000})
    assert taken(conversation) == PeerLatencySample(None, pytest.approx(0.02))


def test_an_in_sync_follower_is_timed_from_its_answer_to_its_next_fetch() -> None:
    conversation = timed(Conversation(throttle(), offsets={KEY: 1_000_000}))
    conversation.meet()
    conversation.now = 1.0
    conversation.answer(conversation.ask(), {KEY: 5_000}, high_watermark=1_000_005)
    conversation.now = 1.03
    conversation.ask()
    assert taken(conversation) == PeerLatencySample(pytest.approx(0.03))


def test_a_follower_that_had_nothing_to_append_is_not_timed() -> None:
    conversation = timed(Conversation(throttle(), offsets={KEY: 1_000_000}))
    conversation.meet()
    for now in (1.0, 1.5):
        conversation.now = now
        conversation.answer(conversation.ask())
    assert taken(conversation) == PeerLatencySample()


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "unlisted"])
def test_what_catches_up_in_the_same_answer_makes_those_in_sync_wait(listed: bool) -> None:
    """One connection carries both, as with num.replica.fetchers=1: the time is that of the whole answer. The lists of a
    move name what moves, and producers write to other partitions."""
    live = ("live", 0)
    named = RoleQuota(4.0 * MIB, topics={"t": Partitions(frozenset({0}))})
    quotas = Quotas(leader=RoleQuota.of_every_topic(4.0 * MIB) if listed else named)
    held = RoleThrottle(Role.LEADER, settings(), quotas=quotas, statistics=RoleStatistics(), now=0.0)
    conversation = timed(Conversation(held, offsets={KEY: 0, live: 1_000_000}))
    conversation.meet()
    conversation.now = 1.0
    answer = conversation.answer(conversation.ask(), {KEY: 200_000})
    conversation.now = 1.05
    answer.forwards([response_entry(*live, 5_000, high_watermark=1_000_005)], b"", 0, conversation.now)
    conversation.now = 1.07
    conversation.ask()
    assert taken(conversation).pause_seconds == pytest.approx(0.07)


def test_a_follower_that_only_catches_up_is_not_timed() -> None:
    conversation = timed(behind())
    conversation.now = 1.0
    conversation.answer(conversation.ask(), {KEY: 200_000})
    conversation.now = 1.07
    conversation.ask()
    assert taken(conversation).pause_seconds is None


def test_a_connection_that_carries_nothing_listed_is_timed_while_a_rate_goes_by_it() -> None:
    """Another follower of a leader whose link is full: it is sent what producers write, and nothing moves there."""
    live = ("live", 0)
    quotas = Quotas(leader=RoleQuota(4.0 * MIB, topics={"t": Partitions(frozenset({0}))}))
    held = RoleThrottle(Role.LEADER, settings(), quotas=quotas, statistics=RoleStatistics(), now=0.0)
    conversation = timed(Conversation(held, offsets={live: 1_000_000}))
    decision = conversation.ask()
    assert isinstance(decision, Forward)
    assert decision.pending is None  # its answers pass unread
    held.timings.are_wanted = True
    conversation.answer(conversation.ask(), {live: 5_000})
    conversation.now += 0.03
    conversation.ask()
    assert taken(conversation).pause_seconds == pytest.approx(0.03)


def test_under_a_fixed_rate_nothing_is_timed() -> None:
    conversation = timed(Conversation(throttle(), offsets={KEY: 1_000_000}))
    conversation.throttle.is_auto = False
    conversation.meet()
    conversation.answer(conversation.ask(), {KEY: 5_000}, high_watermark=1_000_005)
    conversation.ask()
    assert taken(conversation) == PeerLatencySample()


def test_what_was_timed_before_a_fixed_rate_is_not_taken_up_after_it() -> None:
    """An hour under a fixed rate is not how long a follower took to come back."""
    conversation = timed(Conversation(throttle(), offsets={KEY: 1_000_000}))
    conversation.meet()
    conversation.answer(conversation.ask(), {KEY: 5_000}, high_watermark=1_000_005)
    conversation.throttle.is_auto = False
    conversation.answer(conversation.ask())
    conversation.now += 3600.0
    timed(conversation).ask()
    assert taken(conversation) == PeerLatencySample()
