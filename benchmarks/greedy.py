"""What a follower in sync notices of eight greedy connections: its fetches' latency beside each load, and beside none.

    .venv/bin/python -m benchmarks.greedy [--seconds 5] [--rounds 2]

One sidecar under a quota, one leader of our own, one follower that fetches 100 times a second, and eight connections
that send as fast as the sidecar takes it. Loads take turns, so that each is compared with what the machine did in the
same minute. Leader and follower run at a higher priority: what is measured is the sidecar's share of its one core.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import selectors
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

GREEDY = 8
VICTIMS_PER_SECOND = 100
HIGH = 1000
MIB = 1024 * 1024
PREFIX = struct.Struct(">i")


FOLLOWER, GREEDY_ONE = b"f", b"g"
"""Client ids."""


def fetch(partitions: int, offset: int, client_id: bytes = GREEDY_ONE) -> bytes:
    """A replica's Fetch v3 of so many partitions."""
    head = struct.pack(">hhih", 1, 3, 7, 1) + client_id + struct.pack(">iiiiih", 102, 0, 1, 10 * MIB, 1, 1) + b"t"
    entries = b"".join(struct.pack(">iqi", partition, offset, MIB) for partition in range(partitions))
    return framed(head + PREFIX.pack(partitions) + entries)


def answer(partitions: int) -> bytes:
    entries = b"".join(struct.pack(">ihqi", partition, 0, HIGH, 0) for partition in range(partitions))
    return framed(struct.pack(">iiih", 7, 0, 1, 1) + b"t" + PREFIX.pack(partitions) + entries)


def framed(frame: bytes) -> bytes:
    return PREFIX.pack(len(frame)) + frame


LOADS = {
    "none": b"",
    "small replica fetches": fetch(1, HIGH) * 200,
    "small fetches, behind": fetch(1, 5) * 200,
    "fetches of 100 partitions": fetch(100, HIGH) * 10,
    "fetches of 1000 partitions": fetch(1000, HIGH),
    "fetches of 5000 partitions": fetch(5000, HIGH),
    "fetches of 25 000 partitions": fetch(25_000, HIGH),
    "empty frames": fetch(1, HIGH) + framed(b"") * 20_000,
}


def lead(listener: socket.socket) -> None:
    """Answer each Fetch with as many entries as it asks for, or 1; a process for each connection, as if on its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        sock, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            with contextlib.suppress(OSError):
                _lead_one(sock)
            os._exit(0)
        sock.close()


def _lead_one(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    held, answers = bytearray(), dict[int, bytes]()
    while received := sock.recv(MIB):
        if not held and received[14:15] == FOLLOWER and not os.nice(0):
            _go_first()
        sock.sendall(_answers(held, received, answers))


def _go_first() -> None:
    with contextlib.suppress(PermissionError):
        os.nice(-10)


def _answers(held: bytearray, received: bytes, answers: dict[int, bytes]) -> bytes:
    held += received
    found, at = [], 0
    while len(held) - at >= PREFIX.size and len(held) - at - PREFIX.size >= (size := PREFIX.unpack_from(held, at)[0]):
        asked = max((size - 40) // 16, 1)
        if asked not in answers:
            answers[asked] = answer(asked)
        found.append(framed(b"") if size == 0 else answers[asked])
        at += PREFIX.size + size
    del held[:at]
    return b"".join(found)


def be_greedy(port: int, load: bytes, seconds: float) -> None:
    """Send the load again and again over eight connections, and read what comes."""
    ends = time.monotonic() + seconds
    selector = selectors.DefaultSelector()
    left = {socket.create_connection(("127.0.0.1", port)): memoryview(load) for _ in range(GREEDY)}
    for sock in left:
        sock.settimeout(0)
        selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
    by_number = {sock.fileno(): sock for sock in left}
    while time.monotonic() < ends and selector.get_map():
        for key, mask in selector.select(0.1):
            sock = by_number[key.fd]
            try:
                if mask & selectors.EVENT_READ and not sock.recv(MIB):
                    raise ConnectionResetError
                if mask & selectors.EVENT_WRITE:
                    left[sock] = left[sock][sock.send(left[sock]) :] or memoryview(load)
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(sock)
                sock.close()


def suffer(port: int, seconds: float, told: Connection) -> None:
    """Fetch as a follower in sync does; tell each latency in seconds."""
    _go_first()
    request, size, found = fetch(1, HIGH, FOLLOWER), len(answer(1)), []
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ends = time.monotonic() + seconds
        while (began := time.monotonic()) < ends:
            sock.sendall(request)
            received = 0
            while received < size:
                received += len(sock.recv(size - received))
            found.append(time.monotonic() - began)
            time.sleep(max(1 / VICTIMS_PER_SECOND - found[-1], 0.0))
    told.send(found)


@contextlib.contextmanager
def sidecar(upstream: int) -> Iterator[int]:
    """One as it is installed, with every partition under a quota of 4 MiB/s; its port."""
    with tempfile.TemporaryDirectory() as directory, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        where = Path(directory)
        (where / "quotas.toml").write_text(
            '[brokers.default]\nleader.replication.throttled.rate = "4MiB/s"\n'
            'leader.replication.throttled.replicas = "*"\n'
        )
        (where / "proxy.toml").write_text(
            f'[broker]\nid = 101\n[ingress]\nlisten = "127.0.0.1:{port}"\nupstream = "127.0.0.1:{upstream}"\n'
            '[http]\nlisten = "127.0.0.1:0"\n[log]\nlevel = "error"\n'
        )
        program = str(Path(sys.executable).with_name("throttle-sidecar"))
        command = [program, "run", "--config", str(where / "proxy.toml")]
        with subprocess.Popen(command) as process:
            with contextlib.suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, process.pid, -10)
            try:
                _wait_for(port)
                yield port
            finally:
                process.terminate()


def _wait_for(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise SystemExit("the sidecar does not listen")


def latencies(port: int, load: bytes, seconds: float) -> list[float]:
    """Those of the follower in sync while the load lasts."""
    ours, theirs = multiprocessing.Pipe()
    tasks = [multiprocessing.Process(target=suffer, args=(port, seconds, theirs))]
    if load:
        tasks.append(multiprocessing.Process(target=be_greedy, args=(port, load, seconds + 1)))
    for task in reversed(tasks):
        task.start()
    found: list[float] = ours.recv()
    for task in tasks:
        task.join()
    return found or [seconds]


def _p99(found: list[float]) -> float:
    return sorted(found)[len(found) * 99 // 100]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load, in each round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--load", action="append", choices=LOADS, help="only these (and none)")
    options = parser.parse_args()
    loads = {name: load for name, load in LOADS.items() if not options.load or name in ("none", *options.load)}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        leader = multiprocessing.Process(target=lead, args=(listener,), daemon=True)
        leader.start()
        found: dict[str, list[float]] = {name: [] for name in loads}
        with sidecar(listener.getsockname()[1]) as port:
            for _ in range(options.rounds):
                for name, load in loads.items():
                    found[name] += latencies(port, load, options.seconds)
        leader.terminate()
    print(f"{'beside':30} {'fetches':>8} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}  p99 / none")
    none = _p99(found["none"])
    for name, each in found.items():
        p50, p99 = statistics.median(each), _p99(each)
        figures = f"{p50 * 1e3:8.2f} {p99 * 1e3:8.2f} {max(each) * 1e3:8.2f}"
        print(f"{name:30} {len(each):8} {figures}  {p99 / none:.1f}")


if __name__ == "__main__":
    main()
