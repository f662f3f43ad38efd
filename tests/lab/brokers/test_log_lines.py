from __future__ import annotations

import pytest

from lab.brokers.log_lines import CREATED_BEFORE_THE_LOG, FENCED_BY_NEW_EPOCH, NOT_YET_KNOWN, RELEVANT, complaints

NOISE = (FENCED_BY_NEW_EPOCH, CREATED_BEFORE_THE_LOG, NOT_YET_KNOWN)
# As brokers 3.9.1 of protocol 2.4 write them.
OLDER_EPOCH = (
    "[x] INFO [ReplicaFetcher replicaId=102, leaderId=101, fetcherId=0] Partition move-1-{} has an older epoch (1) "
    "than the current leader. Will await the new LeaderAndIsr state before resuming fetching. (kafka.server.X)"
)
FAILED = "[x] WARN [ReplicaFetcher replicaId=102, leaderId=101, fetcherId=0] Partition move-1-{} marked as failed (k)"
UNEXPECTED = "[x] ERROR Unexpected error occurred while processing data for partition move-1-3 at offset 7"


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([], []),
        (["[x] INFO all is well"], []),
        ([OLDER_EPOCH.format(3), FAILED.format(3)], []),
        ([OLDER_EPOCH.format(3), OLDER_EPOCH.format(4), FAILED.format(4), FAILED.format(3)], []),
        # Nothing announced it, or something else did, or it was used up.
        ([FAILED.format(3)], [FAILED.format(3)]),
        ([OLDER_EPOCH.format(4), FAILED.format(3)], [FAILED.format(3)]),
        ([OLDER_EPOCH.format(3), FAILED.format(3), FAILED.format(3)], [FAILED.format(3)]),
        ([FAILED.format(3), OLDER_EPOCH.format(3)], [FAILED.format(3)]),
        ([UNEXPECTED, FAILED.format(3)], [UNEXPECTED, FAILED.format(3)]),
        (["[x] WARN Non-monotonic update of high watermark"], ["[x] WARN Non-monotonic update of high watermark"]),
        (["[x] WARN Error due to UNKNOWN_TOPIC_ID"], []),
    ],
)
def test_only_what_is_not_noise_is_kept(lines: list[str], kept: list[str]) -> None:
    assert complaints(lines, NOISE) == kept


def test_without_noise_every_bad_line_counts() -> None:
    lines = [OLDER_EPOCH.format(3), FAILED.format(3)]
    assert complaints(lines, ()) == [FAILED.format(3)]


def test_a_longer_log_never_has_fewer_complaints() -> None:
    lines = [FAILED.format(1), OLDER_EPOCH.format(2), FAILED.format(2), OLDER_EPOCH.format(1), UNEXPECTED]
    counts = [len(complaints(lines[:end], NOISE)) for end in range(len(lines) + 1)]
    assert counts == sorted(counts)


def test_what_announces_noise_is_relevant() -> None:
    assert RELEVANT.search(OLDER_EPOCH)
