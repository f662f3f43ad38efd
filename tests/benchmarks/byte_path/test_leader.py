"""The benchmark's leader gives what a broker would, within the limits of a request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.byte_path.leader import answer_to
from benchmarks.byte_path.loads import BULK
from protocol.fetch.request import parse_fetch_request
from protocol.fetch.tables import response_layout
from protocol.wire.framing import LENGTH_PREFIX_BYTES
from protocol.wire.layout import parse_whole

LOAD = BULK[2]
WHOLE = LOAD.record_bytes


def sizes(limits: list[int], max_bytes: int = 2**31 - 1) -> tuple[list[int], float]:
    """Of the records of the first partitions, asked for with these limits; and how long the leader waits first."""
    asked = parse_fetch_request(LOAD.request()[LENGTH_PREFIX_BYTES:])
    entries = [entry._replace(partition_max_bytes=most) for entry, most in zip(asked.entries, limits, strict=False)]
    answer = answer_to(replace(asked, entries=entries, max_bytes=max_bytes))
    frame = answer.start + b"".join(answer.parts)
    body = parse_whole(response_layout(LOAD.version), frame[LENGTH_PREFIX_BYTES + 4 :])
    return [entry.records.size_bytes for block in body.responses for entry in block.partitions], answer.wait_seconds


@pytest.mark.parametrize(
    ("limits", "max_bytes", "found"),
    [
        ([WHOLE, 5000, WHOLE], 10**9, [WHOLE, 5000, WHOLE]),
        ([1, 1, 1], 10**9, [WHOLE, 0, 0]),
        ([WHOLE, 1, 1], 10**9, [WHOLE, 0, 0]),
        ([1, 1, WHOLE], 10**9, [WHOLE, 0, WHOLE]),
        ([WHOLE, WHOLE, WHOLE], 1, [WHOLE, 0, 0]),
        ([WHOLE, WHOLE, WHOLE], WHOLE + 5000, [WHOLE, 5000, 0]),
    ],
)
def test_of_limits_that_no_batch_fits_the_first_alone_is_exceeded(
    limits: list[int], max_bytes: int, found: list[int]
) -> None:
    assert sizes(limits, max_bytes) == (found, 0.0)


def test_who_asks_for_nothing_waits() -> None:
    assert sizes([])[1] > 0
