from __future__ import annotations

import gzip
import os
import zlib
from typing import TYPE_CHECKING

from proxy.journal.segments import Segment

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def readable(path: Path) -> bytes:
    """What can be had of a file, whether it is whole or not."""
    return zlib.decompressobj(31).decompress(path.read_bytes())


def test_a_closed_file_is_a_gzip_file(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    segment = Segment(path)
    segment.write(b"one\ntwo\n")
    segment.flush()
    segment.write(b"three\n")
    segment.close()
    assert gzip.decompress(path.read_bytes()) == b"one\ntwo\nthree\n"
    assert (segment.lines, segment.size_bytes) == (3, path.stat().st_size)


def test_what_was_flushed_can_be_read_whatever_happens_next(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    segment = Segment(path)
    for number in range(100):
        segment.write(f"line {number}\n".encode())
        segment.flush()
        assert readable(path).endswith(f"line {number}\n".encode())
    segment.abandon()
    assert readable(path).count(b"\n") == 100


def test_a_file_torn_anywhere_is_readable_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    segment = Segment(path)
    whole = b"".join(f"line {number}\n".encode() for number in range(50))
    for line in whole.splitlines(keepends=True):
        segment.write(line)
        segment.flush()
    segment.close()
    data = path.read_bytes()
    for end in range(20, len(data)):
        assert whole.startswith(zlib.decompressobj(31).decompress(data[:end]))


def test_a_closed_file_was_synced_when_it_was_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before its last bytes, and before anybody may rename it."""
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    segment = Segment(tmp_path / "one")
    segment.write(b"{}\n")
    segment.close()
    assert synced == [(tmp_path / "one").stat().st_size]
