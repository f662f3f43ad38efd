"""Blocks of topics, held to what the tables of Fetch build."""

from __future__ import annotations

import itertools

import pytest

from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS, request_layout
from protocol.fetch.topic_blocks import TopicBlocks, count_bytes
from protocol.wire.layout import TAGS, member


@pytest.mark.parametrize("version", [version for version in SUPPORTED_FETCH_VERSIONS if version >= 7])
@pytest.mark.parametrize("many", [0, 1, 3, 126, 127, 200])
def test_forgotten_topics_are_as_construct_builds_them(version: int, many: int) -> None:
    names = [("t" * 130 if version < 13 else bytes(16)), ("ü" if version < 13 else bytes(range(16)))]
    keys = [(names[number % 2], number) for number in range(many)]
    written = TopicBlocks(version)
    written.add(keys, topic=lambda key: key[0], encode=lambda key: [key[1].to_bytes(4)])
    blocks, pieces = written.end()
    field = "topic" if version < 13 else "topic_id"
    expected = [
        {field: topic, "partitions": [number for _, number in group], TAGS: []}
        for topic, group in itertools.groupby(keys, key=lambda key: key[0])
    ]
    built = member(request_layout(version), "forgotten_topics_data").build(expected)
    assert count_bytes(version, blocks) + b"".join(pieces) == built
    assert blocks == len(expected)


def test_tagged_fields_of_a_topic_come_with_each_of_its_blocks() -> None:
    keys = ["a", "b", "a"]
    written = TopicBlocks(12, {"a": b"\1\7\0"})
    written.add(keys, topic=str, encode=lambda _: [b"!"])
    blocks, pieces = written.end()
    assert (blocks, b"".join(pieces)) == (3, b"\2a\2!\1\7\0" + b"\2b\2!\0" + b"\2a\2!\1\7\0")


def test_entries_of_one_topic_that_are_added_one_after_the_other_share_its_block() -> None:
    blocks = TopicBlocks(3)
    for part in ("aa", "a", "b"):
        blocks.add(part, topic=str, encode=lambda _: [b"!"])
    count, pieces = blocks.end()
    assert (count, b"".join(pieces)) == (2, b"\0\1a\0\0\0\3!!!" + b"\0\1b\0\0\0\1!")
