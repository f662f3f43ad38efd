"""The what-if, with the sidecar's own budgets: whole moves on a clock of its own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.model.simulation import POLICIES, Flow, Outcome, Scenario, simulate

KIB = 1024
MB = 1_000_000.0
QUOTA = 300.0 * KIB
TOPIC_BYTES = 200 * MB
EVERYWHERE = {(broker, role): QUOTA for broker in "1234" for role in ("leader", "follower")}
CLASSIC = {
    "leader": [Flow("1", "2", TOPIC_BYTES), Flow("1", "3", TOPIC_BYTES)],
    "follower": [Flow("1", "3", TOPIC_BYTES), Flow("2", "3", TOPIC_BYTES)],
    "independent": [Flow("1", "2", TOPIC_BYTES), Flow("3", "4", TOPIC_BYTES)],
}


def minutes(outcome: Outcome) -> list[float]:
    assert None not in outcome.finished
    return [(seconds or 0.0) / 60 for seconds in outcome.finished]


def worst(outcome: Outcome, seconds: int) -> float:
    """The most that any broker's role moved in so many seconds, over the quota."""
    most = 0.0
    for key in {(broker, role) for broker, role, _ in outcome.moved}:
        series = {second: size for (*who, second), size in outcome.moved.items() if tuple(who) == key}
        for end in range(max(series) + 1):
            window = sum(series.get(second, 0.0) for second in range(end - seconds + 1, end + 1))
            most = max(most, window / (QUOTA * seconds))
    return most


@pytest.mark.parametrize(("case", "expected"), [("leader", 21.7), ("follower", 21.7), ("independent", 10.85)])
def test_the_classic_three_migrations_take_what_the_quota_says(case: str, expected: float) -> None:
    """200 MB topics at 300 KiB/s: 651 s alone, twice that for two through one budget."""
    outcome = simulate(CLASSIC[case], Scenario(case, "strict", EVERYWHERE))
    assert minutes(outcome) == pytest.approx([expected] * 2, rel=0.01)
    assert worst(outcome, 1) <= 1.3
    assert worst(outcome, 11) <= 1.05


@pytest.mark.parametrize(
    ("case", "remembered", "expected"),
    [("leader", 19.0, 20.35), ("follower", 21.0, 20.9), ("independent", 11.0, 10.45)],
)
def test_the_classic_three_took_what_the_brokers_own_policy_makes_of_them(
    case: str, remembered: float, expected: float
) -> None:
    """MB as in KiB/s: 2**20 bytes; records of 100 kB, as Kafka's tests of its quotas write them; both ends throttle.
    `expected` is what docs/pipeline.md says."""
    flows = [flow._replace(backlog_bytes=200 * KIB * KIB, batch_bytes=100_000) for flow in CLASSIC[case]]
    took = max(minutes(simulate(flows, Scenario(case, "kip73", EVERYWHERE))))
    assert took == pytest.approx(remembered, rel=0.1)
    assert took == pytest.approx(expected, abs=0.06)


def test_the_brokers_own_policy_is_faster_than_its_quota_at_low_rates() -> None:
    """A fetch of a megabyte every few seconds: SimpleRate forgets what is older than its window."""
    outcome = simulate(CLASSIC["leader"], Scenario("native", "kip73", EVERYWHERE))
    assert 17 < min(minutes(outcome)) < 20
    assert worst(outcome, 1) > 3


def test_of_two_that_were_admitted_at_once_the_later_answer_is_withheld() -> None:
    """KIP-73 looks at the quota again when it answers: megabytes pass one by one, each after 3.4 s of quota, and
    neither flow is always the one that loses."""
    megabytes = [Flow("1", "2", 3.0 * KIB * KIB), Flow("1", "3", 3.0 * KIB * KIB)]
    outcome = simulate(megabytes, Scenario("a", "kip73", {("1", "leader"): QUOTA}))
    assert sorted(size for (_, role, _), size in outcome.moved.items() if role == "leader") == [KIB * KIB] * 6
    one, other = (seconds or 0.0 for seconds in outcome.finished)
    assert abs(one - other) == pytest.approx(KIB * KIB / QUOTA, rel=0.05)


def test_what_the_followers_side_withholds_has_cost_the_leaders() -> None:
    """Two leaders answer the same follower at once: both have sent, one answer is kept."""
    megabytes = [Flow("1", "3", 2.0 * KIB * KIB), Flow("2", "3", 2.0 * KIB * KIB)]
    outcome = simulate(megabytes, Scenario("a", "kip73", {("3", "follower"): QUOTA}))
    sent, kept = (
        sum(size for (_, role, _), size in outcome.moved.items() if role == each) for each in ("leader", "follower")
    )
    assert kept == 4 * KIB * KIB
    assert sent > 1.5 * kept


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_quota_the_line_is_the_bound(policy: str) -> None:
    outcome = simulate([Flow("1", "2", 100 * MB, partitions=10)], Scenario("free", policy, {}, 50 * MB))
    assert outcome.finished[0] == pytest.approx(2.0, rel=0.02)


def test_what_is_written_meanwhile_has_to_be_moved_too() -> None:
    """10 MB behind, a quota of 1 MB/s, 0.5 MB/s written: 20 s."""
    flow = Flow("1", "2", 10 * MB, arrivals=(0.5 * MB,) * 100)
    outcome = simulate([flow], Scenario("a", "strict", {("1", "leader"): MB}))
    assert outcome.finished[0] == pytest.approx(20.0, rel=0.02)


def test_a_quota_below_what_is_written_ends_only_after_the_writing() -> None:
    flow = Flow("1", "2", MB, arrivals=(2 * MB,) * 30)
    outcome = simulate([flow], Scenario("a", "strict", {("1", "leader"): MB}))
    assert outcome.finished[0] == pytest.approx(61.0, rel=0.02)


def test_what_is_stored_comes_in_whole_batches_one_at_least() -> None:
    """Ten batches of 100 kB to a fetch of a megabyte; a batch of 3 MB is larger than a fetch, and comes whole."""
    for batch_bytes, expected in ((100_000, 1_000_000), (3_000_000, 3_000_000)):
        outcome = simulate([Flow("1", "2", 6 * MB, batch_bytes=batch_bytes)], Scenario("a", "kip73", {}, 1e12))
        assert outcome.finished[0] == pytest.approx(6 * MB / expected * 0.001, rel=0.01)


def test_what_does_not_end_in_time_is_not_finished() -> None:
    outcome = simulate([Flow("1", "2", MB)], Scenario("a", "strict", {("1", "leader"): 0.0}, most_seconds=10.0))
    assert outcome.finished == [None]
    assert not outcome.moved


@settings(max_examples=20)
@given(
    st.lists(
        st.builds(
            Flow,
            st.sampled_from("12"),
            st.sampled_from("34"),
            st.floats(1, 3 * MB),
            st.integers(1, 20),
            st.floats(0, 5),
            arrivals=st.just(()),
            batch_bytes=st.just(1),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_the_bound_holds_and_every_byte_arrives(flows: list[Flow]) -> None:
    outcome = simulate(flows, Scenario("any", "strict", EVERYWHERE))
    assert None not in outcome.finished
    moved = sum(size for (_, role, _), size in outcome.moved.items() if role == "leader")
    assert moved == pytest.approx(sum(flow.backlog_bytes for flow in flows), abs=len(flows))
    assert worst(outcome, 11) <= 1.05
