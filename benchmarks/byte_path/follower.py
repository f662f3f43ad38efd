"""A follower that asks and throws away as fast as it can.

    python -m benchmarks.byte_path.follower

A process of its own: one JSON object per line on its standard input says what to do, one per line on its standard
output what came of it. Bytes are discarded inside the kernel (MSG_TRUNC), a whole frame in one call; or, if the load
says so, copied into one buffer, as a broker does.
"""

from __future__ import annotations

import itertools
import json
import mmap
import random
import socket
import struct
import sys
import threading
import time
from dataclasses import asdict, dataclass

from .loads import CORRELATION_ID_AT, PREFIX_BYTES, REPLICA_ID, Load

RECEIVE_BUFFER_BYTES = 64 * 1024
"""The default of replica.socket.receive.buffer.bytes."""
DISCARD_BYTES = 16 * 1024 * 1024
"""The size of the buffer to discard into: address space that is never touched."""
COPIED_BYTES = 1024 * 1024
"""The most bytes that are copied in one call, over those of the call before."""
HEAD_BYTES = PREFIX_BYTES + 4
READ_BYTES = 4096
"""How much is read first: in one call all of a small response."""
TIMEOUT_SECONDS = 20.0
_INT32 = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Order:
    """One run: fetch `load` from `ports`, in turns, for so many seconds, after a warm-up that is not counted.

    The caller is told when counting begins and ends, so that it can read everybody's CPU at the same moments. Fetching
    goes on until the caller has read it (it sends an empty line), because a thread that ends takes its CPU time along.
    """

    ports: list[int]
    load: Load
    seconds: float
    warm_up_seconds: float


class Fetcher:
    """A connection that fetches. `took_ns` is the time of each fetch of the part that counts."""

    def __init__(self, port: int, load: Load, number: int = 0) -> None:
        self.sock = socket.socket()
        if load.kafka_buffers:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.took_ns: list[int] = []
        self.received = 0
        self.problem: str | None = None
        self._interval = 1 / load.fetches_per_second if load.fetches_per_second else 0.0
        self._request = bytearray(load.request(replica=REPLICA_ID + number))
        self._correlation_id = 0
        self._discarded = mmap.mmap(-1, DISCARD_BYTES)
        self._most = COPIED_BYTES if load.copies else DISCARD_BYTES
        self._flags = socket.MSG_WAITALL | (0 if load.copies else socket.MSG_TRUNC)
        self._head = bytearray(READ_BYTES)

    def ask(self) -> None:
        self._correlation_id += 1
        _INT32.pack_into(self._request, CORRELATION_ID_AT, self._correlation_id)
        self.sock.sendall(self._request)

    def close(self) -> None:
        self.sock.close()
        self._discarded.close()

    def fetch(self) -> int:
        """Ask, and take the response; returns its bytes. Raises ConnectionError if it is not the right one."""
        self.ask()
        got = self.sock.recv_into(self._head)
        while 0 < got < HEAD_BYTES and (more := self.sock.recv_into(memoryview(self._head)[got:])):
            got += more
        if got < HEAD_BYTES or _INT32.unpack_from(self._head, PREFIX_BYTES)[0] != self._correlation_id:
            raise ConnectionError(f"expected response {self._correlation_id}, found {bytes(self._head[:HEAD_BYTES])!r}")
        size = PREFIX_BYTES + int(_INT32.unpack_from(self._head)[0])
        left = size - got
        while left:
            discarded = self.sock.recv_into(self._discarded, min(left, self._most), self._flags)
            if not discarded:
                raise ConnectionError(f"closed {left} bytes before the end of a response")
            left -= discarded
        return size

    def run(self, begin: threading.Barrier, counting: threading.Event, stop: threading.Event) -> None:
        try:
            begin.wait()
            due = time.perf_counter() + random.random() * self._interval  # followers do not fetch in step
            while not stop.is_set():
                # A fetch that is late delays the next: a follower has one in flight.
                due = max(due + self._interval, now := time.perf_counter())
                if due > now:
                    time.sleep(due - now)
                began = time.perf_counter_ns()
                size = self.fetch()
                if counting.is_set():
                    self.took_ns.append(time.perf_counter_ns() - began)
                    self.received += size
        except OSError as error:
            self.problem = f"{type(error).__name__}: {error}"
            stop.set()


def carry_out(order: Order) -> dict[str, object]:
    """Carry out an order. Raises ConnectionError, TimeoutError."""
    begin = threading.Barrier(order.load.connections + 1)
    counting, stop = threading.Event(), threading.Event()
    ports = itertools.islice(itertools.cycle(order.ports), order.load.connections)
    numbers = range(order.load.connections) if order.load.fetches_per_second else itertools.repeat(0)
    fetchers = [Fetcher(port, order.load, number) for port, number in zip(ports, numbers, strict=False)]
    threads = [threading.Thread(target=one.run, args=(begin, counting, stop), daemon=True) for one in fetchers]
    for thread in threads:
        thread.start()
    begin.wait()
    stop.wait(order.warm_up_seconds)
    _say({"event": "counting"})
    counting.set()
    began = time.perf_counter()
    stop.wait(order.seconds)
    counting.clear()
    took = time.perf_counter() - began
    _say({"event": "counted"})
    sys.stdin.readline()
    stop.set()
    for one, thread in zip(fetchers, threads, strict=True):
        thread.join(TIMEOUT_SECONDS)
        one.sock.close()
    problems = [one.problem or "stalled" for one, thread in zip(fetchers, threads, strict=True)
                if one.problem or thread.is_alive()]  # fmt: skip
    times = sorted(ns for one in fetchers for ns in one.took_ns)
    return {
        "event": "done", "seconds": took, "bytes": sum(one.received for one in fetchers), "fetches": len(times),
        "p50_us": _quantile_us(times, 0.50), "p99_us": _quantile_us(times, 0.99), "problem": next(iter(problems), None),
    }  # fmt: skip


def _quantile_us(times_ns: list[int], part: float) -> float | None:
    return times_ns[int(part * (len(times_ns) - 1))] / 1000 if times_ns else None


def _say(what: dict[str, object]) -> None:
    print(json.dumps(what), flush=True)


def encode(order: Order) -> str:
    return json.dumps(asdict(order))


def decode(line: str) -> Order:
    told = json.loads(line)
    return Order(**{**told, "load": Load(**told["load"])})


def main() -> None:
    """Carry out orders until there are no more."""
    for line in sys.stdin:
        try:
            _say(carry_out(decode(line)))
        except OSError as error:
            _say({"event": "done", "problem": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
