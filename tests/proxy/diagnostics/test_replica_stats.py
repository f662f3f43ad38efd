"""A role's replicas as `status` and the metrics show them: counts, lag, ETA, who is furthest behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.metadata import ReplicaCount
from protocol.work_in_steps import STEP_ITEMS
from proxy.diagnostics.replica_stats import (
    LONGEST_ETA_SECONDS,
    MAX_LINKS,
    MAX_PARTITIONS,
    ReplicaStats,
    eta_seconds,
    replica_stats,
)
from proxy.throttle.replicas import COUNTED_SECONDS
from tests.proxy.conversation import Conversation, behind, throttle
from tests.proxy.diagnostics.surveys import surveyed

if TYPE_CHECKING:
    from proxy.throttle.role_throttle import RoleThrottle

KEY = ("t", 0)


def counts(of: RoleThrottle, now: float) -> tuple[int, int]:
    found = surveyed(of, now)
    return found.in_sync, found.behind


def test_lag_is_the_sum_over_connections() -> None:
    shared = throttle()
    for offset in (999_000, 999_900):
        conversation = Conversation(shared, offsets={KEY: offset})
        conversation.meet()
    assert surveyed(shared, 0.0).lag_messages == 1100


def test_replicas_are_counted_by_whether_they_are_behind() -> None:
    shared = throttle()
    links = [Conversation(shared, offsets={KEY: offset}) for offset in (999_000, 999_900, 1_000_000)]
    for link in links:
        link.meet()
    for link in links:
        assert counts(shared, 0.0) == (1, 2)
        link.ask()
    assert counts(shared, 0.0) == (1, 2)


def test_eta_is_lag_over_what_it_shrinks_by() -> None:
    conversation = behind()
    for step in range(1, 300):
        conversation.now = step * 0.1
        conversation.answer(conversation.ask(), {KEY: 10_000})  # 10 messages each 100 ms
    lag = surveyed(conversation.throttle, conversation.now).lag_messages
    assert surveyed(conversation.throttle, conversation.now).eta_seconds == pytest.approx(lag / 100, rel=0.05)


def test_eta_is_unknown_while_the_lag_grows_and_0_without_any() -> None:
    conversation = behind()
    for step in range(1, 50):
        conversation.now = step * 0.1
        conversation.answer(conversation.ask(), {KEY: 10_000}, high_watermark=1_000_000 + 50 * step)
    assert surveyed(conversation.throttle, conversation.now).eta_seconds is None
    assert surveyed(throttle(), 0.0).eta_seconds == 0.0


def test_what_nobody_asks_for_any_more_counts_no_longer() -> None:
    """A reassignment was cancelled: its follower sends nothing more on this connection, which stays open."""
    conversation = behind(2)
    conversation.ask()
    subject, last = conversation.throttle, conversation.now
    assert surveyed(subject, last + COUNTED_SECONDS - 1).lag_messages == 2_000_000
    assert surveyed(subject, last + COUNTED_SECONDS).lag_messages == 0
    assert counts(subject, last + COUNTED_SECONDS) == (0, 0)
    assert surveyed(subject, last + COUNTED_SECONDS).eta_seconds == 0.0
    conversation.now = last + COUNTED_SECONDS + 1
    conversation.ask()
    assert surveyed(subject, conversation.now).lag_messages == 2_000_000


def test_one_that_is_missing_from_requests_counts_by_when_it_was_asked_for() -> None:
    conversation = behind(2)
    conversation.now = 20.0
    conversation.ask()
    del conversation.offsets["t", 1]
    conversation.now = 25.0
    conversation.ask()
    assert surveyed(conversation.throttle, 25.0).lag_messages == 2_000_000
    assert surveyed(conversation.throttle, 20.0 + COUNTED_SECONDS).lag_messages == 1_000_000
    assert surveyed(conversation.throttle, 25.0 + COUNTED_SECONDS).lag_messages == 0


def test_the_eta_of_what_has_stopped_is_unknown_instead_of_growing() -> None:
    """147 000 messages behind, and the last of them long ago: the gain of a while ago, fading, made 9e52 s of it."""
    conversation = behind()
    for step in range(1, 50):
        conversation.now = step * 0.1
        conversation.answer(conversation.ask(), {KEY: 10_000})
    stopped = conversation.now
    seen = [surveyed(conversation.throttle, stopped + waited).eta_seconds for waited in (0, 5, 30)]
    assert seen[0] is not None
    assert seen[1] is not None
    assert seen[2] == 0.0  # nobody asks for it any more
    while conversation.now < stopped + 60:  # it is asked for, and nothing comes
        conversation.now += 1.0
        conversation.answer(conversation.ask())
    assert surveyed(conversation.throttle, conversation.now).eta_seconds is None


@pytest.mark.parametrize(
    ("lag", "gain", "eta"),
    [
        (0, 0.0, 0.0),
        (0, -1.0, 0.0),
        (5, 0.0, None),
        (5, -1.0, None),
        (100, 4.0, 25.0),
        (2**63, 1e-300, None),
        (99 * 86400, 1.0, None),
        (99 * 86400 - 1, 1.0, LONGEST_ETA_SECONDS - 1),
    ],
)
def test_an_eta_is_never_longer_than_99_days(lag: int, gain: float, eta: float | None) -> None:
    assert eta_seconds(lag, gain) == eta


def many(links: int, partitions: int) -> RoleThrottle:
    """Partition p of link l is 1000 * l + p + 1 messages behind."""
    shared = throttle()
    for link in range(links):
        offsets = {(f"t{link}", p): 1_000_000 - (1000 * link + p + 1) for p in range(partitions)}
        conversation = Conversation(shared, offsets=offsets)
        conversation.meet()
        conversation.ask()
        conversation.link.peer = str(link)
        conversation.link.replicas.fetch_version = 11
    return shared


def test_those_furthest_behind_are_named_first() -> None:
    found = surveyed(many(3, 30), 0.0)
    assert [(each.peer, each.partition) for each in found.partitions] == [("2", 29 - n) for n in range(MAX_PARTITIONS)]
    assert [(link.peer, link.partitions, link.behind) for link in found.links] == [(p, 30, 30) for p in ("2", "1", "0")]
    assert sum(link.lag_messages for link in found.links) == found.lag_messages
    assert (found.in_sync, found.behind, found.fetching) == (0, 90, 3)


def test_no_more_connections_are_named_than_a_page_holds() -> None:
    found = surveyed(many(MAX_LINKS + 20, 1), 0.0)
    assert found.fetching == MAX_LINKS + 20
    assert [link.peer for link in found.links] == [str(MAX_LINKS + 19 - n) for n in range(MAX_LINKS)]


def test_a_look_is_taken_in_short_steps() -> None:
    steps = sum(1 for _ in replica_stats(many(2, 1000), 0.0))
    whole = 2 * (1000 // STEP_ITEMS)
    assert whole <= steps <= whole + 3


def test_what_happens_between_two_steps_breaks_nothing() -> None:
    shared = many(3, 250)
    steps = replica_stats(shared, 0.0)
    for number, _ in enumerate(steps):
        links = sorted(shared.links, key=lambda link: link.peer)
        if number == 1:
            for link in links:
                link.replicas.clear()
        elif number == 2:
            links[0].close()
            many_more = Conversation(shared, offsets={KEY: 0})
            many_more.meet()
    assert shared.links


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=60))
def test_the_sums_are_those_of_every_replica(lags: list[tuple[int, bool]]) -> None:
    shared = throttle()
    for number, (lag, fetches) in enumerate(lags):
        conversation = Conversation(shared, offsets={("t", number): 1_000_000 - lag})
        conversation.meet()
        conversation.ask()
        conversation.link.replicas.fetch_version = 11 if fetches else None
    found = surveyed(shared, 0.0)
    assert found.lag_messages == sum(lag for lag, _ in lags)
    assert found.behind == sum(lag > 0 for lag, _ in lags)
    assert found.in_sync == len(lags) - found.behind
    assert found.fetching == len(found.links) == sum(fetches for _, fetches in lags)
    worst = sorted((lag for lag, _ in lags), reverse=True)[:MAX_PARTITIONS]
    assert [each.lag_messages for each in found.partitions] == worst


def test_of_no_connections_there_is_nothing_to_say() -> None:
    assert surveyed(throttle(), 0.0) == ReplicaStats()


def test_a_lag_in_bytes_is_unknown_until_messages_were_weighed() -> None:
    conversation = behind()
    assert surveyed(conversation.throttle, conversation.now).lag_bytes is None
    for step in range(1, 5):
        conversation.now = step * 0.2
        conversation.answer(conversation.ask(), {KEY: 50_000})
    conversation.ask()
    found = surveyed(conversation.throttle, conversation.now)
    assert found.lag_bytes == pytest.approx(found.lag_messages * 1000)
    assert surveyed(throttle(), 0.0).lag_bytes == 0.0


def test_what_was_not_fetched_yet_weighs_as_much_as_the_others() -> None:
    conversation = behind(2)
    conversation.now = 0.2
    decision = conversation.ask()
    key = next(iter(conversation.asked_for(decision)))
    conversation.answer(decision, {key: 100_000})
    conversation.ask()
    found = surveyed(conversation.throttle, conversation.now)
    assert found.lag_bytes == pytest.approx(found.lag_messages * 1000)


def test_what_producers_add_is_told_in_bytes() -> None:
    conversation = behind()
    for step in range(1, 300):
        conversation.now = step * 0.1
        conversation.answer(conversation.ask(), {KEY: 10_000}, high_watermark=1_000_000 + 20 * step)
    assert surveyed(conversation.throttle, conversation.now).growth_bytes_per_second == pytest.approx(200_000, rel=0.1)


def test_what_is_behind_is_told_apart_by_what_its_partition_lacks() -> None:
    talk = behind(3)
    counts = {0: ReplicaCount(3, 1), 1: ReplicaCount(3, 2), 2: ReplicaCount(3, 3)}
    talk.ask()
    assert surveyed(talk.throttle, 0.0).in_need == {}
    talk.throttle.urgency.look(["t"])
    talk.throttle.urgency.learn({"t": counts}, ["t"], 0.0)
    assert surveyed(talk.throttle, 0.0).in_need == {"under-min-isr": 1, "under-replicated": 1}


def test_what_the_leader_has_not_told_of_or_refuses_is_not_in_sync() -> None:
    """It stood there as in sync, with a lag of 0."""
    conversation = Conversation(throttle(), offsets={KEY: 1})
    decision = conversation.ask()
    found = surveyed(conversation.throttle, 0.0)
    assert (found.in_sync, found.behind, found.new) == (0, 0, 1)
    assert [(each.in_sync, each.state) for each in found.partitions] == [(False, "not answered yet")]
    for code, name in ((31, "CLUSTER_AUTHORIZATION_FAILED"), (29, "TOPIC_AUTHORIZATION_FAILED"), (47, "error 47")):
        conversation.answer(decision, error=code)
        decision = conversation.ask()
        found = surveyed(conversation.throttle, 0.0)
        assert (found.in_sync, found.behind, found.new) == (0, 0, 1)
        assert [each.state for each in found.partitions] == [f"refused: {name}"]
    conversation.answer(decision, high_watermark=1)
    assert [(each.in_sync, each.state) for each in surveyed(conversation.throttle, 0.0).partitions] == [
        (True, "in sync")
    ]
