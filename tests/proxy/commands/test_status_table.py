from __future__ import annotations

import io

import pytest
from rich.console import Console

from proxy.commands.status_table import (
    Page,
    PartitionState,
    QuotasState,
    RoleState,
    layout,
)


def shown(*pages: Page, unreachable: tuple[str, ...] = ()) -> list[str]:
    console = Console(file=io.StringIO(), width=160)
    console.print(layout(pages, unreachable))
    assert isinstance(console.file, io.StringIO)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def page(*, role: RoleState, enforce: bool = True, quotas: QuotasState | None = None) -> Page:
    return Page(101, "strict", enforce, quotas or QuotasState("abc"), {"follower": role})


def test_a_row_per_role() -> None:
    role = RoleState(2**20, 2.0**19, 3, 4, 5, connections=6, held_requests=7, lag_messages=8, eta_seconds=90)
    assert shown(page(role=role)) == [
        "broker role quota rate of quota omitted lag ETA connections holding",
        "101 follower 1.00 MiB/s 512.00 KiB/s 50% 7 8 1m30s 6 7",
    ]


@pytest.mark.parametrize(("quota", "cells"), [(None, "unlimited 1 B/s -"), (0, "0 B/s 1 B/s -")])
def test_a_share_needs_a_quota(quota: float | None, cells: str) -> None:
    assert cells in shown(page(role=RoleState(quota, 1.0)))[1]


def test_the_partitions_furthest_behind_come_first() -> None:
    partitions = tuple(PartitionState("t", n, "102", n % 2 == 0, n * 10, 1.0) for n in range(15))
    lines = shown(page(role=RoleState(None, 1.0, partitions=partitions)))
    assert lines[3:6] == [
        "broker role topic peer partition lag rate in sync",
        "101 follower t 102 14 140 1 B/s yes",
        "101 follower t 102 13 130 1 B/s no",
    ]
    assert len(lines) == 4 + 10


def test_what_is_amiss_is_said_below() -> None:
    role = RoleState(None, 0.0, undecoded={"tls": 2})
    quotas = QuotasState("abc", last_reload_successful=False, last_error="quotas.toml: x")
    assert shown(page(role=role, enforce=False, quotas=quotas), unreachable=("nobody",))[2:] == [
        "warning: broker 101: observing only, mode.enforce is false",
        "warning: broker 101: last good quotas kept: quotas.toml: x",
        "warning: broker 101, follower: 2 undecoded (tls), not throttled",
        "nobody",
    ]
