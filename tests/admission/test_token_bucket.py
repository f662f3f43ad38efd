"""The bucket's promise: over any span, at most rate times its length plus one burst."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.token_bucket import LOOK_AGAIN_SECONDS, MIN_BURST_BYTES, MIN_GATE_BYTES, TokenBucket

MIB = 1024 * 1024


def bucket(rate: float = 4 * MIB, now: float = 0.0) -> TokenBucket:
    return TokenBucket(rate=rate, gate_seconds=0.1, burst_seconds=0.25, now=now)


@pytest.mark.parametrize(
    ("rate", "gate", "burst"),
    [
        (4 * MIB, 0.4 * MIB, MIB),
        (100 * MIB, 10 * MIB, 25 * MIB),
        (256 * 1024, MIN_GATE_BYTES, MIN_BURST_BYTES),  # 100 ms would be 25.6 KiB: too small to be asked for
        (1, MIN_GATE_BYTES, MIN_BURST_BYTES),
    ],
)
def test_gate_and_burst(rate: float, gate: float, burst: float) -> None:
    assert (bucket(rate).gate_bytes, bucket(rate).burst_bytes) == (pytest.approx(gate), pytest.approx(burst))


def test_starts_with_one_gate_and_opens_again_after_gate_seconds() -> None:
    subject = bucket()
    assert subject.holds(subject.gate_bytes, 0.0)
    subject.reserve(subject.gate_bytes)
    subject.settle(reserved=subject.gate_bytes, used=subject.gate_bytes, now=0.0)
    assert not subject.holds(subject.gate_bytes, 0.0)
    assert subject.seconds_until(subject.gate_bytes, 0.0) == pytest.approx(0.1)
    assert subject.holds(subject.gate_bytes, 0.1001)


def test_a_batch_larger_than_the_grant_is_repaid_as_debt() -> None:
    subject = bucket()
    subject.settle(reserved=0, used=subject.gate_bytes + 4 * MIB, now=0.0)
    assert subject.available(0.0) == -4 * MIB
    assert subject.seconds_until(subject.gate_bytes, 0.0) == pytest.approx(1.1)  # a second of debt, then the gate


def test_rate_zero_never_opens_and_unlimited_always_does() -> None:
    assert not bucket(0).holds(bucket(0).gate_bytes, 1e6)
    assert bucket(0).seconds_until(1, 0.0) == math.inf
    assert bucket(math.inf).holds(bucket(math.inf).gate_bytes, 0.0)
    assert bucket(math.inf).seconds_until(1, 0.0) == 0


def test_a_new_rate_keeps_debt_and_caps_what_was_saved() -> None:
    subject = bucket(100 * MIB)
    assert subject.available(10.0) == 25 * MIB
    subject.change_rate(4 * MIB, 10.0)
    assert subject.available(10.0) == MIB
    subject.settle(reserved=0, used=3 * MIB, now=10.0)
    subject.change_rate(8 * MIB, 10.0)
    assert subject.available(10.0) == -2 * MIB


def test_a_limit_after_none_starts_with_one_gate() -> None:
    subject = bucket(math.inf)
    subject.settle(reserved=0, used=1e12, now=5.0)
    subject.change_rate(4 * MIB, 60.0)
    assert subject.available(60.0) == subject.gate_bytes


@given(
    rate=st.integers(1, 10**9),
    steps=st.lists(st.tuples(st.floats(0, 2), st.floats(0, 1)), min_size=1, max_size=80),
)
def test_over_any_span_no_more_than_rate_times_length_plus_burst(rate: int, steps: list[tuple[float, float]]) -> None:
    """Takers that ask only when it is open, and take any part of what is available."""
    subject, now = bucket(rate), 0.0
    taken: list[tuple[float, float]] = []
    for pause, part in steps:
        now += pause
        if subject.holds(subject.gate_bytes, now):
            size = subject.available(now) * part
            subject.reserve(size)
            subject.settle(reserved=size, used=size, now=now)
            taken.append((now, size))
    for first in range(len(taken)):
        total = 0.0
        for at, size in taken[first:]:
            total += size
            assert total <= (rate * (at - taken[first][0]) + subject.burst_bytes) * (1 + 1e-9)


def test_what_is_on_its_way_is_part_of_the_burst() -> None:
    """A cold leader answers late: what it brings may not come on top of what others could ask for meanwhile."""
    subject = bucket()
    subject.reserve(subject.available(10.0))
    assert subject.available(11.0) == 0
    assert subject.seconds_until(subject.gate_bytes, 11.0) == pytest.approx(0.1)
    subject.settle(reserved=MIB, used=MIB, now=11.0)
    assert subject.available(11.0) == 0
    assert subject.available(11.1) == pytest.approx(subject.gate_bytes)


def test_one_that_waits_for_answers_does_not_look_again_all_the_time() -> None:
    subject = bucket()
    subject.reserve(subject.available(10.0) - subject.gate_bytes + 1)
    assert subject.seconds_until(subject.gate_bytes, 10.0) == LOOK_AGAIN_SECONDS


@pytest.mark.parametrize("rate", [256 * 1024, 1 << 20, 4 << 20, 100 << 20])
def test_answers_as_late_as_half_a_burst_cost_no_throughput(rate: int) -> None:
    """One taker asks as soon as it may; each answer takes 125 ms of the burst's 250."""
    subject, now, came = bucket(rate), 0.0, 0.0
    while now < 100.0:
        now += subject.seconds_until(subject.gate_bytes, now) + 1e-6
        size = subject.available(now)
        subject.reserve(size)
        now += 0.125
        subject.settle(reserved=size, used=size, now=now)
        came += size
    assert came / now / rate == pytest.approx(1.0, abs=0.01)


@given(
    rate=st.integers(1, 10**9),
    grants=st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 3), st.floats(0, 1)), min_size=1, max_size=60),
)
def test_however_late_answers_come_no_span_has_more_than_a_burst_too_many(
    rate: int, grants: list[tuple[float, float, float]]
) -> None:
    """Many takers at once, who ask whenever it is open; each answer takes its own time and brings all or a part."""
    subject, now = bucket(rate), 0.0
    due: list[tuple[float, float, float]] = []
    came: list[tuple[float, float]] = []
    for pause, flight, part in [*grants, (math.inf, 0.0, 0.0)]:
        for at, size, used in sorted(each for each in due if each[0] <= now + pause):
            subject.settle(reserved=size, used=used, now=at)
            came.append((at, used))
        due = [each for each in due if each[0] > now + pause]
        now += pause
        if pause < math.inf and subject.holds(subject.gate_bytes, now):
            size = subject.available(now)
            subject.reserve(size)
            due.append((now + flight, size, size * part))
    most = max(subject.burst_bytes, subject.gate_bytes + rate * 0.125)
    for first, (began, _) in enumerate(came):
        total = 0.0
        for at, used in came[first:]:
            total += used
            assert total <= (rate * (at - began) + most) * (1 + 1e-9)


def test_another_gate_changes_what_opens_it_and_nothing_else() -> None:
    subject = bucket()
    tokens = subject.available(1.0)
    subject.change_gate(0.02, 1.0)
    assert (subject.available(1.0), subject.gate_bytes) == (tokens, pytest.approx(4 * MIB * 0.02))
    subject.change_gate(0.001, 1.0)
    assert subject.gate_bytes == MIN_GATE_BYTES


@pytest.mark.parametrize(
    ("used", "left"),
    [
        (0.5, 0.25),  # it would have been full all the time
        (1.25, 0.0),  # a quarter of a second's worth more than came in
        (1.5, -0.25),
        (10.0, -0.5),  # what is never held back causes no more debt than this
    ],
)
def test_what_was_used_evenly_does_not_count_as_used_now(used: float, left: float) -> None:
    """A second after a full bucket of 1 MB/s was looked at last; its burst is 0.25 s."""
    rate = 1e6
    subject = TokenBucket(rate=rate, gate_seconds=0.25, burst_seconds=0.25, now=0.0)
    subject.charge_evenly(used * rate, 1.0, most_debt_seconds=0.5)
    assert subject.available(1.0) == pytest.approx(left * rate)


def test_what_was_used_evenly_forgives_no_debt_of_others() -> None:
    subject = TokenBucket(rate=1e6, gate_seconds=0.25, burst_seconds=0.25, now=0.0)
    subject.settle(reserved=0, used=3e6, now=0.0)
    subject.charge_evenly(5e6, 1.0, most_debt_seconds=0.5)
    assert subject.available(1.0) == pytest.approx(-1.75e6)


def test_connections_that_share_a_gate_wait_for_the_root_of_their_number() -> None:
    subject = bucket(10 * MIB)
    subject.share_gate(4)
    assert (subject.gate_bytes, subject.burst_bytes) == (pytest.approx(MIB / 2), pytest.approx(2.5 * MIB))
    assert subject.piece_bytes == pytest.approx(MIB / 4)
    subject.change_rate(20 * MIB, 0.0)
    assert subject.gate_bytes == pytest.approx(MIB)
    subject.share_gate(1)
    assert subject.gate_bytes == pytest.approx(2 * MIB)
