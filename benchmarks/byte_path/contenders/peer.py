"""A peer: the process between a follower and a leader.

A peer is a way to write its files, and a command; what is not on this machine says so and is left out. Knows nothing
A peer is a command and a way to write its files. If it is not installed on this machine, it says so and is left out.
Knows nothing of measuring. Invariant: a peer's name and description say everything in which it differs from its
program's defaults.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class MissingError(Exception):
    """Raised when this machine lacks what a peer needs; the message says how to get it."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a peer: a folder of its own, where it listens and where the leader is (ports of 127.0.0.1)."""

    home: Path
    ports: list[int]
    leader: int
    http: int

    @property
    def port(self) -> int:
        """The first, to most peers the only one."""
        return self.ports[0]


@dataclass(frozen=True, slots=True)
class Peer:
    """One process that is compared.

    Args:
        name: for tables and the command line.
        about: its configuration in words.
        command: writes its files and returns its command line; raises MissingError. None: nothing in between.
        version: what its program says about itself.
        quick: whether it is one of the few of `--quick`.
        listeners: on how many ports it listens.
        jit_seconds: how long each load goes through it before anything counts: a JVM compiles what it runs.
    """

    name: str
    about: str
    command: Callable[[Place], list[str]] | None
    version: Callable[[], str]
    quick: bool = False
    jit_seconds: float = 0.0
    listeners: int = 1


def program(name: str, package: str) -> str:
    """Return the path of a program. Raises MissingError with the Debian packages that bring it."""
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if found is None:
        raise MissingError(f"{name} is not here: apt-get install --no-install-recommends {package}")
    return found


def said(pattern: str, *command: str) -> str:
    """Return what a program prints about its version."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(pattern, done.stdout + done.stderr)
    return found[1] if found else "of unknown version"
