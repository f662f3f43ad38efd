"""Logs in memory: whole messages, in order, as Kafka's read path cuts them."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.embedded.log import PartitionLog, message

SIZE = len(message(0, 100))


def filled(count: int) -> PartitionLog:
    log = PartitionLog(value_bytes=100)
    log.produce(count)
    return log


def test_a_message_is_of_format_v1() -> None:
    offset, length, crc = struct.unpack_from(">qiI", message(7, 100))
    assert (offset, length) == (7, len(message(7, 100)) - 12)
    assert crc == zlib.crc32(message(7, 100)[16:])
    assert message(7, 100)[16] == 1  # magic


def test_messages_differ() -> None:
    assert len({message(offset, 100) for offset in range(50)}) == 50


@given(st.integers(0, 12), st.integers(0, 20 * SIZE))
def test_reads_are_whole_messages_within_the_limit(offset: int, limit: int) -> None:
    log = filled(10)
    records = log.read(offset, limit, at_least_one=False)
    assert len(records) == min(limit // SIZE, max(10 - offset, 0)) * SIZE
    if records:
        assert struct.unpack_from(">q", records)[0] == offset


def test_at_least_one_message_comes_whole() -> None:
    assert len(filled(10).read(3, 1, at_least_one=True)) == SIZE
    assert filled(10).read(3, 1, at_least_one=False) == b""
    assert filled(10).read(10, 1, at_least_one=True) == b""


def test_what_is_appended_makes_both_ends_equal() -> None:
    leader, follower = filled(10), PartitionLog(value_bytes=100)
    follower.append(leader.read(0, 4 * SIZE, at_least_one=False))
    assert follower.log_end_offset == 4
    assert follower.digest() != leader.digest()
    follower.append(leader.read(4, 100 * SIZE, at_least_one=False))
    assert follower.digest() == leader.digest()


@pytest.mark.parametrize("offset", [0, 3, 5])
def test_what_does_not_continue_the_log_is_refused(offset: int) -> None:
    follower = filled(4)
    with pytest.raises(ValueError, match=f"offset {offset}, expected 4"):
        follower.append(filled(9).read(offset, SIZE, at_least_one=False))


def test_half_a_message_is_refused() -> None:
    with pytest.raises(ValueError, match="not whole messages"):
        filled(4).append(message(4, 100)[:-1])
