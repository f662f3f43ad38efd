"""Work that gives way: at a lower priority than whoever waits for it, which keeps its own."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from operating.commands.run import NICE, give_way

if TYPE_CHECKING:
    import pytest


def priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_the_work_has_a_lower_priority_and_who_waits_for_it_does_not() -> None:
    before, seen = priority(), []
    give_way(lambda: seen.append(priority()))
    assert seen == [NICE]
    assert priority() == before


def test_work_that_fails_is_told_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda failed: told.append(failed.exc_type))
    give_way(lambda: 1 // 0)
    assert told == [ZeroDivisionError]
