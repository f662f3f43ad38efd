"""Side by side in one run: TLS 1.3 with AES-256-GCM on both legs, through the sidecar and through HAProxy.

    python -m benchmarks.tls_relay --rounds 3 --seconds 4

A leader and a follower of our own speak Fetch v3 inside TLS; each relay ends it on one side and begins it on the
other. Bulk: the bytes a second that arrive, and the CPU that the relay itself takes for each GB. Small fetches: the
median of their time. The three processes share this machine's cores, so throughput says who takes the others' time, and
CPU says what it costs.
"""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.authority import Authority
from lab.sidecars import throttle_sidecar_script

from .byte_path.answers import response
from .byte_path.loads import CORRELATION_ID_AT, PREFIX_BYTES, SMALL, TOPIC, Load
from .byte_path.peer import program
from .byte_path.usage import tree, usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "kafka-101"
BULK = Load("10 x 1 MB", 10, 1_000_000)
WARM_UP_SECONDS = 1.0
START_SECONDS = 10.0
READ_BYTES = 256 * 1024
_INT32 = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Way:
    """How bytes come from leader to follower. `begin`: its command, given its port and the leader's."""

    name: str
    begin: Callable[[Path, int, int], list[str]]


def haproxy(home: Path, port: int, leader: int) -> list[str]:
    config = home / "haproxy.cfg"
    config.write_text(
        "global\n  nbthread 1\n  ssl-default-bind-options ssl-min-ver TLSv1.3\n"
        "  ssl-default-bind-ciphersuites TLS_AES_256_GCM_SHA384\n"
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n"
        f"listen kafka\n  bind 127.0.0.1:{port} ssl crt {home}/own.pem\n"
        f"  server leader 127.0.0.1:{leader} ssl verify required ca-file {home}/ca.pem sni str({NAME})"
        f" verifyhost {NAME}\n"
    )
    return [program("haproxy", "haproxy"), "-f", str(config), "-db"]


def sidecar(quotas: str) -> Callable[[Path, int, int], list[str]]:
    def command(home: Path, port: int, leader: int) -> list[str]:
        config = home / "proxy.toml"
        config.write_text(
            f'[broker]\nid = 101\n[ingress]\nlisten = "127.0.0.1:{port}"\nupstream = "127.0.0.1:{leader}"\n'
            f'[ingress.tls.listen]\nssl.keystore.location = "own.pem"\n'
            f'[ingress.tls.upstream]\nssl.truststore.location = "ca.pem"\nserver_name = "{NAME}"\n'
            f'[http]\nlisten = "127.0.0.1:{free_port()}"\n'
        )
        (home / "quotas.toml").write_text(quotas)
        return [throttle_sidecar_script(), "run", "--config", str(config)]

    return command


DECODED = (
    '[brokers.101]\nleader.replication.throttled.rate = "1000GiB/s"\nleader.replication.throttled.replicas = "*"\n'
)
WAYS = (
    Way("HAProxy", haproxy),
    Way("sidecar, nothing listed", sidecar("# no quotas\n")),
    Way("sidecar, everything listed", sidecar(DECODED)),
)


def serve(home: Path) -> None:
    """The leader, in a process of its own: prints its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(home / "own.pem")
    answers = {load.partitions: bytearray(b"".join(response(3, list(_wanted(load))))) for load in (BULK, SMALL)}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=_serve, args=(context, sock, answers), daemon=True).start()


def _wanted(load: Load) -> Iterator[tuple[str, int, int]]:
    return ((f"{TOPIC}{load.record_bytes}", number, load.record_bytes) for number in range(load.partitions))


def _serve(context: ssl.SSLContext, plain: socket.socket, answers: dict[int, bytearray]) -> None:
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sizes = {len(load.request()): load.partitions for load in (BULK, SMALL)}
    try:
        with context.wrap_socket(plain, server_side=True) as sock:
            while request := sock.recv(READ_BYTES):
                answer = bytearray(answers[sizes[len(request)]])
                answer[PREFIX_BYTES : PREFIX_BYTES + 4] = request[CORRELATION_ID_AT : CORRELATION_ID_AT + 4]
                sock.sendall(answer)
    except (OSError, KeyError):
        return


class Follower:
    """Fetches again and again."""

    def __init__(self, home: Path, port: int) -> None:
        context = ssl.create_default_context(cafile=home / "ca.pem")
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = context.wrap_socket(plain, server_hostname=NAME)
        self.cipher = str((self._sock.cipher() or ("none",))[0])
        self._space = memoryview(bytearray(READ_BYTES))
        self._number = 0

    def fetch(self, load: Load) -> int:
        """Return the bytes of its answer."""
        self._number += 1
        request = bytearray(load.request())
        _INT32.pack_into(request, CORRELATION_ID_AT, self._number)
        self._sock.sendall(request)
        came = self._sock.recv_into(self._space)
        size: int = PREFIX_BYTES + _INT32.unpack_from(self._space)[0]
        while came < size:
            more = self._sock.recv_into(self._space)
            if not more:
                raise ConnectionError("the relay closed the connection")
            came += more
        return size

    def close(self) -> None:
        self._sock.close()


def measure(way: Way, home: Path, leader: int, seconds: float) -> dict[str, float | str]:
    port = free_port()
    with (home / "relay.log").open("ab") as log:
        child = subprocess.Popen(way.begin(home, port, leader), stdout=log, stderr=log)
    try:
        follower = _reached(home, port)
        pids = tree([child.pid])
        bulk = _fetches(follower, BULK, WARM_UP_SECONDS) and _fetches(follower, BULK, seconds, pids)
        small = _fetches(follower, SMALL, WARM_UP_SECONDS) and _fetches(follower, SMALL, seconds / 2, pids)
        follower.close()
        return {
            "way": way.name, "cipher": follower.cipher, "bytes_per_second": bulk["bytes"] / bulk["seconds"],
            "cpu_seconds_per_gb": bulk["cpu"] / bulk["bytes"] * 1e9, "small_p50_us": small["p50_us"],
        }  # fmt: skip
    finally:
        child.terminate()
        child.wait()


def _reached(home: Path, port: int) -> Follower:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return Follower(home, port)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _fetches(follower: Follower, load: Load, seconds: float, pids: list[int] | None = None) -> dict[str, float]:
    before = usage(pids or [])
    began = now = time.perf_counter()
    size, times = 0, []
    while now < began + seconds:
        size += follower.fetch(load)
        earlier, now = now, time.perf_counter()
        times.append(now - earlier)
    cpu = usage(pids or []).since(before).cpu_seconds
    return {"bytes": size, "seconds": now - began, "cpu": cpu, "p50_us": statistics.median(times) * 1e6}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tls_relay", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="each way once in every round, in turns")
    parser.add_argument("--seconds", type=float, default=4.0, help="of bulk; half as long of small fetches")
    parser.add_argument("--leader", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.leader is not None:
        serve(options.leader)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        Authority(home).issue("own.pem", [NAME])
        command = [sys.executable, "-m", "benchmarks.tls_relay", "--leader", str(home)]
        leader = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(leader.kill)
        assert leader.stdout is not None
        port = int(leader.stdout.readline())
        found = [measure(way, home, port, options.seconds) for _ in range(options.rounds) for way in WAYS]
    for way in WAYS:
        rows = [row for row in found if row["way"] == way.name]
        numbers = ("bytes_per_second", "cpu_seconds_per_gb", "small_p50_us")
        middle = {key: statistics.median(float(row[key]) for row in rows) for key in numbers}
        print(json.dumps({"way": way.name, "cipher": rows[0]["cipher"], "rounds": len(rows)} | middle))


if __name__ == "__main__":
    main()
