"""What a connection's answers tell of the next: how much is expected of it, and how much it is granted."""

from __future__ import annotations

import math

import pytest

from admission.fetcher import AWAY_SECONDS, MAX_FETCH_SECONDS, MAX_GRANT_GROWTH, REST_SECONDS, Fetcher
from admission.token_bucket import MIN_GATE_BYTES


def granted(fetcher: Fetcher, size: int, brought: int, *, at: float, seconds: float) -> None:
    fetcher.ask(at)
    fetcher.granted(size, at)
    fetcher.brought(size, brought, at + seconds)


def test_of_answers_that_bring_nothing_less_and_less_is_expected_until_records_come() -> None:
    fetcher = Fetcher()
    granted(fetcher, 1000, 800, at=0.0, seconds=0.01)
    assert (fetcher.expected_bytes, fetcher.max_grant_bytes, fetcher.is_trusted) == (math.inf, math.inf, True)
    for at, expected in ((1.0, 400), (2.0, 200), (3.0, 100)):
        granted(fetcher, 1000, 0, at=at, seconds=0.01)
        assert fetcher.expected_bytes == fetcher.max_credit == expected
        assert fetcher.max_grant_bytes == MIN_GATE_BYTES
        assert not fetcher.is_trusted
    granted(fetcher, 1000, 500, at=4.0, seconds=0.01)
    assert (fetcher.expected_bytes, fetcher.max_grant_bytes, fetcher.is_trusted) == (math.inf, math.inf, True)


def test_one_that_never_brought_anything_is_expected_to_bring_nothing() -> None:
    fetcher = Fetcher()
    granted(fetcher, 1000, 0, at=0.0, seconds=0.01)
    assert fetcher.expected_bytes == fetcher.max_credit == 0


def test_after_a_late_answer_the_next_grant_is_bounded_by_what_answers_bring() -> None:
    fetcher = Fetcher()
    granted(fetcher, 10**7, 10**6, at=0.0, seconds=60.0)
    assert fetcher.max_grant_bytes == MAX_GRANT_GROWTH * 10**6
    assert fetcher.expected_bytes == 10**6
    assert not fetcher.is_trusted
    granted(fetcher, 10**6, 10**6, at=61.0, seconds=0.01)
    assert fetcher.max_grant_bytes == math.inf


def test_an_answer_in_parts_counts_once() -> None:
    fetcher = Fetcher()
    fetcher.granted(1000, 0.0)
    fetcher.brought(500, 500, 0.01)
    fetcher.brought(500, 0, 0.02)
    assert fetcher.expected_bytes == math.inf


def test_who_wished_for_little_can_use_more_as_soon_as_it_wishes_for_more() -> None:
    """A sidecar at the other end asks for a byte of each now and then: the connection had no part of more after it."""
    fetcher = Fetcher()
    fetcher.ask(0.0, 3)
    fetcher.granted(3, 0.0, has_all=True)
    fetcher.brought(3, 3, 0.01)
    assert fetcher.max_credit == 3
    fetcher.ask(1.0, 2)
    assert fetcher.max_credit == 3
    fetcher.ask(1.0, 1000)
    assert fetcher.max_credit == 1000


@pytest.mark.parametrize(
    ("brought", "seconds", "most"),
    [
        (10**6, 0.2, math.inf),
        (10**6, MAX_FETCH_SECONDS, 10**6),
        (10**6, 2.0, 10**6 / 4),
        (10**3, 2.0, MIN_GATE_BYTES),
        (0, 2.0, math.inf),
    ],
)
def test_over_a_slow_line_a_grant_is_what_comes_in_half_a_second(brought: int, seconds: float, most: float) -> None:
    fetcher = Fetcher()
    granted(fetcher, 10**6, brought, at=1.0, seconds=0.01)
    fetcher.ask(1.0 + seconds)
    assert fetcher.line_bytes == pytest.approx(most)


@pytest.mark.parametrize(
    ("far_seconds", "line", "least", "most"),
    [
        (0.02, 480e3, 0.2e6, 0.26e6),  # a slow line: what it brings in half a second
        (0.6, math.inf, 1e6, 1e6),  # another continent
        (1.2, math.inf, 1e6, 1e6),
        (5.0, math.inf, 1e6, 1e6),  # a follower that rests
        (0.1, 10e6, 1e6, 1e6),
    ],
)
def test_what_is_far_and_not_slow_is_granted_as_much_as_before(
    far_seconds: float, line: float, least: float, most: float
) -> None:
    fetcher, now, sizes = Fetcher(), 0.0, []
    for _ in range(30):
        fetcher.ask(now)
        sizes.append(min(1e6, fetcher.line_bytes))
        fetcher.granted(sizes[-1], now)
        fetcher.brought(sizes[-1], sizes[-1], now + 0.01)
        now += far_seconds + sizes[-1] / line
    assert least <= min(sizes[5:]) <= max(sizes[5:]) <= most


def test_one_rests_for_a_moment_and_is_forgotten_after_a_while() -> None:
    fetcher = Fetcher()
    fetcher.ask(1.0)
    fetcher.rest(1.0)
    assert fetcher.rest_seconds(1.0) == fetcher.return_seconds(1.0) == pytest.approx(REST_SECONDS)
    assert fetcher.is_expected(1.0 + AWAY_SECONDS)
    assert not fetcher.is_expected(1.1 + AWAY_SECONDS)
