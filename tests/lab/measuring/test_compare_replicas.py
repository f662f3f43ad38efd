from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from lab.errors import LabError
from lab.measuring.compare_replicas import compare, replica_log

if TYPE_CHECKING:
    from pathlib import Path


def message(offset: int, content: bytes = b"0123456789") -> bytes:
    """An old message: offset, size, crc, magic 1, the rest."""
    return struct.pack(">qiIB", offset, 5 + len(content), 7, 1) + content


def batch(base: int, count: int, content: bytes = b"") -> bytes:
    """A format v2 batch's header as far as it is looked at, and some content."""
    head = struct.pack(">iBIhi", -1, 2, 9, 0, count - 1)
    return struct.pack(">qi", base, len(head) + 34 + len(content)) + head + bytes(34) + content


def partition(root: Path, *segments: bytes) -> Path:
    directory = root / "orders-3"
    directory.mkdir(parents=True)
    for number, content in enumerate(segments):
        (directory / f"{number:020}.log").write_bytes(content)
    return root


OLD = [message(n, bytes([n]) * 20) for n in range(6)]
NEW = [batch(0, 4), batch(4, 2, b"abc"), batch(6, 1)]


@pytest.mark.parametrize(
    ("leader", "follower", "equal"),
    [
        ([b"".join(OLD)], [b"".join(OLD)], True),
        ([b"".join(OLD)], [b"".join(OLD[:2]), b"".join(OLD[2:])], True),
        ([b"".join(NEW)], [NEW[0], b"", b"".join(NEW[1:])], True),
        # The leader has deleted its oldest segment meanwhile.
        ([b"".join(OLD[2:])], [b"".join(OLD)], True),
        # Behind by one; different content; nothing at all.
        ([b"".join(OLD)], [b"".join(OLD[:5])], False),
        ([b"".join(OLD)], [b"".join([*OLD[:3], message(3, b"other" * 4), *OLD[4:]])], False),
        ([b""], [b""], False),
        # A torn last batch is not there yet.
        ([b"".join(NEW)], [b"".join(NEW)[:-1]], False),
    ],
)
def test_replicas_are_compared(tmp_path: Path, leader: list[bytes], follower: list[bytes], equal: bool) -> None:
    found = compare(
        "orders", 3, leader=partition(tmp_path / "a", *leader), follower=partition(tmp_path / "b", *follower)
    )
    assert found.equal is equal
    assert found.same_end is (found.leader.end_offset == found.follower.end_offset)


def test_end_offsets_are_those_after_the_last_record(tmp_path: Path) -> None:
    log = replica_log(partition(tmp_path, b"".join(NEW)) / "orders-3")
    assert (log.start_offset, log.end_offset, log.size_bytes) == (0, 7, sum(map(len, NEW)))


@pytest.mark.parametrize("content", [b"\0" * 40, struct.pack(">qiIB", 0, 30, 0, 9) + bytes(40)])
def test_what_is_not_a_log_is_an_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(LabError, match="not a batch"):
        replica_log(partition(tmp_path, content) / "orders-3")


def test_a_partition_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no log segments"):
        replica_log(tmp_path / "orders-3")
