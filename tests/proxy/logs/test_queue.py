from __future__ import annotations

import io
import os
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from proxy.logs.queue import Dropped, LogQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

PIPE_BYTES = 65_536


class Broken(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


@pytest.fixture
def pipe() -> Iterator[tuple[io.TextIOWrapper, int]]:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        yield stream, reader


def test_lines_come_out_in_their_order_and_finish_waits_for_them() -> None:
    stream = io.StringIO()
    queue = LogQueue(stream)
    for number in range(1000):
        queue.write(f"{number}\n")
    assert queue.finish()
    assert stream.getvalue().splitlines() == [str(number) for number in range(1000)]
    assert not queue.dropped


def test_a_pipe_that_nobody_reads_holds_nobody_up(pipe: tuple[io.TextIOWrapper, int]) -> None:
    stream, reader = pipe
    queue = LogQueue(stream, most_lines=100, tell="{} dropped\n".format)
    line = "x" * 999 + "\n"
    began = monotonic()
    for _ in range(1000):
        queue.write(line)
    assert not queue.finish(0.05)
    assert monotonic() - began < 10.0
    assert queue.dropped[Dropped.FULL] >= 1000 - 100 - PIPE_BYTES // len(line) - 2

    taken = 1000 - queue.dropped[Dropped.FULL]
    with os.fdopen(reader, encoding="utf-8") as lines:  # somebody reads again: all that waited comes, whole
        assert [lines.readline() for _ in range(taken)] == [line] * taken
        assert lines.readline() == f"{queue.dropped[Dropped.FULL]} dropped\n"
    assert queue.finish()


def test_a_reader_that_is_gone_costs_the_lines_alone(pipe: tuple[io.TextIOWrapper, int]) -> None:
    stream, reader = pipe
    os.close(reader)
    queue = LogQueue(stream)
    queue.write("one\n")
    queue.write("two\n")
    assert queue.finish()
    assert queue.dropped == {Dropped.FAILED: 2}


def test_a_stream_without_a_descriptor_may_fail_as_well() -> None:
    dropped = Counter[Dropped]()
    queue = LogQueue(Broken(), dropped)
    queue.write("one \ud800\n")
    assert queue.finish()
    assert dropped == {Dropped.FAILED: 1}


def test_a_full_disk() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as stream:
        queue = LogQueue(stream)
        queue.write("one\n")
        assert queue.finish()
    assert queue.dropped == {Dropped.FAILED: 1}


def test_a_pipe_that_does_not_block_is_waited_for(pipe: tuple[io.TextIOWrapper, int]) -> None:
    stream, reader = pipe
    os.set_blocking(stream.fileno(), False)
    queue = LogQueue(stream)
    for _ in range(200):
        queue.write("x" * 999 + "\n")
    with os.fdopen(reader, "rb", buffering=0) as lines:
        read = 0
        while read < 200_000:
            read += len(lines.read(PIPE_BYTES))
    assert queue.finish()
    assert not queue.dropped
