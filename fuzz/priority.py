"""Who goes first where cores are few: the attackers last, the sidecars and the victims before them.

A nice value is a thread's own on Linux and inherited, so it is given at the start of a process. Only root may undo one,
or go before everybody else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NICE_OF_ATTACKERS = 10
ENVIRONMENT = "FUZZ_NICE"
"""The nice value of sidecars and victims; 0 by default. If it is negative, the attackers have 0."""


def be_nice() -> None:
    """Have the attackers go last, where that can be undone for those who shall not."""
    if os.geteuid() == 0:
        os.nice((0 if _of_victims() < 0 else NICE_OF_ATTACKERS) - os.nice(0))


def before_attackers(command: Sequence[str]) -> list[str]:
    """The command as it is run by those who shall not go last."""
    difference = _of_victims() - os.nice(0)
    if os.geteuid() != 0 or difference == 0:
        return list(command)
    return ["nice", "-n", str(difference), *command]


def _of_victims() -> int:
    return int(os.environ.get(ENVIRONMENT, "0"))
