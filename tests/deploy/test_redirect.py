"""deploy/redirect/redirect.sh and a transparent egress in a network namespace, as in a pod: rules, users, loops.

Needs root, iproute2 and iptables; says so. With real brokers: tests/system/test_transparent.py.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trio

from lab.embedded.leader import EmbeddedLeader
from lab.errors import LabError
from lab.host.addresses import KAFKA_PORT, REDIRECT_PORT
from lab.host.namespaces import Rooms, open_rooms
from lab.host.processes import Process, wait_until
from lab.sidecars.sidecars import throttle_sidecar_script
from protocol.wire.framing import with_length

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

SCRIPT = Path(__file__).parents[2] / "deploy" / "redirect" / "redirect.sh"
BROKER, LEADER = 102, 101
MESSAGES = 600
QUOTA_BYTES_PER_SECOND = 512 * 1024
FULL_BUCKET_BYTES = 64 * 1024
KEY = ("t", 0)
FILES = {
    "proxy.toml": """
[broker]
id = 102
[egress]
mode = "transparent"
listen = "[::]:{redirect}"
[[egress.peers]]
broker = 101
upstream = "{leader}:{kafka}"
[http]
listen = "{http}:9404"
""",
    "quotas.toml": """
[brokers.default]
follower.replication.throttled.rate = {quota}
follower.replication.throttled.replicas = "*"
""",
}


class Fetched(NamedTuple):
    digest: str
    seconds: float
    reconnects: int


@pytest.fixture(scope="module")
def rooms() -> Iterator[Rooms]:
    with open_rooms((LEADER, BROKER)) as made:
        yield made


@pytest.fixture
def rules(rooms: Rooms) -> Iterator[partial[str]]:
    """`redirect.sh` in the broker's room; whatever it made is removed afterwards."""
    run = partial(rooms.run, BROKER, str(SCRIPT))
    yield run
    run("remove")


class Sidecar:
    def __init__(self, rooms: Rooms, folder: Path) -> None:
        values = {
            "redirect": REDIRECT_PORT, "kafka": KAFKA_PORT, "leader": rooms.addresses.tap(LEADER),
            "http": rooms.addresses.http(BROKER), "quota": QUOTA_BYTES_PER_SECOND,
        }  # fmt: skip
        for name, text in FILES.items():
            (folder / name).write_text(text.format(**values))
        command = [throttle_sidecar_script(), "run", "--config", str(folder / "proxy.toml")]
        self.process = Process("sidecar", [*rooms.within_as_sidecar(BROKER), *command], output=folder / "sidecar.log")
        self._url = f"http://{values['http']}:9404"

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self._url + path, timeout=5) as answer:
            return str(answer.read().decode())

    def is_ready(self) -> bool:
        try:
            self.get("/readyz")
        except OSError:
            return False
        return True

    def connections(self) -> list[dict[str, Any]]:
        """Those of followers that ended."""
        lines = map(json.loads, self.process.output.read_text().splitlines())
        return [line for line in lines if line["event"] == "connection_closed"]


API_VERSIONS = with_length(b"\0\x12\0\0\0\0\0\x07\xff\xff")
"""The first that a broker says to another."""


@asynccontextmanager
async def sidecar(rooms: Rooms, folder: Path) -> AsyncIterator[Sidecar]:
    made = Sidecar(rooms, folder)
    made.process.start()
    try:
        await wait_until(made.is_ready, process=made.process, what="/readyz said 200", timeout_seconds=20)
        yield made
    finally:
        with trio.CancelScope(shield=True):
            await made.process.terminate(grace_seconds=5)


@asynccontextmanager
async def leader(rooms: Rooms) -> AsyncIterator[EmbeddedLeader]:
    """Where the other broker would be, on IPv4 and IPv6."""
    made = EmbeddedLeader()
    made.produce(*KEY, MESSAGES)
    v4 = made.listening(rooms.addresses.tap(LEADER), KAFKA_PORT)
    async with v4, made.listening(rooms.address6(None), KAFKA_PORT):
        yield made


async def fetch(rooms: Rooms, host: str) -> Fetched:
    """The follower in the room catches up."""
    command = [*rooms.within(BROKER), sys.executable, "-m", "tests.deploy.fetch", host, str(KAFKA_PORT), str(MESSAGES)]
    done = await trio.run_process(command, capture_stdout=True)
    return Fetched(**json.loads(done.stdout))


async def test_what_is_redirected_is_throttled_over_ipv4_and_ipv6(
    rooms: Rooms, rules: partial[str], tmp_path: Path
) -> None:
    rules("add")
    async with leader(rooms) as of, sidecar(rooms, tmp_path) as made:
        hosts = {rooms.addresses.tap(LEADER): "101", rooms.address6(None): f"[{rooms.address6(None)}]:{KAFKA_PORT}"}
        for count, (host, peer) in enumerate(hosts.items(), start=1):
            found = await fetch(rooms, host)
            assert found.digest == of.logs[KEY].digest()
            assert found.reconnects == 0
            least = (len(of.logs[KEY]._data) - FULL_BUCKET_BYTES) / QUOTA_BYTES_PER_SECOND
            assert found.seconds >= 0.9 * least
            await wait_until(
                lambda ended=count: len(made.connections()) == ended,
                process=made.process,
                what="the connection has ended",
                timeout_seconds=5,
            )
            assert made.connections()[-1]["peer"] == peer
        assert "refused" not in made.get("/readyz")


@pytest.mark.parametrize("uid", ["0", "12345"])
async def test_rules_that_do_not_let_the_sidecar_through_cost_a_refusal_and_no_storm(
    uid: str, rooms: Rooms, rules: partial[str], tmp_path: Path
) -> None:
    """Uid 0: the broker itself is let through, so another user plays it."""
    rules("add", "--uid", uid)
    async with leader(rooms), sidecar(rooms, tmp_path) as made:
        as_nobody = ["setpriv", "--reuid=1001", "--clear-groups", "--"]
        dial = (
            f"import socket; s = socket.create_connection(({rooms.addresses.tap(LEADER)!r}, 9092)); "
            f"s.sendall(bytes.fromhex('{API_VERSIONS.hex()}')); print(s.recv(1))"
        )
        said = await trio.to_thread.run_sync(rooms.run, BROKER, *as_nobody, "/usr/bin/env", "python3", "-c", dial)
        assert said == "b''\n"
        metrics = made.get("/metrics")
        assert 'replication_throttle_refused_connections_total{reason="own_connection"} 1.0' in metrics
        assert made.process.output.read_text().count("redirected_connection_refused") == 1


async def test_a_dead_sidecar_fails_closed_and_the_bypass_opens(rooms: Rooms, rules: partial[str]) -> None:
    """Not silently unthrottled: connections are refused until somebody decides otherwise."""
    rules("add")
    host = rooms.addresses.tap(LEADER)
    async with leader(rooms) as of:
        probe = f"import socket; print(socket.socket().connect_ex(({host!r}, 9092)))"
        refused = await trio.to_thread.run_sync(rooms.run, BROKER, sys.executable, "-c", probe)
        assert refused == f"{errno.ECONNREFUSED}\n"
        rules("remove")
        assert (await fetch(rooms, host)).digest == of.logs[KEY].digest()


def test_the_rules_are_put_twice_and_removed_without_a_trace(rooms: Rooms, rules: partial[str]) -> None:
    before = [rooms.run(BROKER, f"{family}tables-save", "-t", "nat") for family in ("ip", "ip6")]
    rules("add")
    once = rules("show")
    rules("add")
    assert rules("show") == once
    assert once.count("--uid-owner 65532 ") == 2
    rules("add", "--ports", "9092,9094", "--to", "15002", "--uid", "7")
    shown = rules("show")
    assert shown.count("--dports 9092,9094") == shown.count("--to-ports 15002") == shown.count("--uid-owner 7 ") == 2
    assert shown.count("-A OUTPUT") == 2
    rules("remove")
    assert rules("show") == ""
    after = [rooms.run(BROKER, f"{family}tables-save", "-t", "nat") for family in ("ip", "ip6")]
    assert [_rules(text) for text in after] == [_rules(text) for text in before]


def test_what_is_shown_counts_the_connections_that_were_redirected(rooms: Rooms, rules: partial[str]) -> None:
    """By it the manual tells a broker that goes around the sidecar from one that is led to it."""
    rules("add")
    probe = f"import socket; socket.socket().connect_ex(({rooms.addresses.tap(LEADER)!r}, 9092))"
    rooms.run(BROKER, sys.executable, "-c", probe)
    counted = [line.split() for line in rules("show").splitlines() if "REDIRECT" in line]
    assert sorted(line[line.index("-c") + 1] for line in counted) == ["0", "1"]


@pytest.mark.parametrize("arguments", [(), ("start",), ("add", "--uid"), ("add", "--user", "7")])
def test_it_is_told_what_it_does(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: redirect.sh add|remove|show")


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--uid", "sidecar", '--uid: expected the number of a user, 0 to 4294967294, found "sidecar"'),
        ("--uid", "4294967295", "--uid: expected the number of a user"),
        ("--to", "0", '--to: expected a port, 1 to 65535, found "0"'),
        ("--to", "015001", "--to: expected a port"),
        ("--to", "99999999999999999999", "--to: expected a port"),
        ("--ports", "9092,9o94", "--ports: expected at most 15 ports, 1 to 65535, with commas (9092,9094)"),
        ("--ports", "9092, 9094", "--ports: expected"),
        ("--ports", "9092,", "--ports: expected"),
        ("--ports", "", "--ports: expected"),
        ("--ports", "9095:9092", "--ports: expected"),
        ("--ports", "65536", "--ports: expected"),
        ("--ports", ",".join(map(str, range(1, 17))), "--ports: expected"),
    ],
)
def test_a_mistyped_argument_is_named_before_anything_is_changed(option: str, value: str, expected: str) -> None:
    """Where nothing is to be changed: without iptables, it would be told of that."""
    done = subprocess.run(
        ["/bin/sh", SCRIPT, "add", option, value], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin"}
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"redirect.sh: {expected}")
    assert done.stderr.endswith("; nothing was changed\n")


@pytest.mark.parametrize("failing", ["iptables", "ip6tables"])
@pytest.mark.parametrize("arguments", [("add", "--ports", "9094"), ("remove",)])
def test_rules_that_iptables_refuses_leave_those_from_before(
    arguments: tuple[str, ...], failing: str, rooms: Rooms, rules: partial[str], tmp_path: Path
) -> None:
    """A line that the kernel does not know, the last of the transaction: what came before it is not kept either."""
    rules("add", "--ports", "9092:9093", "--uid", "7")
    before = rules("show")
    assert before.count("--dports 9092:9093") == 2
    wrapper = tmp_path / f"{failing}-restore"
    real = shutil.which(wrapper.name)
    wrapper.write_text(f'#!/bin/sh\nsed "s/^COMMIT/-A OUTPUT -j NO_SUCH_CHAIN\\nCOMMIT/" | {real} "$@"\n')
    wrapper.chmod(0o755)
    with pytest.raises(LabError, match="iptables refused: the rules from before hold"):
        rooms.run(BROKER, "env", f"PATH={tmp_path}:{os.environ['PATH']}", str(SCRIPT), *arguments)
    assert rules("show") == before


def _rules(saved: str) -> list[str]:
    return [line for line in saved.splitlines() if line.startswith("-")]
