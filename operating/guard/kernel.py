"""Puts tables into the kernel's packet filter by iptables, for IPv4 and IPv6.

Blocking. Invariant: a table changes in one transaction or not at all; a change that is refused is an error that says
what iptables said.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.errors import ConfigurationError

from .rules import tables, transaction

if TYPE_CHECKING:
    from .decision import Way
    from .rules import Table
    from .ways import Ways

_COMMANDS = {4: "iptables", 6: "ip6tables"}
_LOCK_SECONDS = "5"
_TIMEOUT_SECONDS = 15


class PartlyTakenError(ConfigurationError):
    """The way around was refused after a table was taken that leads around: some connections go around the sidecar
    now, and others still lead to it."""


def families(ways: Ways) -> list[int]:
    """Return the address families that the ways need: those of the detours, and for a redirection all that this host
    has."""
    found = {each.family for each in ways.detours}
    if ways.redirected_to is not None:
        found |= {4, 6} if Path("/proc/net/if_inet6").exists() else {4}
    return sorted(found)


def apply(ways: Ways, way: Way | None) -> None:
    """Put `way` in force, or take away all that was.

    Raises:
        PartlyTakenError: a part of the way around is in force.
        ConfigurationError: nothing leads around that did not before.
    """
    leads_around = False
    for family in families(ways):
        for wanted in tables(ways, way, family):
            try:
                _put(_COMMANDS[family], wanted)
            except ConfigurationError as error:
                if leads_around:
                    raise PartlyTakenError(error.problems) from error
                raise
            # The filter's rules only reset connections; where new ones lead is for nat alone to say.
            leads_around |= wanted.name == "nat" and bool(wanted.rules)


def _put(command: str, wanted: Table) -> None:
    listed = _run([command, "-w", _LOCK_SECONDS, "-t", wanted.name, "-S"], "")
    _run([f"{command}-restore", "-w", _LOCK_SECONDS, "--noflush"], transaction(wanted, listed))


def _run(command: list[str], text: str) -> str:
    if shutil.which(command[0]) is None:
        raise ConfigurationError(f"{command[0]} is missing (Debian: apt-get install iptables)")
    try:
        ran = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"{command[0]} did not end within {_TIMEOUT_SECONDS} s") from error
    if ran.returncode:
        said = ran.stderr.strip() or f"status {ran.returncode}"
        raise ConfigurationError(
            f"{command[0]}: expected root or CAP_NET_ADMIN, and rules that it takes; it said: {said}"
        )
    return ran.stdout
