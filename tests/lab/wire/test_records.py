from __future__ import annotations

import gzip
import struct
import zlib

import pytest

from lab.cluster.kafka_python import MemoryRecords
from lab.wire.records import RecordMaker, Shape, crc32c_state, varint


def decoded(data: bytes) -> list[tuple[int, bytes]]:
    """(offset, value) of every record, read by a client of others' making; checksums are verified."""
    records = MemoryRecords(data)
    found = []
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        found += [(record.offset, record.value) for record in batch]
    return found


@pytest.mark.parametrize(
    "shape",
    [
        Shape(),
        Shape(record_bytes=8, batch_records=1),
        Shape(record_bytes=700, batch_records=40, compressed=True),
        Shape(message_format="v2"),
        Shape(record_bytes=5000, batch_records=3, message_format="v2"),
    ],
)
def test_other_clients_can_read_it(shape: Shape) -> None:
    maker = RecordMaker(shape, timestamp_ms=1_700_000_000_000)
    first, second = decoded(maker.batch()), decoded(maker.batch())
    assert [offset for offset, _ in first] == list(range(shape.batch_records))
    assert {len(value) for _, value in first + second} == {shape.record_bytes}
    assert first[-1][1] != second[-1][1]


def test_records_of_the_old_format_are_all_distinct() -> None:
    maker = RecordMaker(Shape(batch_records=50))
    values = [value for _ in range(4) for _, value in decoded(maker.batch())]
    assert len(set(values)) == 200


def test_the_same_seed_makes_the_same_bytes() -> None:
    makers = [RecordMaker(Shape(), seed=seed, timestamp_ms=1) for seed in (3, 3, 4)]
    same, again, other = (maker.batch() for maker in makers)
    assert same == again != other


def test_a_wrapper_is_one_message_with_the_last_offset() -> None:
    data = RecordMaker(Shape(batch_records=5, compressed=True), timestamp_ms=1).batch()
    offset, size, crc = struct.unpack_from(">qiI", data)
    assert (offset, size) == (4, len(data) - 12)
    assert crc == zlib.crc32(data[16:])
    assert len(gzip.decompress(data[34:])) == 5 * 1034


def test_content_cannot_be_compressed() -> None:
    data = RecordMaker(Shape(batch_records=100)).batch()
    assert len(zlib.compress(data)) > 0.95 * len(data)


def test_a_shape_in_another_format_holds_the_same_records() -> None:
    wrapped = Shape(record_bytes=700, batch_records=40, compressed=True)
    assert wrapped.stored_as("v1") is wrapped
    assert wrapped.stored_as("v2") == Shape(record_bytes=700, batch_records=40, message_format="v2")


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (1000, "d00f")]
)
def test_varint(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


def test_crc32c_of_the_published_check_value() -> None:
    # RFC 3720 appendix B.4 and every catalogue of checksums: "123456789" -> e3069283.
    assert ~crc32c_state(b"123456789", 0xFFFFFFFF) & 0xFFFFFFFF == 0xE3069283


@pytest.mark.parametrize(
    "wrong",
    [{"record_bytes": 7}, {"batch_records": 0}, {"message_format": "v2", "compressed": True}],
)
def test_impossible_shapes_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"records|wrapper"):
        Shape(**wrong)
