"""How the demo looks, with and without a terminal."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console

from lab.demo.command import NEXT
from lab.demo.screen import Screen
from lab.demo.stage import Check
from lab.demo.story import MIB, Ending, Phase
from lab.measuring.figures import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLE = {
    "quota_bytes_per_second": 4.0 * MIB, "rate_bytes_per_second": 3.5 * MIB, "lag_messages": 12345,
    "eta_seconds": 7.4, "omitted_partitions_total": 99, "held_requests": 1,
}  # fmt: skip


class Still:
    title = "orders: replicas move"
    total_bytes = 64 * MIB

    def seen(self) -> Sequence[Event]:
        return [Event(time.monotonic() - 0.5, 2 * MIB)]

    async def throttles(self) -> list[dict[str, Any]]:
        unlimited = {**ROLE, "quota_bytes_per_second": None}
        return [{"broker": 101, "roles": {"leader": ROLE, "follower": unlimited}}]


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=120 if terminal else 80, _environ={}), out


async def test_a_terminal_gets_a_live_table_of_the_roles_that_throttle() -> None:
    shown, out = console(terminal=True)
    with Screen(shown) as screen:
        await screen.show(Still(), started=time.monotonic(), quota=4.0 * MIB)
    text = out.getvalue()
    assert "101 as leader" in text
    assert "101 as follower" not in text
    assert "12,345 messages" in text
    assert "7 s" in text


async def test_elsewhere_there_is_one_plain_line_a_second() -> None:
    shown, out = console(terminal=False)
    with Screen(shown) as screen:
        for _ in range(3):
            await screen.show(Still(), started=time.monotonic(), quota=4.0 * MIB)
    assert out.getvalue().count("last second  2.00 of 4.00 MiB/s (0.50 x)") == 1
    assert "\x1b" not in out.getvalue()


async def test_elsewhere_no_line_is_longer_than_80_columns() -> None:
    shown, out = console(terminal=False)
    with Screen(shown) as screen:
        still = Still()
        still.total_bytes = 4096 * MIB
        await screen.show(still, started=time.monotonic() - 999, quota=1000.0 * MIB)
    assert out.getvalue().count("\n") == 1, "it was wrapped"
    assert max(map(len, NEXT.splitlines())) <= 80


def test_the_end_says_what_failed() -> None:
    shown, out = console(terminal=False)
    phase = Phase(4.0 * MIB, 40 * MIB, 10.0, 1.0, 1.12)
    Screen(shown).end(Ending([phase], [Check("equal", True, "6 of 6"), Check("no shrink", False, "2")], 40 * MIB, 10.0))
    text = out.getvalue()
    assert "1.12" in text
    assert "ok" in text
    assert "FAIL" in text
