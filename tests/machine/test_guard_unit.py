"""The package's guard unit where systemd is the first process: hardened, it leads around a dead sidecar, and back.

`make machines`. The booted system is in a network namespace of its own, a client in another. The broker is an HTTP
server: the sidecar closes what cannot be Kafka, so an answer has gone around it.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from lab.errors import LabError
from lab.host.namespaces import Rooms, open_rooms
from tests.deploy.containers import Containers
from tests.deploy.test_packages import build

from .booted import Booted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

CLIENT, HERE = 101, 102
GUARD, SIDECAR = "kafka-throttle-guard", "kafka-throttle-sidecar"
CAPABILITIES = {1, 2, 12, 13}
"""DAC_OVERRIDE, DAC_READ_SEARCH, NET_ADMIN and NET_RAW: the unit's."""
MAX_EXPOSED = 3.0
"""systemd's own measure, 10 at most; the sidecar, which has no capabilities, has 2.0."""
WAIT_SECONDS = 30.0
PROXY = """
[broker]
id = {here}
[ingress]
listen = "{ingress}:9092"
upstream = "{broker}:9092"
[quotas]
file = "quotas.toml"
"""
INSTALL = f"""
apt-get install -y /packages/*.deb
cp /seen/*.toml /etc/kafka-throttle-sidecar/
systemctl daemon-reload
systemctl enable --now {SIDECAR} {GUARD}
"""


def until(condition: Callable[[], bool], booted: Booted) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, booted.ask(f"systemctl status {GUARD}; journalctl --no-pager -u {GUARD}")
        time.sleep(0.2)


def test_the_guard_leads_around_a_dead_sidecar_and_leaves_nothing(tmp_path: Path) -> None:
    build(tmp_path / "packages")
    seen = tmp_path / "seen"
    seen.mkdir()
    booted = Booted(Containers(), "debian 12", "kts-guarded")
    booted.make_image()
    with open_rooms((CLIENT, HERE)) as rooms:
        addresses = rooms.addresses
        ingress, broker = addresses.ingress(HERE), addresses.direct(HERE)
        (seen / "proxy.toml").write_text(PROXY.format(here=HERE, ingress=ingress, broker=broker))
        (seen / "quotas.toml").write_text("# none\n")
        try:
            booted.boot(f"ns:{rooms.path(HERE)}", [(tmp_path / "packages", "/packages"), (seen, "/seen")])
            booted.run(f"systemd-run --unit=broker python3 -m http.server 9092 --bind {broker} --directory /packages")
            booted.run(INSTALL)
            until(lambda: metric(booted) == "0", booted)
            as_the_unit_says(booted)
            assert not goes_around(rooms, ingress)
            booted.run(f"systemctl kill --signal=STOP {SIDECAR}")
            until(lambda: metric(booted) == "1", booted)
            assert goes_around(rooms, ingress)
            booted.run(f"systemctl kill --signal=KILL {SIDECAR}")
            until(lambda: metric(booted) == "0", booted)
            assert not goes_around(rooms, ingress)
            booted.run(f"systemctl stop {GUARD}")
            assert "THROTTLE_GUARD" not in booted.run("iptables-save; ip6tables-save")
            assert booted.ask(f"systemctl is-failed {GUARD}") == "inactive"
        finally:
            booted.close()


def metric(booted: Booted) -> str | None:
    """What node_exporter would read: 1 while traffic goes around, None before there is a file."""
    said = booted.ask("cat /run/kafka-throttle-guard/guard.prom")
    found = re.search(r"^replication_throttle_guard_around\{.*\} (\d)$", said, re.MULTILINE)
    return None if found is None else found[1]


def goes_around(rooms: Rooms, ingress: str) -> bool:
    try:
        return "Directory listing" in rooms.run(
            CLIENT, "curl", "--silent", "--max-time", "5", f"http://{ingress}:9092/"
        )
    except LabError:
        return False


def as_the_unit_says(booted: Booted) -> None:
    said = booted.run(f"LANG=C.UTF-8 systemd-analyze security --no-pager {GUARD}")
    found = re.search(r"exposure level for \S+: ([0-9.]+)", said)
    assert found is not None, said
    assert float(found[1]) <= MAX_EXPOSED
    pid = booted.run(f"systemctl show --property=MainPID --value {GUARD}")
    status = dict(line.split(":\t", 1) for line in booted.run(f"cat /proc/{pid}/status").splitlines() if ":\t" in line)
    held = int(status["CapEff"], 16)
    assert {bit for bit in range(64) if held >> bit & 1} <= CAPABILITIES
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    print(f"exposed {found[1]}, capabilities {status['CapEff']}")  # noqa: T201 - shown by -rP
