"""deploy/packages: units that are closed to the world, scripts for any shell, a launcher that finds a Python."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.config.settings import load_settings

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "packages" / "files"
SERVICE = FILES / "kafka-throttle-sidecar.service"
GUARD = FILES / "kafka-throttle-guard.service"
MOST_EXPOSED = 2.0


def unit(path: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str
    found.read(path)
    return found


def test_the_service_is_exposed_to_little() -> None:
    analyze = shutil.which("systemd-analyze")
    assert analyze, "systemd-analyze is missing: apt-get install systemd"
    command = [analyze, "security", "--offline=true", "--no-pager", str(SERVICE)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LANG": "C.UTF-8"})
    found = re.search(r"exposure level for \S+: ([0-9.]+)", said.stdout)
    assert found is not None, said.stderr
    assert float(found[1]) <= MOST_EXPOSED


def test_a_new_version_may_give_way_to_the_old_one() -> None:
    """`proxy.process.giving_way` works all the same without the call, and takes the brokers' cores while it does."""
    allowed: set[str] = set()
    for line in re.findall(r"^SystemCallFilter=(.+)$", SERVICE.read_text("utf-8"), re.MULTILINE):
        named = set().union(*(system_calls(word) for word in line.removeprefix("~").split()))
        allowed = allowed - named if line.startswith("~") else allowed | named
    assert {"setpriority", "read"} <= allowed
    assert allowed.isdisjoint({"sched_setscheduler", "ioprio_set", "setuid", "mount"})


def system_calls(word: str) -> set[str]:
    """Those of a group, by systemd's own list; or the one that it names."""
    if not word.startswith("@"):
        return {word}
    said = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", word], capture_output=True, text=True, check=True
    )
    members = {
        line.strip() for line in said.stdout.splitlines()[1:] if line.strip() and not line.strip().startswith("#")
    }
    return set().union(*(system_calls(member) for member in members))


def test_the_service_is_ready_when_it_says_so_and_has_time_to_drain() -> None:
    service = unit(SERVICE)["Service"]
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    limits = load_settings(ROOT / "examples" / "proxy.toml").limits
    assert int(service["TimeoutStopSec"].removesuffix("s")) > limits.drain_seconds
    # A loop that hangs ends the process by itself, with a line that says where, before systemd does.
    assert int(service["WatchdogSec"].removesuffix("s")) > limits.stall_seconds


@pytest.mark.parametrize("path", sorted(FILES.glob("*.service")), ids=lambda path: path.stem)
def test_units_run_what_every_system_has_or_the_package_brings(path: Path) -> None:
    """A small Debian has no /bin/kill; tests/machine boots one."""
    commands = [value for key, value in unit(path)["Service"].items() if key.startswith("Exec")]
    ours = ("/usr/bin/throttle-sidecar", "/usr/lib/kafka-throttle-sidecar/redirect.sh", "/bin/sh")
    assert commands
    assert {command.split()[0] for command in commands} <= set(ours)


def test_who_is_redirected_is_told_apart_by_the_services_user() -> None:
    user = unit(SERVICE)["Service"]["User"]
    assert f'--uid "$(id -u {user})"' in (FILES / "kafka-throttle-redirect.service").read_text()
    assert re.match(rf"u {user} ", (FILES / "sysusers.conf").read_text())
    for script in ("postinstall.sh", "postremove.sh"):
        assert user in (FILES / script).read_text()


def test_the_guard_may_write_where_the_manual_has_its_metrics() -> None:
    """With ProtectSystem=strict it may write nowhere else, and without the capability only where root owns the folder:
    node_exporter's is often node_exporter's own."""
    service = unit(GUARD)["Service"]
    written = re.findall(
        r"^ +(?:TEXTFILE=|.*--textfile )(/[\w/.-]+)", (ROOT / "docs" / "operating.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(set(written)) == 2
    folders = [path.removeprefix("-") for path in service["ReadWritePaths"].split()]
    for path in written:
        assert any(Path(path).is_relative_to(folder) for folder in folders), path
    # What is not there on this host is passed over.
    assert [path for path in service["ReadWritePaths"].split() if path != "/run" and not path.startswith("-")] == []
    assert "CAP_DAC_OVERRIDE" in service["CapabilityBoundingSet"].split()


@pytest.mark.parametrize("script", ["postinstall.sh", "preremove.sh", "postremove.sh", "throttle-sidecar"])
def test_scripts_are_of_any_posix_shell(script: str) -> None:
    subprocess.run(["sh", "-n", FILES / script], check=True)
    assert os.access(FILES / script, os.X_OK)


def test_the_launcher_takes_the_first_python_that_has_libraries(tmp_path: Path) -> None:
    home = tmp_path / "home"
    text = (FILES / "throttle-sidecar").read_text().replace("/usr/lib/kafka-throttle-sidecar", str(home))
    (tmp_path / "throttle-sidecar").write_text(text)
    own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for name, version in (("python3", "3.7"), (own, own.removeprefix("python"))):
        # What it asks is answered; what it starts is shown.
        (tmp_path / name).write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo {version} || echo {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    command = ["/bin/sh", str(tmp_path / "throttle-sidecar"), "check", "--config", "a b"]
    environment = {"PATH": str(tmp_path)}
    (home / "python3.8").mkdir(parents=True)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "throttle-sidecar: needs one of" in done.stderr
    (home / own).mkdir()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{own} -I {home}/start.py check --config a b\n"
