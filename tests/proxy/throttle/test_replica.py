"""What a connection knows of a replica, and when it forgets."""

from __future__ import annotations

import math

import pytest

from admission.wishes import Wish
from protocol.fetch.batches import BATCH_HEADER_BYTES
from protocol.fetch.tables import UNKNOWN_OFFSET
from protocol.fetch.walker import RequestEntry
from proxy.throttle.replica import MIN_NEED_BYTES, Replica, Standing


def entry(offset: int, *, epoch: int = -1) -> RequestEntry:
    return RequestEntry("t", 0, epoch, offset, 1 << 20, 0, 16)


def known(*, high_watermark: int, offset: int = 100) -> Replica:
    replica = Replica(entry(offset), 0.0)
    replica.answered(high_watermark=high_watermark, log_start_offset=7)
    return replica


@pytest.mark.parametrize(
    ("high_watermark", "delivered", "next_offset", "standing"),
    [
        (100, False, 100, Standing.IN_SYNC),
        (101, False, 100, Standing.BEHIND),
        (150, True, 120, Standing.BEHIND),
        (150, True, 150, Standing.IN_SYNC),
        (150, True, 160, Standing.IN_SYNC),
        (150, False, 120, Standing.NEW),  # moved without records of ours
        (150, True, 99, Standing.TRUNCATED),
        (50, False, 99, Standing.TRUNCATED),
    ],
)
def test_standing(high_watermark: int, *, delivered: bool, next_offset: int, standing: Standing) -> None:
    replica = known(high_watermark=high_watermark)
    if delivered:
        replica.delivered(1000, 0, 0.0)
    replica.asked(entry(next_offset), returns=False)
    assert replica.standing is standing


@pytest.mark.parametrize("standing", [Standing.NEW, Standing.TRUNCATED])
def test_what_may_be_wrong_is_forgotten(standing: Standing) -> None:
    replica = known(high_watermark=150)
    replica.asked(entry(120 if standing is Standing.NEW else 99), returns=False)
    unknown = (UNKNOWN_OFFSET, UNKNOWN_OFFSET, False)
    assert (replica.high_watermark, replica.log_start_offset, replica.replayable) == unknown


@pytest.mark.parametrize(
    ("high_watermark", "before", "standing"),
    [
        (100, Standing.IN_SYNC, Standing.TRUNCATED),
        (150, Standing.BEHIND, Standing.NEW),
        (UNKNOWN_OFFSET, Standing.NEW, Standing.NEW),
    ],
)
def test_a_new_leader_epoch_makes_everything_unknown(high_watermark: int, before: Standing, standing: Standing) -> None:
    """Only one that was in sync may be in the ISR still; the others are met again, with what the budget allows."""
    replica = known(high_watermark=high_watermark)
    replica.asked(entry(100), returns=False)
    assert replica.standing is before
    replica.asked(entry(100, epoch=5), returns=False)
    assert replica.standing is standing
    assert (replica.high_watermark, replica.replayable, replica.lag) == (UNKNOWN_OFFSET, False, 0)


def test_an_epoch_after_the_other_leaves_it_truncated() -> None:
    replica = known(high_watermark=100)
    replica.asked(entry(100), returns=False)
    for epoch in (5, 6):
        replica.asked(entry(100, epoch=epoch), returns=False)
        assert replica.standing is Standing.TRUNCATED


def test_one_that_was_missing_is_replayed_only_after_the_leader_confirms_it() -> None:
    replica = known(high_watermark=150)
    assert replica.replayable
    replica.asked(entry(100), returns=True)
    assert (replica.standing, replica.replayable) == (Standing.BEHIND, False)
    replica.answered(high_watermark=160, log_start_offset=7)
    assert replica.replayable


def test_need_follows_the_largest_batch_seen() -> None:
    replica = known(high_watermark=150)
    for size in (0, 16_000, 900_000, 20_000):
        replica.saw_batch(size)
    assert replica.need_bytes == 900_000 + BATCH_HEADER_BYTES
    assert known(high_watermark=150).need_bytes == MIN_NEED_BYTES


def test_where_grants_are_scarce_one_that_brings_little_is_granted_little() -> None:
    replica = known(high_watermark=150)
    limit = replica.wish.limit_bytes
    replica.delivered(limit // 2, limit, 0.0)
    assert replica.wish.likely_bytes == math.inf  # the next batch may just not have fitted
    replica.delivered(20_000, limit, 0.0)
    assert replica.wish.likely_bytes == 32 * 1024
    replica.delivered(10_000, 32 * 1024, 0.0)
    assert replica.wish == Wish(limit, MIN_NEED_BYTES, 16 * 1024)
    replica.saw_batch(50_000)
    assert replica.wish.likely_bytes == 50_000 + BATCH_HEADER_BYTES  # less would bring nothing


def test_one_that_brings_more_again_is_granted_more() -> None:
    replica = known(high_watermark=150)
    replica.delivered(1000, 64 * 1024, 0.0)
    grants = []
    while replica.wish.likely_bytes < math.inf:
        grants.append(int(replica.wish.likely_bytes))
        replica.delivered(grants[-1], grants[-1], 0.0)
    assert grants == [2**power for power in range(14, 20)]


def test_a_grant_that_brought_nothing_was_perhaps_too_small() -> None:
    replica = known(high_watermark=150)
    replica.delivered(1000, 64 * 1024, 0.0)
    replica.unused()
    assert replica.wish.likely_bytes == math.inf


def test_in_a_session_one_that_brings_little_is_granted_more_after_four_grants_in_vain() -> None:
    """Its leader's sidecar may have left it out; or its next batch is larger, and each grant would be in vain."""
    replica = known(high_watermark=150)
    replica.delivered(20_000, 1 << 20, 0.0)
    granted = []
    for _ in range(8):
        replica.stalled(needs_more=True)
        wish = replica.wish
        granted.append(min(wish.limit_bytes, wish.likely_bytes))
    assert granted[:3] == [32 * 1024] * 3
    assert granted[3] >= 8 * MIN_NEED_BYTES
    assert granted[7] == 1 << 20


def test_what_is_replayed_is_what_was_forwarded_last() -> None:
    replica = known(high_watermark=150)
    assert replica.replay() is replica.replay()
    replica.answered(high_watermark=160, log_start_offset=8)
    assert replica.replay() == ("t", 0, 160, 8, UNKNOWN_OFFSET)
