"""A log whose reader stops, or dies, holds up nobody; what is dropped is counted and told."""

from __future__ import annotations

import io
import os
import time

from proxy.log_queue import MOST_LINE_CHARACTERS, LogQueue


def told(lines: int) -> str:
    return f"dropped {lines}"


def told_in(data: bytes) -> int:
    return sum(int(line.split()[1]) for line in data.splitlines() if line.startswith(b"dropped "))


def wait_for(condition: object, *, seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.005)


def test_lines_come_out_in_order_and_whole() -> None:
    stream = io.StringIO()
    queue = LogQueue(stream, told)
    for n in range(100):
        queue.write(f"line {n}")
        queue.write("\n")
    queue.close(timeout_seconds=10)
    assert stream.getvalue() == "".join(f"line {n}\n" for n in range(100))


def test_a_pipe_that_nobody_reads_holds_up_nobody_and_what_is_dropped_is_told_first() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        queue = LogQueue(stream, told, most_lines=100)
        began = time.monotonic()
        for _ in range(5000):
            queue.write("x" * 1000 + "\n")
        assert time.monotonic() - began < 5
        assert queue.dropped > 4000
        data = bytearray()
        wait_for(lambda: data.extend(os.read(reader.fileno(), 65536)) or told_in(data) == queue.dropped)
        queue.write("and on\n")
        wait_for(lambda: data.extend(os.read(reader.fileno(), 65536)) or data.endswith(b"and on\n"))


def test_a_reader_that_has_died_raises_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        queue = LogQueue(stream, told)
        queue.write("to nobody\n")
        wait_for(lambda: queue.dropped == 1)
        queue.write("still\n")


def test_a_line_without_end_is_cut() -> None:
    stream = io.StringIO()
    queue = LogQueue(stream, told)
    queue.write("x" * (2 * MOST_LINE_CHARACTERS) + "\n")
    queue.close(timeout_seconds=10)
    assert len(stream.getvalue()) == MOST_LINE_CHARACTERS + 1
