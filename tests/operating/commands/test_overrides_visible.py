"""What /throttle, /config and ``status`` show of an override: its word, what that hides, and when it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest

from operating.status.words import holding
from proxy.observing.throttle_page import Page
from proxy.quotas.override import Override, PlacedValue

from ..fleet.sidecars import RATE, OneSidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def one(tmp_path: Path) -> Iterator[OneSidecar]:
    made = OneSidecar(tmp_path / "101", 101)
    yield made
    made.server.close()


def page_of(one: OneSidecar) -> Page:
    steps = one.page.throttle(0.0)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return msgspec.convert(msgspec.to_builtins(done.value), Page)


async def test_an_override_is_shown_with_what_it_hides(one: OneSidecar) -> None:
    now = datetime.now(UTC)
    changes = (PlacedValue("broker", RATE, "5MiB/s"),)
    until = now + timedelta(hours=2)
    await one.keeper.add(Override(id="aaaa", by="ana", since=now, until=until, label="move", changes=changes))
    await one.keeper.add(Override(id="bbbb", by="bob", since=now, changes=(PlacedValue("mode", "enforce", False),)))
    first, second = page_of(one).quotas.overrides
    (effective,) = first.effective
    assert (effective.value, effective.hides) == ("5.00 MiB/s (5242880 B/s)", "50.00 MiB/s (52428800 B/s)")
    assert (effective.layer, second.effective[0].layer) == ("brokers.default", "default")
    told = [line for line in holding([page_of(one)], now) if "broker 101: override" in line]
    assert told == [
        (
            f"broker 101: override aaaa (move) by ana, ends {until:%Y-%m-%d %H:%M:%S} UTC (in 2h00m): {RATE} "
            "5.00 MiB/s (5242880 B/s), hides 50.00 MiB/s (52428800 B/s), brokers.default"
        ),
        "broker 101: override bbbb by bob, no end: mode.enforce false, hides true, default",
    ]


async def test_one_that_a_newer_one_hides_is_said_not_to_be_effective(one: OneSidecar) -> None:
    now = datetime.now(UTC)
    for name in ("aaaa", "bbbb"):
        change = PlacedValue("broker", RATE, int(name, 16))
        await one.keeper.add(Override(id=name, by="ana", since=now, changes=(change,)))
    older, newer = page_of(one).quotas.overrides
    assert (older.effective, newer.effective[0].layer) == ((), "override aaaa: brokers.101")
    assert "broker 101: override aaaa by ana, no end: hidden by newer overrides" in holding([page_of(one)], now)
