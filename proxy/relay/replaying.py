"""Add the entries of omitted replicas to a full response: behind its topics, whose number and whose frame grow.

Bytes in, bytes out. Invariant: whatever the leader sent stays, in its order; only the length prefix and the count of
topics say something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ProtocolError
from protocol.fetch_response import read_topic_count, replayed_topics, topic_count_at
from protocol.framing import LENGTH_PREFIX, LENGTH_PREFIX_BYTES
from protocol.topic_blocks import count_bytes

from .exchange import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.buffers import Bytes
    from protocol.fetch_response import ReplayedEntry


class Replays(NamedTuple):
    """`encoded` are so many topics."""

    topics: int
    encoded: bytes


def encode(version: int, entries: Sequence[ReplayedEntry]) -> Replays:
    return Replays(*replayed_topics(version, entries)) if entries else Replays(0, b"")


def grown_head(
    version: int, buffer: Bytes, frame: tuple[int, int], replays: Replays, *, size: int
) -> tuple[bytes, int]:
    """What is to stand before the topics of a frame to which `replays` are added, and how many bytes that replaces.

    The frame, of `size` bytes without its length prefix, is in `buffer` from `frame[0]` on, so far to `frame[1]`.
    Raises ProtocolError if there is no count of topics, or no room in a frame.
    """
    start, end = frame
    count = read_topic_count(version, buffer, start + LENGTH_PREFIX_BYTES + topic_count_at(version), end)
    if count is None:
        raise ProtocolError("the leader's response ends within its header")
    new_count = count_bytes(version, count.topics + replays.topics)
    new_size = size + len(replays.encoded) + len(new_count) - (count.after - count.at)
    if new_size > MAX_FRAME_BYTES:
        raise ProtocolError("the leader's response leaves no room for what was omitted")
    unchanged = buffer[start + LENGTH_PREFIX_BYTES : count.at]
    return b"".join((LENGTH_PREFIX.pack(new_size), unchanged, new_count)), count.after - start


def completed(version: int, buffer: Bytes, frame: tuple[int, int], replays: Replays, topics_end: int) -> bytes:
    """The whole frame of which all is in ``buffer[frame[0]:frame[1]]``, with `replays` at `topics_end` in `buffer`.

    Raises ProtocolError as `grown_head` does.
    """
    start, end = frame
    head, replaced = grown_head(version, buffer, frame, replays, size=end - start - LENGTH_PREFIX_BYTES)
    return b"".join((head, buffer[start + replaced : topics_end], replays.encoded, buffer[topics_end:end]))
