"""The guard with the kernel's own packet filter: a real sidecar killed, stopped and started, in network namespaces.

Needs root, iproute2 and iptables; says so.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trio

from lab.host.namespaces import Rooms, open_rooms
from lab.host.processes import Process, kill_all, wait_until
from lab.sidecars.sidecars import throttle_sidecar_script
from operating.guard.rules import AROUND_MARK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.timeout(240)

HERE, THERE = 102, 101
REDIRECT = Path(__file__).parents[3] / "deploy" / "redirect" / "redirect.sh"
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
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as listener:
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
WAITER = """
import socket, sys
with socket.create_connection((sys.argv[1], 9092)) as made:
    print("waits", flush=True)
    try:
        made.recv(1)
    except ConnectionResetError:
        print("reset", flush=True)
"""
"""Sends nothing, as a follower does whose fetch waits for its answer."""
LISTENER = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
    bound.bind(("127.0.0.1", 7777))
    print("listens", flush=True)
    while True:
        print(bound.recv(100).decode(), flush=True)
"""
SENDER = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
    made.sendto(sys.argv[1].encode(), ("127.0.0.1", 7777))
"""
"""A datagram needs no way back."""


class Said(NamedTuple):
    at: float
    word: str


@pytest.fixture(scope="module")
def rooms() -> Iterator[Rooms]:
    with open_rooms((THERE, HERE)) as made:
        yield made


class Ends(NamedTuple):
    """Where the sidecar HERE listens and whom it dials."""

    ingress: str
    broker: str
    broker_port: int
    egress: str


def own_ends(rooms: Rooms) -> Ends:
    addresses = rooms.addresses
    return Ends(addresses.ingress(HERE), addresses.direct(HERE), 9092, addresses.egress(HERE, THERE))


SHIPPED = Ends("0.0.0.0", "127.0.0.1", 19092, "127.0.101.1")
"""As in examples/proxy.toml: the broker listens on loopback alone, and dials others by loopback."""


class Scene:
    """A broker and its sidecar HERE; a leader THERE; somebody dials each by way of the sidecar."""

    def __init__(self, rooms: Rooms, folder: Path, ends: Ends) -> None:
        addresses = rooms.addresses
        self.rooms, self.folder, self.ends = rooms, folder, ends
        self.config = folder / "proxy.toml"
        self.config.write_text(
            f"""
[broker]
id = {HERE}
[ingress]
listen = "{ends.ingress}:9092"
upstream = "{ends.broker}:{ends.broker_port}"
[egress]
mode = "peers"
[[egress.peers]]
broker = {THERE}
listen = "{ends.egress}:9092"
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
        self.follower = {"ingress": (THERE, addresses.ingress(HERE)), "egress": (HERE, ends.egress)}
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

    def events(self, name: str = "guard") -> list[dict[str, Any]]:
        """What a guard has logged so far."""
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def has(self, event: str, name: str = "guard") -> bool:
        return any(each["event"] == event for each in self.events(name))

    def rules(self) -> list[str]:
        found = (self.rooms.run(HERE, "iptables", "-t", table, "-S") for table in ("nat", "filter"))
        return [line for text in found for line in text.splitlines()]

    def close(self) -> None:
        kill_all([*self.processes, self.sidecar])


@asynccontextmanager
async def scene(rooms: Rooms, folder: Path, ends: Ends | None = None) -> AsyncIterator[Scene]:
    ends = ends or own_ends(rooms)
    servers = {HERE: (ends.broker, ends.broker_port), THERE: (rooms.addresses.direct(THERE), 9092)}
    with closing(Scene(rooms, folder, ends)) as made:
        for broker, (address, port) in servers.items():
            made.add(broker, f"server {broker}", sys.executable, "-c", SERVER, address, str(port))
        for role, (room, address) in made.follower.items():
            made.add(room, role, sys.executable, "-c", CLIENT, address)
        await made.start_sidecar()
        yield made


async def guard(made: Scene, name: str = "guard", config: Path | None = None) -> Process:
    """A guard that has tried its ways."""
    started = made.add(
        HERE, name, throttle_sidecar_script(), "guard", "--config", str(config or made.config),
        "--after", f"{AFTER_SECONDS}s", "--textfile", str(made.folder / f"{name}.prom"),
    )  # fmt: skip
    await made.until("the guard tried its ways", lambda: made.has("guard_proved", name) or started.exit_status)
    return started


async def ended(process: Process, by: signal.Signals = signal.SIGINT) -> None:
    process.signal(by)
    with trio.fail_after(15):
        await process.wait_exit()
    assert process.exit_status == 0


@pytest.mark.parametrize("ends", [None, SHIPPED], ids=["own addresses", "shipped example"])
@pytest.mark.parametrize("dies_by", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stands still"])
async def test_around_and_back(rooms: Rooms, tmp_path: Path, dies_by: signal.Signals, ends: Ends | None) -> None:
    async with scene(rooms, tmp_path, ends) as made:
        rooms.run(HERE, "iptables", "-t", "nat", "-A", "OUTPUT", "-p", "tcp", "--dport", "7", "-j", "RETURN")
        before = made.rules()
        through = {role: made.said(role)[-1].word for role in made.follower}
        watching = await guard(made)
        assert route_localnet(rooms) == ("1" if ends is SHIPPED else "0")
        made.sidecar.signal(dies_by)
        died = time.monotonic()
        for role in made.follower:
            await made.until(f"{role} goes around", lambda role=role: made.answers(role, died + AFTER_SECONDS), 20)
        assert made.rules() != before
        assert set(before) <= set(made.rules())
        # Whom the broker sees is no longer its sidecar; the follower's own address is the same in both.
        assert made.said("ingress")[-1].word != through["ingress"]
        await made.until("the guard says so", lambda: made.has("guard_around"))
        assert made.events()[-1]["verified"] == 2
        metrics = (tmp_path / "guard.prom").read_text()
        assert f'guard_around{{broker="{HERE}"}} 1' in metrics
        assert f'guard_ways{{broker="{HERE}",state="verified"}} 2' in metrics

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
        # The guard's own are not: it goes on proving.
        await made.until("the ways are proved again", lambda: made.events()[-1]["event"] == "guard_proved")
        await ended(watching)
        assert (made.rules(), route_localnet(rooms)) == (before, "0")
        assert [made.has(event) for event in ("guard_sidecar_silent", "guard_through", "guard_stopped")] == [True] * 3
        rooms.run(HERE, "iptables", "-t", "nat", "-D", "OUTPUT", "-p", "tcp", "--dport", "7", "-j", "RETURN")


async def test_who_waits_for_a_sidecar_that_stands_still_is_reset(rooms: Rooms, tmp_path: Path) -> None:
    async with scene(rooms, tmp_path) as made:
        for role, (room, address) in made.follower.items():
            made.add(room, f"{role} waits", sys.executable, "-c", WAITER, address)
        logs = [tmp_path / f"{role} waits.log" for role in made.follower]
        await made.until("both wait", lambda: all("waits" in log.read_text() for log in logs))
        await guard(made)
        await trio.sleep(0.3)  # accepted
        made.sidecar.signal(signal.SIGSTOP)
        await made.until("both are reset", lambda: all("reset" in log.read_text() for log in logs), seconds=10)
        await made.until("the guard says so", lambda: made.has("guard_reset_connections"))
        made.sidecar.signal(signal.SIGCONT)


async def test_what_a_firewall_flushed_is_restored(rooms: Rooms, tmp_path: Path) -> None:
    async with scene(rooms, tmp_path, SHIPPED) as made:
        watching = await guard(made)
        for dies in (False, True):
            if dies:
                await made.sidecar.kill()
                await made.until("it goes around", lambda: made.has("guard_around"))
            before = made.rules()
            for table in ("nat", "filter"):
                rooms.run(HERE, "iptables", "-t", table, "-F")
                rooms.run(HERE, "iptables", "-t", table, "-X")
            rooms.run(HERE, "sysctl", "-w", "net.ipv4.conf.all.route_localnet=0")
            await made.until("the rules are back", lambda before=before: made.rules() == before, seconds=10)
            await made.until("the setting, too", lambda: route_localnet(rooms) == "1")
        for role in made.follower:
            since = time.monotonic()
            await made.until(f"{role} goes around", lambda role=role, since=since: made.answers(role, since))
        assert [each["way"] for each in made.events() if each["event"] == "guard_rules_gone"] == ["standby", "around"]
        await ended(watching)


async def test_two_guards_on_one_host_leave_each_other_alone(rooms: Rooms, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    (tmp_path / "other.quotas.toml").write_text("# none\n")
    async with scene(rooms, tmp_path) as made:
        other.write_text(
            f"""
[broker]
id = 999
[ingress]
listen = "{made.ends.ingress}:9999"
upstream = "{made.ends.broker}:{made.ends.broker_port}"
[quotas]
file = "other.quotas.toml"
[http]
listen = "127.0.0.1:9999"
"""
        )
        watching = await guard(made)
        await made.sidecar.kill()
        await made.until("it goes around", lambda: made.has("guard_around"))
        before = made.rules()
        second = await guard(made, "second", other)  # its sidecar never was there
        await made.until("the second as well", lambda: made.has("guard_around", "second"))
        assert set(before) < set(made.rules())
        await ended(second)
        assert made.rules() == before
        assert not made.has("guard_rules_gone")
        await ended(watching)


async def test_loopback_stays_closed_to_neighbours(rooms: Rooms, tmp_path: Path) -> None:
    """route_localnet alone would let whoever is on the same link reach what listens on loopback."""
    here = rooms.addresses.direct(HERE)
    neighbour = [
        ("ip", "route", "del", "local", "127.0.0.0/8", "dev", "lo"),
        ("ip", "route", "del", "local", "127.0.0.1", "dev", "lo"),
        ("ip", "route", "add", "127.0.0.1/32", "via", here, "src", rooms.addresses.direct(THERE)),
        ("sysctl", "-w", "net.ipv4.conf.all.route_localnet=1"),
    ]
    async with scene(rooms, tmp_path, SHIPPED) as made:
        for command in neighbour:
            rooms.run(THERE, *command)
        made.add(HERE, "listener", sys.executable, "-c", LISTENER)
        heard = tmp_path / "listener.log"
        watching = await guard(made)
        await made.until("it listens", lambda: "listens" in heard.read_text())
        rooms.run(THERE, sys.executable, "-c", SENDER, "guarded")
        # What would come in by the setting alone.
        rooms.run(HERE, "iptables", "-I", "INPUT", "1", "-p", "udp", "-j", "ACCEPT")
        rooms.run(THERE, sys.executable, "-c", SENDER, "open")
        await made.until("it came", lambda: "open" in heard.read_text())
        assert "guarded" not in heard.read_text()
        rooms.run(HERE, "iptables", "-D", "INPUT", "-p", "udp", "-j", "ACCEPT")
        await ended(watching)
        rooms.run(THERE, "ip", "route", "del", "127.0.0.1/32")
        for address in ("127.0.0.0/8", "127.0.0.1"):
            rooms.run(THERE, "ip", "route", "add", "local", address, "dev", "lo", "table", "local")
        rooms.run(THERE, "sysctl", "-w", "net.ipv4.conf.all.route_localnet=0")


async def test_a_way_that_a_firewall_blocks_is_told_before_it_is_needed(rooms: Rooms, tmp_path: Path) -> None:
    """Here it drops what goes to the leader by the detour, and not what dials the leader directly."""
    leader = rooms.addresses.direct(THERE)
    blocks = ("POSTROUTING", "-d", leader, "-m", "mark", "--mark", f"{AROUND_MARK:#x}", "-j", "DROP")
    async with scene(rooms, tmp_path) as made:
        rooms.run(HERE, "iptables", "-t", "mangle", "-A", *blocks)
        watching = made.add(
            HERE, "guard", throttle_sidecar_script(), "guard", "--config", str(made.config),
            "--textfile", str(made.folder / "guard.prom"),
        )  # fmt: skip
        await made.until("it says so", lambda: made.has("guard_no_way_around"))
        told = made.events()[-1]
        assert told["blocked"] == [f"{made.ends.egress}:9092 to {leader}:9092: no answer within 1 s"]
        blocked = f'guard_ways{{broker="{HERE}",state="blocked"}} 1'
        await made.until("the metrics, too", lambda: blocked in (tmp_path / "guard.prom").read_text())
        rooms.run(HERE, "iptables", "-t", "mangle", "-D", *blocks)
        await made.until("it is over", lambda: made.has("guard_proved"))
        await ended(watching)


@pytest.mark.parametrize(
    ("ports", "event"), [("9092", "guard_around"), ("9094", "guard_no_way_around")], ids=["right", "wrong"]
)
async def test_a_transparent_egress_is_led_around_if_its_ports_are_those_that_are_redirected(
    rooms: Rooms, tmp_path: Path, ports: str, event: str
) -> None:
    """The sidecar is dead from the start. With other ports than redirect.sh was told nothing goes around it."""
    leader = rooms.addresses.direct(THERE)
    config = tmp_path / "transparent.toml"
    config.write_text(
        f"""
[broker]
id = {HERE}
[egress]
mode = "transparent"
listen = "[::]:15001"
[[egress.peers]]
broker = {THERE}
upstream = "{leader}:9092"
[quotas]
file = "quotas.toml"
"""
    )
    async with scene(rooms, tmp_path) as made:
        rooms.run(HERE, str(REDIRECT), "add")
        before = made.rules()
        watching = made.add(
            HERE, "guard", throttle_sidecar_script(), "guard", "--config", str(config), "--after", "0.5s",
            "--ports", ports, "--set", "control.directory=" + str(tmp_path / "nobody"),
        )  # fmt: skip
        await made.until("it is silent, and tried", lambda: made.has("guard_sidecar_silent") and made.has(event))
        await trio.sleep(0.5)
        told = [each for each in made.events() if each["event"] in ("guard_around", "guard_no_way_around")]
        assert {each["event"] for each in told} == {event}
        assert told[-1].get("blocked", []) == ([] if ports == "9092" else [f"{leader}:9092: Connection refused"])
        await ended(watching)
        assert made.rules() == before
        rooms.run(HERE, str(REDIRECT), "remove")


def route_localnet(rooms: Rooms) -> str:
    return rooms.run(HERE, "cat", "/proc/sys/net/ipv4/conf/all/route_localnet").strip()
