"""deploy/ansible on a booted system, its own inventory: `ansible-playbook --connection=local`. `make machines`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.deploy.containers import ROOT, Containers
from tests.deploy.test_packages import build

from .booted import Booted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

UNIT = "kafka-throttle-sidecar"
PLAY = """cd /tmp/deploy/ansible
ansible-playbook --connection=local -i inventory.yml --limit kafka-101 throttle-sidecar.yml"""
PID = f"systemctl show --property=MainPID --value {UNIT}"


@pytest.fixture
def booted(tmp_path: Path) -> Iterator[Booted]:
    build(tmp_path / "packages")
    made = Booted(Containers(), "debian 12", "kts-ansible")
    made.make_image()
    made.boot("none", [(tmp_path / "packages", "/packages"), (ROOT / "deploy" / "ansible", "/ansible")])
    made.run(
        "ip link set lo up; mkdir -p /tmp/deploy /tmp/build; cp -r /ansible /tmp/deploy/; cp -r /packages /tmp/build/"
    )
    yield made
    made.close()


def changed(said: str) -> int:
    found = re.search(r"kafka-101 +: ok=\d+ +changed=(\d+) +unreachable=0 +failed=0", said)
    assert found is not None, said
    return int(found[1])


def test_it_installs_what_is_asked_for_and_changes_nothing_the_second_time(booted: Booted) -> None:
    assert changed(booted.run(PLAY)) >= 6
    assert booted.run(f"systemctl is-active {UNIT} kafka-throttle-redirect").split() == ["active"] * 2
    assert booted.run(f"systemctl is-enabled {UNIT} kafka-throttle-redirect").split() == ["enabled"] * 2
    assert "follower" in booted.run("throttle-sidecar status --once")
    assert "--dports 9092" in booted.run("iptables -t nat -S")
    assert changed(booted.run(PLAY)) == 0


def test_other_quotas_restart_nothing_and_bad_ones_are_refused(booted: Booted) -> None:
    booted.run(PLAY)
    before = booted.run(PID)
    booted.run("sed -i 's/50MiB/20MiB/' /tmp/deploy/ansible/quotas.toml")
    assert changed(booted.run(PLAY)) == 1
    booted.run("for i in $(seq 50); do throttle-sidecar status --once | grep -q 20 && exit 0; sleep 0.1; done; exit 1")
    booted.run("sed -i 's/20MiB/20 elephants/' /tmp/deploy/ansible/quotas.toml")
    assert "20 elephants" in booted.ask(PLAY)
    assert "20MiB" in booted.run("cat /etc/kafka-throttle-sidecar/quotas.toml")
    assert booted.run(PID) == before
