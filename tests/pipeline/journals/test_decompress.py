"""What a journal file's bytes are, told without Spark."""

from __future__ import annotations

import gzip
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.journals import decompress
from pipeline.journals.decompress import FileEnd, Inflated, lines

NOISE = random.Random(73).randbytes(3000).hex()
TEXT = "".join(f"{n} {NOISE[n : n + 40]}\n" for n in range(2000))
CONTENT = gzip.compress(TEXT.encode())
FLIPPED = bytes(byte ^ (0x10 if at == len(CONTENT) // 2 else 0) for at, byte in enumerate(CONTENT))


@pytest.mark.parametrize(
    ("content", "end"),
    [
        (CONTENT, FileEnd.WHOLE),
        (CONTENT + gzip.compress(b"one more member\n"), FileEnd.WHOLE),
        (CONTENT[: len(CONTENT) // 2], FileEnd.CUT),
        (CONTENT[:-1], FileEnd.CUT),
        (CONTENT[:1], FileEnd.CUT),
        (b"", FileEnd.CUT),
        (FLIPPED, FileEnd.ALTERED),
        (CONTENT[:-8] + bytes(8), FileEnd.ALTERED),
        (CONTENT + b"and something else", FileEnd.ALTERED),
        (b"this is not gzip", FileEnd.FOREIGN),
    ],
    ids=["whole", "two members", "half", "all but a byte", "a byte", "empty", "a bit", "checksum", "trailer", "text"],
)
def test_how_it_ends(content: bytes, end: FileEnd) -> None:
    *_, found = lines(content)
    assert isinstance(found, Inflated)
    assert found.end is end
    assert bool(found.why) == (end is not FileEnd.WHOLE)


@given(st.integers(0, len(CONTENT)))
def test_of_what_is_cut_off_every_whole_line_is_there_and_no_other(length: int) -> None:
    *found, _ = lines(CONTENT[:length])
    assert found == TEXT.splitlines()[: len(found)]
    assert length < len(CONTENT) or len(found) == 2000


def test_the_last_line_needs_no_line_feed_and_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "_PIECE_BYTES", 7)
    assert list(lines(gzip.compress(b"one\r\ntwo") + gzip.compress(b" and more\nthree"))) == [
        "one", "two and more", "three", (FileEnd.WHOLE, "")
    ]  # fmt: skip


def test_a_line_without_an_end_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "MAX_LINE_BYTES", 1000)
    assert list(lines(gzip.compress(bytes(10_000_000)))) == [
        Inflated(FileEnd.ALTERED, "a line has more than 1000 bytes")
    ]
