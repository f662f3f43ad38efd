from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fetch_stream import FetchAnswered, FetchLink, FetchRequested

Entry = tuple[int, bytes]


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(version: int, correlation: int, *, replica: int = 102, api: int = 1, client: str = "broker-102") -> bytes:
    name = client.encode()
    head = struct.pack(f">hhih{len(name)}s", api, version, correlation, len(name), name)
    return frame(head + struct.pack(">iii", replica, 500, 1) + b"whatever follows")


def response(version: int, correlation: int, topics: dict[str, list[Entry]]) -> bytes:
    parts = [struct.pack(">i", correlation)]
    if version >= 1:
        parts.append(struct.pack(">i", 0))
    parts.append(struct.pack(">i", len(topics)))
    for topic, entries in topics.items():
        parts.append(struct.pack(f">h{len(topic)}si", len(topic), topic.encode(), len(entries)))
        for partition, records in entries:
            parts.append(struct.pack(">ihq", partition, 0, 1000))
            if version >= 4:
                parts.append(struct.pack(">q", 1000))
            if version >= 5:
                parts.append(struct.pack(">q", 0))
            if version >= 4:
                aborted = [(7, 8)] * partition
                parts.append(struct.pack(">i", len(aborted) or -1))
                parts += [struct.pack(">qq", *pair) for pair in aborted]
            parts.append(struct.pack(">i", len(records)) + records)
    return frame(b"".join(parts))


def fed(chunks: list[bytes], feed: object) -> list[object]:
    return [found for chunk in chunks for found in feed(memoryview(chunk))]  # type: ignore[operator]


def split(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("size", [1, 3, 17, 10**6])
def test_every_version_in_any_chunks(version: int, size: int) -> None:
    link = FetchLink()
    asked = fed(split(request(version, 5) + request(version, 6), size), link.request_bytes)
    assert asked == [FetchRequested(version, 5, 102), FetchRequested(version, 6, 102)]
    first = response(version, 5, {"orders": [(0, b"x" * 40), (1, b"")], "clicks": [(2, b"y")]})
    second = response(version, 6, {})
    answered = fed(split(first + second, size), link.response_bytes)
    assert answered == [
        FetchAnswered(version, 102, [("orders", 0, 40), ("clicks", 2, 1)], len(first)),
        FetchAnswered(version, 102, [], len(second)),
    ]


def test_other_apis_pass_unseen() -> None:
    link = FetchLink()
    metadata = request(1, 9, api=3)
    assert fed([metadata + request(3, 10)], link.request_bytes) == [FetchRequested(3, 10, 102)]
    other = frame(struct.pack(">i", 9) + b"metadata")
    answer = response(3, 10, {"orders": [(4, b"zz")]})
    assert fed([other + answer], link.response_bytes) == [FetchAnswered(3, 102, [("orders", 4, 2)], len(answer))]


def test_later_versions_are_reported_by_size() -> None:
    link = FetchLink()
    assert fed([request(12, 1)], link.request_bytes) == [FetchRequested(12, 1, -2)]
    answer = frame(struct.pack(">i", 1) + b"anything")
    assert fed(split(answer, 2), link.response_bytes) == [FetchAnswered(12, -2, [], len(answer))]


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_a_frame_that_lies_is_an_error(count: int) -> None:
    link = FetchLink()
    link.request_bytes(memoryview(request(3, 1)))
    lying = frame(struct.pack(">iii", 1, 0, count))
    with pytest.raises(ValueError, match="length or count"):
        link.response_bytes(memoryview(lying))


@given(st.data())
def test_chunking_changes_nothing(data: st.DataObject) -> None:
    topics = data.draw(
        st.dictionaries(
            st.text("abc.-", min_size=1, max_size=9),
            st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=60)), max_size=4),
            max_size=3,
        )
    )
    whole = b"".join(response(5, number, topics) for number in range(3))
    sizes = data.draw(st.lists(st.integers(1, 50), min_size=1))
    seen = []
    for chunks in ([whole], _chunks(whole, sizes)):
        link = FetchLink()
        for number in range(3):
            link.request_bytes(memoryview(request(5, number)))
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
