"""deploy/packages: units that are closed to the world, scripts for any shell, a launcher that finds a Python."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy.packages.building import PYTHONS
from proxy.config.settings import load_settings
from proxy.control.directory import short_path
from proxy.process.watchdog import STALL_SECONDS

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "packages" / "files"
SERVICE = FILES / "kafka-throttle-sidecar.service"
GUARD = FILES / "kafka-throttle-guard.service"
PACKAGE = "kafka-throttle-sidecar"
MAX_EXPOSED = 2.0


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
    assert float(found[1]) <= MAX_EXPOSED


def test_a_new_version_may_give_way_to_the_old_one() -> None:
    """`operating.commands.run` works all the same without the call, and uses brokers' cores meanwhile."""
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
    assert int(service["WatchdogSec"].removesuffix("s")) > STALL_SECONDS


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
        r"^ +(?:TEXTFILE=|.*--textfile )(/[\w/.-]+)", (ROOT / "docs" / "guard.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(set(written)) == 2
    folders = [path.removeprefix("-") for path in service["ReadWritePaths"].split()]
    for path in written:
        assert any(Path(path).is_relative_to(folder) for folder in folders), path
    # What is not there on this host is passed over.
    assert [path for path in service["ReadWritePaths"].split() if path != "/run" and not path.startswith("-")] == []
    assert "CAP_DAC_OVERRIDE" in service["CapabilityBoundingSet"].split()


def test_the_manual_has_the_service_read_files_that_it_may() -> None:
    """Examples that are copied have the mode that root's umask leaves."""
    text = (ROOT / "docs" / "packages.md").read_text("utf-8")
    user = unit(SERVICE)["Service"]["User"]
    assert re.findall(rf"^ +cp .*/etc/{PACKAGE}", text, re.MULTILINE) == []
    assert f"install -g {user} -m 0640 /usr/share/doc/{PACKAGE}/examples/*.toml /etc/{PACKAGE}/" in text


@pytest.mark.parametrize(
    "script", ["preinstall.sh", "postinstall.sh", "preremove.sh", "postremove.sh", "throttle-sidecar", "upgrade.sh"]
)
def test_scripts_are_of_any_posix_shell(script: str) -> None:
    subprocess.run(["sh", "-n", FILES / script], check=True)
    assert os.access(FILES / script, os.X_OK)


class Host:
    """Where the package's scripts think that they are: its libraries, a Python, a systemd that notes what it hears."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "lib"
        self.own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        (self.home / self.own / "kept").mkdir(parents=True)
        (self.home / self.own / "kept" / "module.py").write_text("x = 1\n")
        (self.home / "upgrade.sh").write_text(self.text("upgrade.sh"))
        self.told = folder / "told"
        programs = folder / "bin"
        programs.mkdir()
        self.program("systemctl", f'echo "$@" >> {self.told}')
        self.program("python3", f'exec {sys.executable} "$@"')
        for name in ("systemd-sysusers", "chgrp", "chmod"):
            self.program(name, "exit 0")

    def program(self, name: str, text: str) -> None:
        (self.folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.folder / "bin" / name).chmod(0o755)

    def text(self, script: str) -> str:
        """Return the script with the folders of this host in place of the machine's."""
        text = (FILES / script).read_text().replace("/usr/lib/kafka-throttle-sidecar", str(self.home))
        text = text.replace("/etc/systemd/system", str(self.folder))
        return text.replace("/run/systemd/system", str(self.folder)).replace("/run/kafka", f"{self.folder}/run-kafka")

    def run(self, script: str, action: str) -> subprocess.CompletedProcess[str]:
        text = self.text(script)
        environment = {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        command = ["/bin/sh", "-c", text, script, action]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    def compiled(self) -> list[str]:
        return sorted(path.name.partition(".")[0] for path in self.home.rglob("*.pyc"))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("action", ["install", "upgrade", "1", "2"])
def test_a_socket_unit_of_the_operators_would_hold_the_ports_so_nothing_is_installed(host: Host, action: str) -> None:
    """Until 0.1.0 systemd could listen for the sidecar; a later one would find every address in use."""
    assert host.run("preinstall.sh", action).returncode == 0
    (host.folder / "kafka-throttle-sidecar.socket").touch()
    done = host.run("preinstall.sh", action)
    assert done.returncode == 1
    assert "systemctl disable --now kafka-throttle-sidecar.socket && rm " in done.stderr


def test_an_upgrade_of_the_rpm_keeps_the_bytecode_that_it_has_just_made(host: Host) -> None:
    """rpm runs the new package's script first, then the old one's, then deletes what only the old one had. Without its
    bytecode the service, which may not write it, would compile its libraries at every start."""
    gone = host.home / host.own / "gone"
    gone.mkdir()
    (gone / "module.py").write_text("x = 2\n")
    (gone.parent / "old.py").write_text("x = 3\n")
    assert host.run("postinstall.sh", "2").returncode == 0
    assert host.compiled() == ["module", "module", "old"]
    assert host.run("preremove.sh", "1").returncode == 0
    (gone / "module.py").unlink()
    (gone.parent / "old.py").unlink()
    assert host.run("postremove.sh", "1").returncode == 0
    assert host.compiled() == ["module"]
    assert not gone.exists()


@pytest.mark.parametrize("action", ["remove", "upgrade", "0"])
def test_a_removal_leaves_no_bytecode(host: Host, action: str) -> None:
    """Of a .deb also an upgrade, where the old package's script runs before anything is unpacked."""
    assert host.run("postinstall.sh", "configure").returncode == 0
    assert host.compiled() == ["module"]
    assert host.run("preremove.sh", action).returncode == 0
    assert list(host.home.rglob("__pycache__")) == []


def test_a_service_that_does_not_start_leaves_the_package_installed(host: Host) -> None:
    """Otherwise dpkg would have it half configured for a typo in proxy.toml, and stop the other packages' upgrades."""
    host.program("systemctl", f'[ "$1" = show ] && echo 7 && exit; echo "$@" >> {host.told}; [ "$1" != try-restart ]')
    done = host.run("postinstall.sh", "configure")
    assert done.returncode == 0
    restarted = [f"try-restart kafka-throttle-{name}.service" for name in ("sidecar", "guard")]
    # The guard is restarted as well, which would go on with the program of before, and after the sidecar is ready.
    assert host.told.read_text().splitlines() == ["daemon-reload", *restarted]
    for name in ("sidecar", "guard"):
        assert f"kafka-throttle-{name}.service did not start again: journalctl -u kafka-throttle-{name}" in done.stderr


@pytest.mark.parametrize(
    ("runs", "offers", "is_replaced", "told"),
    [
        (True, True, True, ["took over"]),
        (True, True, False, ["try-restart kafka-throttle-sidecar.service"]),
        (True, False, False, ["try-restart kafka-throttle-sidecar.service"]),
        (False, False, False, []),
    ],
    ids=["it hands over", "the new one fails", "an older version runs", "none runs"],
)
def test_an_upgrade_restarts_only_what_does_not_hand_over(
    host: Host, *, runs: bool, offers: bool, is_replaced: bool, told: list[str]
) -> None:
    """Every upgrade was a restart, during which producers with acks=all waited for two seconds."""
    main = host.folder / "main"
    host.program("systemctl", f'[ "$1" = show ] && cat {main} && exit; echo "$@" >> {host.told}')
    host.program("sleep", "exit 0")
    own = host.folder / "run-kafka-throttle-sidecar" / "101"
    own.mkdir(parents=True)
    host.told.touch()
    replaced = f"echo took over >> {host.told}; echo 2 > {main}" if is_replaced else ":"
    command = ["sh", "-c", f"trap '{replaced}' USR2; echo ready; while kill -0 $PPID; do read -r _ || sleep 0.1; done"]
    with (
        socket.socket(socket.AF_UNIX) as listener,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sidecar,
    ):
        assert sidecar.stdout is not None
        try:
            sidecar.stdout.readline()
            main.write_text(f"{sidecar.pid if runs else 0}\n")
            if offers:
                with short_path(own / "handover.sock") as path:
                    listener.bind(path)
            assert host.run("upgrade.sh", "").returncode == 0
        finally:
            sidecar.kill()
    assert host.told.read_text().splitlines() == told


def test_packages_want_a_python_that_they_bring_libraries_for() -> None:
    """A later one would be installed beside, and every command then refused."""
    text = (FILES.parent / "nfpm.yaml").read_text("utf-8")
    wanted = yaml.safe_load(re.sub(r"\$\{(\w+)\}", r"\1", text))["overrides"]
    first, last = PYTHONS[0], PYTHONS[-1]
    major, minor = last.split(".")
    after = f"{major}.{int(minor) + 1}"
    assert wanted["deb"]["depends"] == [f"python3 (>= {first})", f"python3 (<< {after})"]
    alternatives = " or ".join([f"(python3 >= {first} with python3 < {after})", *(f"python{each}" for each in PYTHONS)])
    assert wanted["rpm"]["depends"] == [f"({alternatives})"]
    assert after not in (FILES / "throttle-sidecar").read_text()


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
