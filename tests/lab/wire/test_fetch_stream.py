from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.wire.fetch_frames import Session
from lab.wire.fetch_stream import FetchAnswered, FetchLink, FetchRequested
from lab.wire.identifiers import kafka_uuid

from ..fetch_bytes import frame, request, response, topic_id


def fed(chunks: list[bytes], feed: object) -> list[object]:
    return [found for chunk in chunks for found in feed(memoryview(chunk))]


def split(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def named(version: int, topic: str) -> str:
    return topic if version < 13 else kafka_uuid(topic_id(topic))


@pytest.mark.parametrize("version", range(19))
@pytest.mark.parametrize("size", [1, 3, 17, 10**6])
def test_every_version_in_any_chunks(version: int, size: int) -> None:
    link = FetchLink()
    asked = fed(split(request(version, 5) + request(version, 6), size), link.request_bytes)
    size = len(request(version, 5))
    assert asked == [FetchRequested(version, 5, 102, size), FetchRequested(version, 6, 102, size)]
    first = response(version, 5, {"orders": [(0, b"x" * 40), (1, b"")], "clicks": [(2, b"y")]})
    second = response(version, 6, {})
    answered = fed(split(first + second, size), link.response_bytes)
    session = Session(70, 7) if version >= 7 else Session(0, 0)
    carried = [(named(version, "orders"), 0, 40), (named(version, "clicks"), 2, 1)]
    assert answered == [
        FetchAnswered(version, 102, carried, len(first), session),
        FetchAnswered(version, 102, [], len(second), session),
    ]


def test_other_apis_pass_unseen() -> None:
    link = FetchLink()
    metadata = request(1, 9, api=3)
    fetch = request(3, 10)
    assert fed([metadata + fetch], link.request_bytes) == [FetchRequested(3, 10, 102, len(fetch))]
    other = frame(struct.pack(">i", 9) + b"metadata")
    answer = response(3, 10, {"orders": [(4, b"zz")]})
    assert fed([other + answer], link.response_bytes) == [FetchAnswered(3, 102, [("orders", 4, 2)], len(answer))]


def test_later_versions_are_reported_by_size() -> None:
    link = FetchLink()
    later = request(19, 1)
    assert fed([later], link.request_bytes) == [FetchRequested(19, 1, -2, len(later))]
    answer = frame(struct.pack(">i", 1) + b"anything")
    assert fed(split(answer, 2), link.response_bytes) == [FetchAnswered(19, -2, [], len(answer))]


@pytest.mark.parametrize("version", range(19))
def test_consumers_are_told_from_followers(version: int) -> None:
    asked = fed([request(version, 1, replica=-1) + request(version, 2)], FetchLink().request_bytes)
    assert [(each.correlation_id, each.replica_id) for each in asked] == [(1, -1), (2, 102)]


def test_many_partitions_need_longer_counts() -> None:
    topics = {"t" * 200: [(number % 3, b"r" * 300) for number in range(400)]}
    link = FetchLink()
    asked = request(17, 1, topics=topics)
    assert fed([asked], link.request_bytes) == [FetchRequested(17, 1, 102, len(asked))]
    (answered,) = fed(split(response(17, 1, topics), 1000), link.response_bytes)
    assert isinstance(answered, FetchAnswered)
    assert [size for _, _, size in answered.partitions] == [300] * 400


@pytest.mark.parametrize("version", [15, 18])
def test_a_request_that_ends_too_early_is_an_error(version: int) -> None:
    whole = request(version, 1)
    for cut in (10, 15, 60, 100):
        with pytest.raises(ValueError, match=r"ends too early|five bytes"):
            FetchLink().request_bytes(memoryview(frame(whole[4:-cut])))


def test_a_length_that_is_too_long_is_an_error() -> None:
    link = FetchLink()
    link.request_bytes(memoryview(request(12, 1)))
    with pytest.raises(ValueError, match="five bytes"):
        link.response_bytes(memoryview(frame(struct.pack(">i", 1) + b"\xff" * 6)))


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_a_frame_that_lies_is_an_error(count: int) -> None:
    link = FetchLink()
    link.request_bytes(memoryview(request(3, 1)))
    lying = frame(struct.pack(">iii", 1, 0, count))
    with pytest.raises(ValueError, match="length or count"):
        link.response_bytes(memoryview(lying))


@given(st.data(), st.integers(0, 18))
def test_chunking_changes_nothing(data: st.DataObject, version: int) -> None:
    topics = data.draw(
        st.dictionaries(
            st.text("abc.-", min_size=1, max_size=9),
            st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=60)), max_size=4),
            max_size=3,
        )
    )
    whole = b"".join(response(version, number, topics) for number in range(3))
    sizes = data.draw(st.lists(st.integers(1, 50), min_size=1))
    seen = []
    for chunks in ([whole], _chunks(whole, sizes)):
        link = FetchLink()
        for number in range(3):
            link.request_bytes(memoryview(request(version, number)))
        seen.append(fed(chunks, link.response_bytes))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 3


def _chunks(whole: bytes, sizes: list[int]) -> list[bytes]:
    chunks, at, turn = [], 0, 0
    while at < len(whole):
        size = sizes[turn % len(sizes)]
        chunks.append(whole[at : at + size])
        at += size
        turn += 1
    return chunks
