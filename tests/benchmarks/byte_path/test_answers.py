from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.byte_path.answers import batch, response
from benchmarks.byte_path.loads import BULK, REPLICA_ID, SMALL, Load, records_of, topic_of
from protocol.fetch.batches import batch_size
from protocol.fetch.request import parse_fetch_request
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS, response_layout
from protocol.wire.apis import API_FETCH, is_flexible
from protocol.wire.framing import LENGTH_PREFIX_BYTES
from protocol.wire.layout import parse_whole

WANTED = st.lists(st.tuples(st.sampled_from([10, 70_000]), st.integers(0, 50), st.integers(0, 70_000)), max_size=20)


@given(version=st.sampled_from(SUPPORTED_FETCH_VERSIONS), sizes=WANTED)
def test_an_answer_is_what_the_tables_read(version: int, sizes: list[tuple[int, int, int]]) -> None:
    wanted = [(topic_of(version, of), partition, size) for of, partition, size in sizes]
    frame = b"".join(response(version, wanted))
    assert int.from_bytes(frame[:LENGTH_PREFIX_BYTES]) == len(frame) - LENGTH_PREFIX_BYTES
    body_at = LENGTH_PREFIX_BYTES + 4 + is_flexible(API_FETCH, version)
    body = parse_whole(response_layout(version), frame[body_at:])
    found = [
        (block["topic_id" if version >= 13 else "topic"], entry.partition_index, entry.records.size_bytes)
        for block in body.responses
        for entry in block.partitions
    ]
    assert found == wanted


def test_equal_batches_are_one_object() -> None:
    records = [part for part in response(3, [("bytes-5000", n, 5000) for n in range(4)]) if len(part) == 5000]
    assert len(records) == 4
    assert len({id(part) for part in records}) == 1


@pytest.mark.parametrize("size", [61, 64, 16_384, 1_000_000])
def test_records_begin_with_a_batch_of_their_size(size: int) -> None:
    assert len(batch(size)) == size
    assert batch_size(batch(size), 0, size) == size


@pytest.mark.parametrize("version", SUPPORTED_FETCH_VERSIONS)
@pytest.mark.parametrize("load", [*BULK, SMALL], ids=lambda load: load.name)
def test_a_request_asks_for_what_its_load_says(load: Load, version: int) -> None:
    request = parse_fetch_request(dataclasses.replace(load, version=version).request()[LENGTH_PREFIX_BYTES:])
    assert request.replica_id == REPLICA_ID
    assert [entry.partition for entry in request.entries] == list(range(load.partitions))
    assert {records_of(entry.topic) for entry in request.entries} == {load.record_bytes}
    assert all(entry.partition_max_bytes >= load.record_bytes for entry in request.entries)


def test_a_topic_that_no_load_has_is_refused() -> None:
    with pytest.raises(ValueError, match="'orders': expected a name such as bytes-10000"):
        records_of("orders")
