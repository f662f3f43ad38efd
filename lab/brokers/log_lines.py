"""Lines of brokers' logs that show that fetches were altered badly, told apart from the usual noise. Pure.

Knows no release: `releases` says which noise belongs to which. Invariant: whether a line is kept depends only on
lines before it. So when a log grows, complaints are only added.
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
"""The lines that a follower logs when its fetches were tampered with badly."""
RELEVANT = re.compile(f"{BAD_LOG_LINES.pattern}|has an older epoch")
"""The bad lines, and the lines after which a bad line is noise."""
SHRINKS = re.compile("Shrinking ISR")


class Noise(NamedTuple):
    """A kind of line that brokers log without anybody's interference.

    line: what it looks like.
    after: the line is noise only if one like this came before it, for the same partition, and no line of the noise has
        followed that yet. Both patterns have a group `place`, the partition.
    """

    line: re.Pattern[str]
    after: re.Pattern[str] | None = None


FENCED_BY_NEW_EPOCH = Noise(
    re.compile(r"Partition (?P<place>\S+) marked as failed"),
    after=re.compile(r"Partition (?P<place>\S+) has an older epoch \(\d+\) than the current leader"),
)
"""The lines after the end of a reassignment: the leader epoch rises, and followers hear of it one after the other."""
CREATED_BEFORE_THE_LOG = Noise(re.compile("Expected partition .* to exist, but it was missing"))
NOT_YET_KNOWN = Noise(re.compile("UNKNOWN_TOPIC_ID"))
"""The lines after a topic was created or deleted in KRaft: each broker hears of it at its own time."""


def complaints(lines: Iterable[str], noise: Iterable[Noise]) -> list[str]:
    """Return the bad lines that are not noise, in order.

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
    """True if the line is noise.

    If an earlier line announced it, that is removed from `announced`: it counts for one line.
    """
    for kind in noise:
        found = kind.line.search(line)
        if found and kind.after is None:
            return True
        if found and (place := (kind, found["place"])) in announced:
            announced.discard(place)
            return True
    return False
