"""What a connection's answers tell of the next: how long it rests, whether it is waited for."""

from __future__ import annotations

import math

from admission.fetcher import AWAY_SECONDS, REST_SECONDS, Fetcher


def rests(fetcher: Fetcher, times: int) -> list[float]:
    """Rest so often, and return how long each time."""
    found = []
    for _ in range(times):
        fetcher.rest_longer(0.0)
        found.append(fetcher.rest_seconds(0.0))
    return found


def test_each_rest_is_twice_as_long_until_records_come() -> None:
    fetcher = Fetcher()
    assert rests(fetcher, 3) == [REST_SECONDS / 8, REST_SECONDS / 4, REST_SECONDS / 2]
    fetcher.granted(1000, 0.0)
    fetcher.brought(0, 0.0)
    assert rests(fetcher, 1) == [REST_SECONDS]
    fetcher.brought(1, 0.0)
    assert rests(fetcher, 1) == [REST_SECONDS / 8]


def test_no_rest_is_longer_than_others_wait() -> None:
    assert max(rests(Fetcher(), 20)) == AWAY_SECONDS


def test_a_grant_that_comes_late_and_little_used_bounds_the_next() -> None:
    fetcher = Fetcher()
    fetcher.granted(1000, 0.0)
    fetcher.brought(10, 60.0)
    assert 10 <= fetcher.max_grant_bytes < 1000
    fetcher.granted(10, 60.0)
    fetcher.brought(10, 60.0)
    assert fetcher.max_grant_bytes == math.inf


def test_a_connection_that_uses_little_of_its_grants_and_is_away_is_not_waited_for() -> None:
    fetcher = Fetcher()
    for now in (0.0, 60.0, 120.0):
        fetcher.ask(now)
        assert fetcher.is_waited_for
        fetcher.granted(1000, now)
        fetcher.brought(10, now + 50.0)
    fetcher.ask(180.0)
    fetcher.granted(1000, 180.0)
    assert not fetcher.is_waited_for
    fetcher.wait(181.0)
    assert fetcher.is_waited_for
