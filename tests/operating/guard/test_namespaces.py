"""The guard with the kernel's own packet filter: a real sidecar killed, stopped and started, in network namespaces.

Needs root, iproute2 and iptables; says so.
"""

from __future__ import annotations

import signal
import sys
import time
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

from lab.processes import Process, kill_all, wait_until
from lab.rooms import Rooms, open_rooms
from lab.sidecars import throttle_sidecar_script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(240)

HERE, THERE = 102, 101
AFTER_SECONDS = 1.0
SERVER = """
import socket, sys, threading
def serve(made, peer):
    try:
        while len(made.recv(14, socket.MSG_WAITALL)) == 14:
            made.sendall((4 + len(peer)).to_bytes(4, "big") + bytes(4) + peer.encode())
    except OSError:
        pass
    made.close()
with socket.create_server((sys.argv[1], 9092)) as listener:
    while True:
        made, (peer, *_) = listener.accept()
        threading.Thread(target=serve, args=(made, peer), daemon=True).start()
"""
"""Answers every frame with the address that it sees: a sidecar in between has another one."""
CLIENT = """
import socket, sys, time
made = None
while True:
    try:
        made = made or socket.create_connection((sys.argv[1], 9092), timeout=0.5)
        made.sendall(bytes.fromhex("0000000a001200000000 0000ffff"))  # ApiVersions v0
        said = made.recv(100)[8:].decode() or "closed"
    except OSError as error:
        said = type(error).__name__
    if not said[0].isdigit() and made:
        made.close()
        made = None
    print(time.monotonic(), said, flush=True)
    time.sleep(0.05)
"""
"""Says something twenty times a second, always over the same connection if it can."""


class Said(NamedTuple):
    at: float
    word: str


@pytest.fixture(scope="module")
def rooms() -> Iterator[Rooms]:
    with open_rooms((THERE, HERE)) as made:
        yield made


class Scene:
    """A broker and its sidecar HERE; a leader THERE; somebody dials each by way of the sidecar."""

    def __init__(self, rooms: Rooms, folder: Path) -> None:
        addresses = rooms.addresses
        self.rooms, self.folder = rooms, folder
        self.config = folder / "proxy.toml"
        alias = addresses.egress(HERE, THERE)
        self.config.write_text(
            f"""
[broker]
id = {HERE}
[ingress]
listen = "{addresses.ingress(HERE)}:9092"
upstream = "{addresses.direct(HERE)}:9092"
[egress]
mode = "peers"
[[egress.peers]]
broker = {THERE}
listen = "{alias}:9092"
upstream = "{addresses.direct(THERE)}:9092"
[quotas]
file = "quotas.toml"
[http]
listen = "{addresses.http(HERE)}:9404"
"""
        )
        (folder / "quotas.toml").write_text("# none\n")
        self.url = f"http://{addresses.http(HERE)}:9404"
        self.sidecar = self._run(HERE, "sidecar", throttle_sidecar_script(), "run", "--config", str(self.config))
        self.follower = {"ingress": (THERE, addresses.ingress(HERE)), "egress": (HERE, alias)}
        self.processes: list[Process] = []

    def _run(self, room: int, name: str, *command: str) -> Process:
        return Process(name, [*self.rooms.within(room), *command], output=self.folder / f"{name}.log")

    def add(self, room: int, name: str, *command: str) -> Process:
        process = self._run(room, name, *command)
        process.start()
        self.processes.append(process)
        return process

    async def start_sidecar(self) -> None:
        self.sidecar.start()
        await self.until("the sidecar is ready", lambda: self.answers("ingress") and self.answers("egress"))

    async def until(self, what: str, condition: object, seconds: float = 30) -> None:
        await wait_until(condition, process=self.processes[0], what=what, timeout_seconds=seconds)

    def said(self, role: str) -> list[Said]:
        text = (self.folder / f"{role}.log").read_text()
        return [Said(float(line.split()[0]), line.split()[1]) for line in text.splitlines() if len(line.split()) == 2]

    def answers(self, role: str, since: float = 0.0) -> bool:
        found = self.said(role)
        return bool(found) and found[-1].at > since and found[-1].word[0].isdigit()

    def lost(self, role: str, since: float) -> bool:
        return any(each.at > since and not each.word[0].isdigit() for each in self.said(role))

    def rules(self) -> list[str]:
        found = (self.rooms.run(HERE, "iptables", "-t", table, "-S") for table in ("nat", "filter"))
        return [line for text in found for line in text.splitlines()]

    def close(self) -> None:
        kill_all([*self.processes, self.sidecar])


@asynccontextmanager
async def scene(rooms: Rooms, folder: Path) -> AsyncIterator[Scene]:
    with closing(Scene(rooms, folder)) as made:
        for broker in (HERE, THERE):
            made.add(broker, f"server {broker}", sys.executable, "-c", SERVER, rooms.addresses.direct(broker))
        for role, (room, address) in made.follower.items():
            made.add(room, role, sys.executable, "-c", CLIENT, address)
        await made.start_sidecar()
        yield made


def guard(made: Scene) -> Process:
    return made.add(
        HERE, "guard", throttle_sidecar_script(), "guard", "--config", str(made.config), "--after", f"{AFTER_SECONDS}s",
        "--textfile", str(made.folder / "guard.prom"),
    )  # fmt: skip


@pytest.mark.parametrize("dies_by", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stands still"])
async def test_around_and_back(rooms: Rooms, tmp_path: Path, dies_by: signal.Signals) -> None:
    async with scene(rooms, tmp_path) as made:
        rooms.run(HERE, "iptables", "-t", "nat", "-A", "OUTPUT", "-p", "tcp", "--dport", "7", "-j", "RETURN")
        before = made.rules()
        through = {role: made.said(role)[-1].word for role in made.follower}
        watching = guard(made)
        await made.until("the guard looked", (tmp_path / "guard.prom").exists)
        made.sidecar.signal(dies_by)
        died = time.monotonic()
        for role in made.follower:
            await made.until(f"{role} goes around", lambda role=role: made.answers(role, died + AFTER_SECONDS), 20)
        assert made.rules() != before
        assert set(before) <= set(made.rules())
        # Whom the broker sees is no longer its sidecar; the follower's own address is the same in both.
        assert made.said("ingress")[-1].word != through["ingress"]
        around = f'guard_around{{broker="{HERE}"}} 1'
        await made.until("its metrics say so", lambda: around in (tmp_path / "guard.prom").read_text())

        since = time.monotonic()
        if dies_by is signal.SIGSTOP:
            made.sidecar.signal(signal.SIGCONT)
        else:
            await made.sidecar.kill()
            made.sidecar.start()
        await made.until(
            "it goes through again",
            lambda: made.answers("ingress", since) and made.said("ingress")[-1].word == through["ingress"],
        )
        # What had gone around was reset: nobody stays there.
        await made.until("the follower, too", lambda: made.lost("egress", since) and made.answers("egress", since))
        assert made.lost("ingress", since)
        watching.signal(signal.SIGINT)
        with trio.fail_after(15):
            await watching.wait_exit()
        assert watching.exit_status == 0
        assert made.rules() == before
        events = (tmp_path / "guard.log").read_text()
        assert [word in events for word in ("guard_around", "guard_through", "guard_stopped")] == [True] * 3
        rooms.run(HERE, "iptables", "-t", "nat", "-D", "OUTPUT", "-p", "tcp", "--dport", "7", "-j", "RETURN")
