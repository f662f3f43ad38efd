"""The victim's frames: what its follower asks for is what its leader expects, and it is always in sync."""

from __future__ import annotations

import pytest

from fuzz.cases import known_frames
from fuzz.stage.victim import asked_wrongly
from protocol.fetch.request import parse_fetch_request
from protocol.fetch.tables import response_layout
from protocol.fetch.walker import response_walker, walk_whole
from protocol.wire.headers import FLEXIBLE_RESPONSE_HEADER, peek_response

VERSIONS = (3, 4, 5, 6, 11, 12)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_leader_accepts_what_the_follower_asks(version: int) -> None:
    assert [asked_wrongly(known_frames.request(version, id_)[4:], version) for id_ in range(1, 20)] == [
        ("", id_) for id_ in range(1, 20)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_another_offset_or_another_head_is_noticed(version: int) -> None:
    frame = known_frames.request(version, 7)[4:]
    offset = known_frames.fetch_offset(0, 7).to_bytes(8)
    assert "was asked for" in asked_wrongly(frame.replace(offset, bytes(8), 1), version)[0]
    assert asked_wrongly(frame, version + 1)[0]
    assert "another's head" in asked_wrongly(frame.replace(b"victim-", b"hostile", 1), version)[0]
    assert "no Fetch" in asked_wrongly(frame[:-1], version)[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_follower_is_in_sync_and_gets_one_batch_each_time(version: int) -> None:
    high_watermarks = dict.fromkeys(range(known_frames.PARTITIONS), 0)
    for id_ in range(1, 30):
        asked = {
            e.partition: e.fetch_offset for e in parse_fetch_request(known_frames.request(version, id_)[4:]).entries
        }
        assert all(asked[partition] >= high for partition, high in high_watermarks.items())
        frame = known_frames.answer(version, id_)[4:]
        head = peek_response(frame, 0, len(frame), FLEXIBLE_RESPONSE_HEADER if version >= 12 else 0)
        assert head is not None
        rows, _ = walk_whole(response_walker(version), frame, head.body_at, len(frame))
        assert [row.partition for row in rows if row.records_size] == [(id_ - 1) % known_frames.PARTITIONS]
        high_watermarks = {row.partition: row.high_watermark for row in rows}
        assert response_layout(version).parse(frame[head.body_at :]).throttle_time_ms == 0
