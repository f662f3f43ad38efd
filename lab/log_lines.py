"""What brokers' logs say when fetches were altered badly, and what they say anyway. Pure.

Knows no release: which noise belongs to which is in `lab.releases`. Invariant: whether a line is kept depends only on
lines before it, so the complaints about a log that grows only grow.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

BAD_LOG_LINES = re.compile(
    "invalid full fetch response|Non-monotonic update|marked as failed|Error due to|OffsetOutOfRange"
    "|Unexpected error occurred while processing data"
)
"""What a follower logs when its fetches were tampered with badly."""
RELEVANT = re.compile(f"{BAD_LOG_LINES.pattern}|has an older epoch")
"""Bad lines, and those that announce noise."""
SHRINKS = re.compile("Shrinking ISR")


class Noise(NamedTuple):
    """A kind of line that brokers log without anybody's interference.

    line: what it looks like.
    after: it is noise only if this came before it and was not followed by such a line yet; both patterns then have a
        group `place`, the partition, which must be the same.
    """

    line: re.Pattern[str]
    after: re.Pattern[str] | None = None


FENCED_BY_NEW_EPOCH = Noise(
    re.compile(r"Partition (?P<place>\S+) marked as failed"),
    after=re.compile(r"Partition (?P<place>\S+) has an older epoch \(\d+\) than the current leader"),
)
"""As a reassignment completes, the leader epoch rises, and followers hear of it one after the other."""
CREATED_BEFORE_THE_LOG = Noise(re.compile("Expected partition .* to exist, but it was missing"))
NOT_YET_KNOWN = Noise(re.compile("UNKNOWN_TOPIC_ID"))
"""Topics come and go: in KRaft, every broker hears of it in its own time."""


def complaints(lines: Iterable[str], noise: Iterable[Noise]) -> list[str]:
    """The bad lines that are not noise, in order.

    Args:
        lines: of one broker's log, from its beginning; at least the `RELEVANT` ones.
        noise: of its release.
    """
    known = tuple(noise)
    announced: set[tuple[Noise, str]] = set()
    kept = []
    for line in lines:
        for kind in known:
            if kind.after is not None and (before := kind.after.search(line)):
                announced.add((kind, before["place"]))
        if BAD_LOG_LINES.search(line) and not is_noise(line, known, announced):
            kept.append(line)
    return kept


def is_noise(line: str, noise: Iterable[Noise], announced: set[tuple[Noise, str]]) -> bool:
    """Whether the line is of a kind of noise; takes what announced it out of `announced`."""
    for kind in noise:
        found = kind.line.search(line)
        if found and kind.after is None:
            return True
        if found and (place := (kind, found["place"])) in announced:
            announced.discard(place)
            return True
    return False
