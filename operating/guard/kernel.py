"""Puts rules into the kernel's packet filter by iptables, for IPv4 and IPv6, and sees whether they are still there.

Blocking. Invariants: a table changes in one transaction or not at all; a change that is refused is an error that says
what iptables said; `leads_around` is what iptables lists, and not what was wanted of it; what `RouteLocalnet.switch_on`
has changed, `restore` changes back.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.errors import ConfigurationError

from .rules import Rules, chains, lead_around, of_guard, tables, transaction

if TYPE_CHECKING:
    from .ways import Ways


_COMMANDS = {4: "iptables", 6: "ip6tables"}
_LOCK_SECONDS = "5"
_TIMEOUT_SECONDS = 15
_Held = dict[tuple[int, str], tuple[str, ...]]
_FOLDER = Path("/proc/sys/net/ipv4/conf")
COMMAND = "sysctl -w net.ipv4.conf.all.route_localnet=1"


class PacketFilter:
    """The rules of a guard in the kernel's packet filter.

    `route_localnet`: the kernel's setting, which some ways need as well.
    """

    def __init__(self, ways: Ways, route_localnet: RouteLocalnet | None = None) -> None:
        self._ways = ways
        self._route_localnet = route_localnet or RouteLocalnet()
        self._families = families(ways)
        self._held: _Held | None = None
        """The lines of ours that iptables listed after it had taken all; None: it has not, or no longer had them."""
        self.leads_around = False
        """True if others than the guard are led around the sidecar, all of them or a part, when that was last seen."""

    def put(self, rules: Rules) -> None:
        """Put `rules` in force in place of those before.

        Raises ConfigurationError: a part of it may be in force.
        """
        self._held = None
        try:
            lines = self._change(rules)
        except ConfigurationError:
            with contextlib.suppress(ConfigurationError):
                self._look()
            raise
        held = self._look()
        if sum(map(len, held.values())) == lines:
            self._held = held

    def intact(self) -> bool:
        """Return True if the kernel has the rules that were put last. Raises ConfigurationError."""
        return self._look() == self._held and (not self._needs_route_localnet or self._route_localnet.is_on())

    @property
    def _needs_route_localnet(self) -> bool:
        return any(map(self._ways.need_route_localnet, self._families))

    def _change(self, rules: Rules) -> int:
        """Return how many lines of ours iptables has now."""
        lines = 0
        if self._needs_route_localnet and rules is Rules.NOTHING:
            self._route_localnet.restore()
        for family in self._families:
            for wanted in tables(self._ways, rules, family):
                command = _COMMANDS[family]
                text = transaction(wanted, _listed(command, wanted.name))
                _run([f"{command}-restore", "-w", _LOCK_SECONDS, "--noflush"], text)
                lines += wanted.lines
        # After the rule that keeps loopback closed to neighbours.
        if self._needs_route_localnet and rules is not Rules.NOTHING:
            self._route_localnet.switch_on()
        return lines

    def _look(self) -> _Held:
        ours = chains(self._ways.broker)
        held = {
            (family, table): of_guard(ours, _listed(_COMMANDS[family], table))
            for family in self._families
            for table in ("nat", "filter")
        }
        self.leads_around = any(lead_around(ours, held[family, "nat"]) for family in self._families)
        return held


def families(ways: Ways) -> list[int]:
    """Return the address families that the ways need: those of the detours, and for a redirection all that this host
    has."""
    found = {each.family for each in ways.detours}
    if ways.redirected_to is not None:
        found |= {4, 6} if Path("/proc/net/if_inet6").exists() else {4}
    return sorted(found)


def _listed(command: str, table: str) -> str:
    return _run([command, "-w", _LOCK_SECONDS, "-t", table, "-S"], "")


def _run(command: list[str], text: str) -> str:
    if shutil.which(command[0]) is None:
        raise ConfigurationError(f"{command[0]} is missing (Debian: apt-get install iptables)")
    try:
        # Comments in rules of others are bytes.
        ran = subprocess.run(
            command, input=text, capture_output=True, text=True, errors="surrogateescape", check=False,
            timeout=_TIMEOUT_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"{command[0]} did not end within {_TIMEOUT_SECONDS} s") from error
    except OSError as error:  # there is no memory, or no process to be had
        raise ConfigurationError(f"{command[0]}: cannot be run: {error.strerror or error}") from error
    if ran.returncode:
        said = ran.stderr.strip() or f"status {ran.returncode}"
        raise ConfigurationError(f"{command[0]} failed: {said} (it needs root or CAP_NET_ADMIN)")
    return ran.stdout


class RouteLocalnet:
    """The setting net.ipv4.conf.*.route_localnet of this process' network namespace: packets may pass between
    127.0.0.0/8 and other hosts.

    Without it the kernel drops them silently: a peer that is led from outside to a broker that listens on 127.0.0.1
    waits until its connection times out.
    """

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._folder = folder
        self._changed = False

    def is_on(self) -> bool:
        """Return True if it is on for all network devices, or for a device that leads to other hosts: that was chosen
        on purpose."""
        files = self._folder.glob("*/route_localnet")
        return any(_read(file) == "1" for file in files if file.parent.name not in ("lo", "default"))

    def switch_on(self) -> None:
        """Switch it on, unless it is. Raises ConfigurationError with the command that does it."""
        if self.is_on():
            return
        try:
            self._write("1")
        except OSError as error:
            raise ConfigurationError(
                "net.ipv4.conf.all.route_localnet: expected 1, since a way around the sidecar leads between loopback "
                f"and another host; found 0, and setting it failed ({error.strerror}); run as root: {COMMAND}"
            ) from error
        self._changed = True

    def restore(self) -> None:
        """Restore the former value. Raises ConfigurationError."""
        if not self._changed:
            return
        try:
            self._write("0")
        except OSError as error:
            raise ConfigurationError(
                f"net.ipv4.conf.all.route_localnet: expected to set it to 0, as it was: {error.strerror}"
            ) from error
        self._changed = False

    def _write(self, value: str) -> None:
        (self._folder / "all" / "route_localnet").write_text(f"{value}\n", "utf-8")


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except OSError:  # the device is gone, and its folder with it
        return ""
