"""The guard's question while the network floods the health port: HTTP cannot make a healthy sidecar look dead."""

from __future__ import annotations

import socket
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lab.host.processes import Process, kill_all
from lab.sidecars.sidecars import throttle_sidecar_script
from operating.guard.decision import LOOK_SECONDS, Answer, Guard, Way
from operating.guard.probing import ask_ready

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = 5.0
SCANNER = """
import socket, sys, time
made, address, until = [], ("127.0.0.1", int(sys.argv[1])), time.monotonic() + float(sys.argv[2])
number, began = 0, time.monotonic()
while time.monotonic() < until:
    time.sleep(max(0.0, began + number / 4000 - time.monotonic()))
    made.append(socket.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
    made[-1].connect_ex(address)
    number += 1
    if len(made) > 64:
        made.pop(0).close()
print(number, flush=True)
"""
"""Says nothing and goes, 4000 times a second."""
READER = """
import socket, sys, time
address, until = ("127.0.0.1", int(sys.argv[1])), time.monotonic() + float(sys.argv[2])
number = 0
while time.monotonic() < until:
    with socket.socket() as made:
        made.settimeout(1.0)
        try:
            made.connect(address)
            made.sendall(b"GET /healthz HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n")
            number += made.recv(15) == b"HTTP/1.1 200 OK"
        except OSError:
            pass
print(number, flush=True)
"""
"""Is served, which costs the sidecar most."""


class Flooded:
    """A sidecar of its own and two who flood its health port."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (folder / "quotas.toml").write_text("# none\n")
        (folder / "proxy.toml").write_text(f"""
[broker]
id = 101
[ingress]
listen = "127.0.0.1:0"
upstream = "127.0.0.1:1"
[quotas]
file = "quotas.toml"
[http]
listen = "127.0.0.1:{port}"
[control]
directory = "control"
""")
        self.directory, self._folder = folder / "control", folder
        run = [throttle_sidecar_script(), "run", "--config", str(folder / "proxy.toml")]
        self._sidecar = Process("sidecar", run, output=folder / "sidecar.log")
        self._floods = [
            Process(
                f"flood {each}", [sys.executable, "-c", text, str(port), str(SECONDS)], output=folder / f"{each}.log"
            )
            for each, text in enumerate((SCANNER, READER))
        ]
        self._sidecar.start()

    def flood(self) -> None:
        for each in self._floods:
            each.start()

    @property
    def is_over(self) -> bool:
        return not any(each.running for each in self._floods)

    def connections(self) -> list[int]:
        """Return how many the scanner made, and how many of the reader's were served."""
        return [int((self._folder / f"{each}.log").read_text()) for each in range(2)]

    def close(self) -> None:
        kill_all([*self._floods, self._sidecar])


@pytest.fixture
def flooded(tmp_path: Path) -> Iterator[Flooded]:
    with closing(Flooded(tmp_path)) as made:
        yield made


@pytest.mark.timeout(60)
def test_a_flood_of_connections_does_not_make_the_guard_act(flooded: Flooded) -> None:
    while ask_ready(flooded.directory) is not Answer.READY:
        time.sleep(0.05)
    flooded.flood()
    guard, asked = Guard(1.0, time.monotonic()), 0
    while not flooded.is_over:
        answer = ask_ready(flooded.directory)
        assert answer is Answer.READY
        assert not guard.process_answer(answer, time.monotonic())
        asked += 1
        time.sleep(LOOK_SECONDS / 10)
    scanned, served = flooded.connections()
    assert (scanned > 1000, served > 0, asked > 1) == (True, True, True), f"{scanned}, {served}, {asked}"
    assert guard.way is Way.THROUGH
