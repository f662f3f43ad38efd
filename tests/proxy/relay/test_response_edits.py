"""Edits of a response, at once and piece by piece; the same on the wire is in test_sessions and test_gather."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.fetch.response import ReplayedEntry
from protocol.wire.framing import LENGTH_PREFIX_BYTES, with_length
from proxy.relay.in_flight import MAX_FRAME_BYTES
from proxy.relay.response_edits import NO_REPLAYS, Additions, Edit, Replays, applied, edit_of_head, encode

from .wire import answer, entry, parsed

if TYPE_CHECKING:
    from proxy.throttle.pending_fetch import PendingFetch

HIGH = 1_000_000
BESIDE = st.binary(max_size=40)


def completed(version: int, buffer: bytes, frame: tuple[int, int], replays: Replays) -> bytes:
    size = frame[1] - frame[0]
    grown = edit_of_head(
        version, buffer, frame, size=size - LENGTH_PREFIX_BYTES + len(replays.encoded), topics=replays.topics
    )
    return applied(memoryview(buffer), frame[0], (0, size), [grown, Edit(size, 0, replays.encoded)])[0]


@given(
    version=st.integers(0, 6),
    omitted=st.lists(st.tuples(st.sampled_from("tuv"), st.integers(10, 20)), max_size=8),
    size=st.integers(0, 200),
    before=BESIDE,
    after=BESIDE,
)
def test_the_leaders_entries_and_then_the_omitted_ones_wherever_the_frame_lies(
    version: int, omitted: list[tuple[str, int]], size: int, before: bytes, after: bytes
) -> None:
    aborted = [(5, 6)] if version >= 4 else None
    entries = [entry(0, bytes(size), high_watermark=7, aborted=aborted), entry(1, b"", error=6, high_watermark=-1)]
    leaders = with_length(answer({"t": entries}, version=version))
    frame = len(before), len(before) + len(leaders)
    replays = encode(version, [ReplayedEntry(topic, partition, HIGH, 3) for topic, partition in omitted])
    found = completed(version, before + leaders + after, frame, replays)
    assert parsed(found[LENGTH_PREFIX_BYTES:], version=version) == [
        *parsed(leaders[LENGTH_PREFIX_BYTES:], version=version),
        *(((topic, partition), 0, HIGH, 0) for topic, partition in omitted),
    ]
    assert found == with_length(found[LENGTH_PREFIX_BYTES:])
    if not omitted:
        assert found == leaders


def test_a_frame_has_room_for_so_much_and_no_more() -> None:
    leaders = with_length(answer({"t": [entry(0, b"")]}))
    grown = edit_of_head(3, leaders, (0, len(leaders)), size=MAX_FRAME_BYTES, topics=1)
    assert (grown.at, grown.remove, int.from_bytes(grown.insert[:LENGTH_PREFIX_BYTES], "big")) == (
        0,
        len(grown.insert),
        MAX_FRAME_BYTES,
    )
    with pytest.raises(ProtocolError, match="no room"):
        edit_of_head(3, leaders, (0, len(leaders)), size=MAX_FRAME_BYTES + 1, topics=1)


def test_a_frame_that_ends_within_its_header_has_no_count() -> None:
    leaders = with_length(answer({"t": [entry(0, b"")]}))
    with pytest.raises(ProtocolError, match="ends within its header"):
        edit_of_head(3, leaders, (0, 14), size=10, topics=1)


@given(
    data=st.binary(min_size=1, max_size=60),
    places=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9), st.binary(max_size=5)), max_size=6),
    cuts=st.lists(st.integers(0, 60), max_size=5),
)
def test_edits_in_pieces_are_the_edits_at_once(
    data: bytes, places: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    """Each piece has the edits that begin in it; what one removes beyond it is left out of the next."""
    edits, at = list[Edit](), 0
    for place, remove, insert in sorted(places):
        if at <= place < len(data):
            edits.append(Edit(place, min(remove, len(data) - place), insert))
            at = place + remove + 1
    whole, _ = applied(memoryview(data), 0, (0, len(data)), edits)
    ends = [*sorted({cut for cut in cuts if 0 < cut < len(data)}), len(data)]
    found, start, kept_to = b"", 0, 0
    for end in ends:
        here = [edit for edit in edits if start <= edit.at < end]
        piece, reached = applied(memoryview(data), 0, (max(start, kept_to), end), here)
        found, start, kept_to = found + piece, end, max(reached, end)
    assert found == whole


def pending(*replays: ReplayedEntry) -> PendingFetch:
    return cast("PendingFetch", SimpleNamespace(version=3, replays=replays, encoded_replays=None))


def test_nothing_is_left_of_the_answer_before() -> None:
    """An answer whose records are taken away is put together with the number of topics that are added."""
    subject = Additions()
    subject.begin(pending(ReplayedEntry("t", 0, 10, 0)), 100)
    assert subject.owed
    assert (subject.replays.topics, len(subject.replays.encoded) > 0) == (1, True)
    subject.begin(pending(), 100)
    assert not subject.owed
    assert (subject.replays.topics, subject.replays.encoded) == (NO_REPLAYS.topics, NO_REPLAYS.encoded)
