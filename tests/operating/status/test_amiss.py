from __future__ import annotations

from typing import Any

import pytest

from operating.fleet.members import Member
from operating.status.rows import Sidecar, rows
from operating.status.words import warnings
from proxy.observing.throttle_page import (
    JournalState,
    Page,
    PassingState,
    QuotasState,
    QuotaWarningState,
    RateState,
    RoleState,
)

MIB = 2.0**20
TOO_MUCH = "broker 1, leader: replicas behind got more than 105 % of the quota in the last 11 seconds"
LATE = RateState("x", 1.0, 9.0, late=True, reason="it will be late")


def found(role: dict[str, Any], page: dict[str, Any]) -> tuple[bool, list[str]]:
    """Whether the row is marked, and what is warned of."""
    leader = RoleState(
        **{"quota_bytes_per_second": 4 * MIB, "rate_bytes_per_second": MIB, "lowered_seconds": 900.0, **role}
    )
    of = {"enforce": True, "quotas": QuotasState("a"), **page}
    shown = rows((Sidecar(Member("http://1"), page=Page(1, "strict", roles={"leader": leader}, **of)),))
    return shown.roles[0].is_amiss, warnings(shown.roles, shown.pages)


@pytest.mark.parametrize(
    ("role", "page", "warning"),
    [
        ({"quota_bytes_per_second": 0.0}, {}, "broker 1, leader: the quota is 0: catch-up is stopped"),
        ({"passing_bytes_per_second": PassingState(4.3 * MIB)}, {}, TOO_MUCH),
        ({"passing_bytes_per_second": PassingState(4.3 * MIB), "lowered_seconds": 13.0}, {}, TOO_MUCH),
        ({"passing_bytes_per_second": PassingState(5 * MIB), "connections": 4}, {}, TOO_MUCH),
        ({"undecoded": {"x": 3}}, {}, "broker 1, leader: 3 undecoded (x): passed unthrottled"),
        ({"quota_warnings": (QuotaWarningState("tiny_rate", "so little"),)}, {}, "broker 1, leader: so little"),
        ({"connections_without_fetches": 2}, {},
         "broker 1, leader: 2 connections without replica fetches: passed unthrottled (clients, or undecoded)"),
        ({"rate": LATE}, {}, "broker 1, leader: it will be late"),
        ({}, {"enforce": False}, "broker 1: observing only, nothing is throttled (mode.enforce is false)"),
        ({}, {"quotas": QuotasState("a", last_reload_successful=False, last_error="no")},
         "broker 1: quotas.toml is wrong, the last good one holds: no"),
        ({}, {"journal": JournalState(9, 7)},
         "broker 1: 7 journal lines dropped: the disk is full, slow or not writable"),
    ],
)  # fmt: skip
def test_what_is_warned_of_is_marked(role: dict[str, Any], page: dict[str, Any], warning: str) -> None:
    assert found(role, page) == (True, [warning])


@pytest.mark.parametrize(
    "role",
    [
        {},
        {"quota_bytes_per_second": None, "rate_bytes_per_second": 900 * MIB},
        {"passing_bytes_per_second": PassingState(4.1 * MIB)},
        # The quota was higher within those eleven seconds, or may have been.
        {"passing_bytes_per_second": PassingState(8 * MIB), "lowered_seconds": 12.9},
        {"passing_bytes_per_second": PassingState(8 * MIB), "lowered_seconds": None},  # an older sidecar
        {"passing_bytes_per_second": PassingState(8 * MIB), "rate": RateState("x", 1.0, 9.0)},
        # Nothing holds back what goes to replicas in sync, and a batch comes whole.
        {"rate_bytes_per_second": 8 * MIB, "passing_bytes_per_second": PassingState(0.0, 8 * MIB)},
        {"quota_bytes_per_second": MIB / 16, "passing_bytes_per_second": PassingState(MIB / 7), "connections": 1},
        {"rate_bytes_per_second": 8 * MIB},
        {"quota_bytes_per_second": None, "connections_without_fetches": 2},
    ],
)
def test_what_is_as_it_should_be_is_neither_marked_nor_warned_of(role: dict[str, Any]) -> None:
    assert found(role, {}) == (False, [])


@pytest.mark.parametrize(
    "role",
    [
        {"quota_bytes_per_second": 0.0},
        {"rate": LATE},
        {"passing_bytes_per_second": PassingState(900 * MIB)},
    ],
)
def test_a_quota_that_is_only_observed_holds_nothing_back(role: dict[str, Any]) -> None:
    _, told = found(role, {"enforce": False})
    assert told == ["broker 1: observing only, nothing is throttled (mode.enforce is false)"]


def test_clients_have_no_batch_beyond_the_quota() -> None:
    role = {"passing_bytes_per_second": PassingState(60 * MIB), "connections": 900, "connections_without_fetches": 898}
    assert TOO_MUCH in found(role, {})[1]
