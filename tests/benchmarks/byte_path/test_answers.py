from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.byte_path.answers import batch, response
from benchmarks.byte_path.loads import BULK, SMALL, records_of
from protocol.fetch import response_layout
from protocol.fetch_request import parse_fetch_request
from protocol.fetch_response import first_batch_size
from protocol.framing import LENGTH_PREFIX_BYTES
from protocol.layout import parse_whole

WANTED = st.lists(
    st.tuples(st.sampled_from(["bytes-10", "bytes-70000"]), st.integers(0, 50), st.integers(0, 70_000)), max_size=20
)


@given(version=st.integers(0, 6), wanted=WANTED)
def test_an_answer_is_what_the_tables_read(version: int, wanted: list[tuple[str, int, int]]) -> None:
    frame = b"".join(response(version, wanted))
    assert int.from_bytes(frame[:LENGTH_PREFIX_BYTES]) == len(frame) - LENGTH_PREFIX_BYTES
    body = parse_whole(response_layout(version), frame[LENGTH_PREFIX_BYTES + 4 :])
    found = [
        (block.topic, entry.partition_index, entry.records.size_bytes)
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
    assert first_batch_size(batch(size), 0, size) == size


@pytest.mark.parametrize("load", [*BULK, SMALL], ids=lambda load: load.name)
def test_a_request_asks_for_what_its_load_says(load) -> None:
    request = parse_fetch_request(load.request()[LENGTH_PREFIX_BYTES:])
    assert [entry.partition for entry in request.entries] == list(range(load.partitions))
    assert {records_of(entry.topic) for entry in request.entries} == {load.record_bytes}
    assert all(entry.partition_max_bytes >= load.record_bytes for entry in request.entries)


def test_a_topic_that_no_load_has_is_refused() -> None:
    with pytest.raises(ValueError, match="'orders': expected a name such as bytes-10000"):
        records_of("orders")
