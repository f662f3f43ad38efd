"""Entries of omitted replicas at the end of a full response's topics; the same on the wire is in test_sessions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.fetch_response import ReplayedEntry
from protocol.framing import LENGTH_PREFIX_BYTES, with_length
from proxy.relay.exchange import MAX_FRAME_BYTES
from proxy.relay.replaying import Replays, completed, encode, grown_head

from .wire import answer, entry, parsed

HIGH = 1_000_000
BESIDE = st.binary(max_size=40)


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
    found = completed(version, bytearray(before + leaders + after), frame, replays, frame[1])
    assert parsed(found[LENGTH_PREFIX_BYTES:], version=version) == [
        *parsed(leaders[LENGTH_PREFIX_BYTES:], version=version),
        *(((topic, partition), 0, HIGH, 0) for topic, partition in omitted),
    ]
    assert found == with_length(found[LENGTH_PREFIX_BYTES:])
    if not omitted:
        assert found == leaders


def test_a_frame_has_room_for_so_much_and_no_more() -> None:
    leaders, replays = with_length(answer({"t": [entry(0, b"")]})), Replays(1, bytes(1000))
    most = MAX_FRAME_BYTES - len(replays.encoded)
    head, replaced = grown_head(3, leaders, (0, len(leaders)), replays, size=most)
    assert (int.from_bytes(head[:LENGTH_PREFIX_BYTES], "big"), len(head)) == (MAX_FRAME_BYTES, replaced)
    with pytest.raises(ProtocolError, match="no room"):
        grown_head(3, leaders, (0, len(leaders)), replays, size=most + 1)


def test_a_frame_that_ends_within_its_header_has_no_count() -> None:
    leaders = with_length(answer({"t": [entry(0, b"")]}))
    with pytest.raises(ProtocolError, match="ends within its header"):
        grown_head(3, leaders, (0, 14), Replays(1, b"x"), size=10)
