"""The .rpm under systemd, by rpm itself: installed, run, put there again, erased. `make machines`.

On a Debian, for want of a system that is made of .rpm: what the package asks of the system is not looked at, since no
database there knows it; its files, its scripts and its unit are real.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.deploy.containers import Containers
from tests.deploy.test_packages import build

from .booted import Booted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

UNIT = "kafka-throttle-sidecar"
ETC = f"/etc/{UNIT}"
START = f"""
cp /usr/share/doc/{UNIT}/examples/*.toml {ETC}/
sed -i -E 's/listen = "[^"]*:([0-9]+)"/listen = "127.0.0.1:0"/' {ETC}/proxy.toml
systemctl enable --now {UNIT}
"""
PID = f"systemctl show --property=MainPID --value {UNIT}"


@pytest.fixture
def booted(tmp_path: Path) -> Iterator[Booted]:
    build(tmp_path)
    made = Booted(Containers(), "debian 12", "kts-rpm")
    made.make_image()
    made.boot("none", [(tmp_path, "/packages")])
    made.run("ip link set lo up")
    yield made
    made.close()


def test_its_life(booted: Booted) -> None:
    booted.run("rpm --initdb; rpm --install --nodeps /packages/*.rpm")
    # The group of the one directory is made by the package's own script.
    assert booted.ask(f"rpm --verify --nodeps {UNIT}").split() == ["......G..", ETC]
    assert "Apache-2.0" in booted.run(f"rpm --query --info {UNIT}")
    assert "iptables-nft" in booted.run(f"rpm --query --recommends {UNIT}")
    booted.run(START)
    before = booted.run(PID)
    booted.run("rpm --upgrade --force --nodeps /packages/*.rpm")
    assert booted.run(f"systemctl is-active {UNIT}") == "active"
    assert booted.run(PID) not in (before, "0"), "an upgrade restarts it"
    booted.run(f"rpm --erase {UNIT}")
    assert booted.ask(f"systemctl is-active {UNIT}") == "inactive"
    assert booted.ask(f"ls -d /usr/lib/{UNIT} /usr/bin/throttle-sidecar 2>/dev/null") == ""
    assert booted.ask("systemctl list-unit-files --no-legend 'kafka-throttle*'") == ""
    # What an operator wrote stays, as is usual there.
    assert booted.run(f"ls {ETC}").split() == ["proxy.toml", "quotas.toml"]
