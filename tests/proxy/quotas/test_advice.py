from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from proxy.quotas.advice import MAX_WARNINGS, advise, without_effect
from proxy.quotas.override import Override, PlacedValue, layer_of
from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import effective
from proxy.roles import Role

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
RATE = "leader.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"
OWN = f"[brokers.1]\n{RATE} = 5000000\n{LIST} = '*'\n"


@pytest.mark.parametrize(
    ("file", "warnings"),
    [
        ("# nothing", []),
        (f'[brokers.1]\n{RATE} = 5000000\n{LIST} = "*"', []),
        (f'[brokers.1]\n{RATE} = 65536\n{LIST} = "*"', []),
        (
            f'[brokers.1]\n{RATE} = 50\n{LIST} = "*"',
            [
                (
                    "leader: the rate is 50 B/s, less than the 64 KiB of one portion: catch-up almost stops. "
                    "Was a unit forgotten? (50MiB/s; an integer is bytes per second)"
                )
            ],
        ),
        (
            f"[brokers.1]\n{RATE} = 5",
            ["leader: a quota of 5 B/s is set, but no replicas are listed for broker 1: throttles nothing"],
        ),
        (
            f'[brokers.1]\n{LIST} = "*"',
            ["leader: replicas are listed, but no rate is set: counted, not throttled"],
        ),
        (
            f'[brokers.1]\n{RATE} = 0\n{LIST} = "*"',
            ["leader: the quota is 0: catch-up of the listed replicas stops until it is raised"],
        ),
        (
            f'[topics.a]\n{LIST} = "0:2,1:3"',
            [
                (
                    f"topics.a.{LIST}: names broker 2, 3, not 1: "
                    "selects nothing here (partition:broker, the broker that throttles)"
                )
            ],
        ),
        (
            "[brokers.1]\nuntil = 2026-11-01T12:00:00Z",
            ["brokers.1: until 2026-11-01 12:00:00+00:00 has passed, the section does not count"],
        ),
        ("[topics.__cluster_metadata]", ["topics.__cluster_metadata: the metadata log is never throttled"]),
        (f'{OWN}[peers.2]\n{RATE} = "1MiB/s"\n[topics."a*"]\n{RATE} = "2MiB/s"', []),
        (f'[peers.2]\n{RATE} = 5000000\n[brokers.1]\n{LIST} = "*"', []),
        (
            f"{OWN}[peers.2]\n{RATE} = 6000000",
            ["leader: peer 2: its rate of 5.72 MiB/s (6000000 B/s) is more than the role's: the role's is what holds"],
        ),
        (
            f"[peers.2]\n{RATE} = 70000",
            ["leader: peer 2: a rate is set, but no replicas are listed: throttles nothing"],
        ),
        (
            f"{OWN}[topics.a]\n{RATE} = 70000\n{LIST} = ''",
            ["leader: topic a: a rate is set, but no list selects it: throttles nothing"],
        ),
        (f"{OWN}[peers.2]\n{RATE} = 0", ["leader: peer 2: the rate is 0: its catch-up stops until it is raised"]),
        (
            f"{OWN}[peers.1]\n{RATE} = 70000",
            ["leader: peer 1: is this broker, which replicates nothing from itself: throttles nothing"],
        ),
        (
            f'{OWN}[topics.a]\n{LIST} = "1:0,1:2"',
            [f"topics.a.{LIST}: selects nothing here: expected partition:broker, like 0:1, found 1:0"],
        ),
        ("[mode]\nenforce = false", ["mode.enforce is false: quotas are observed, not enforced"]),
    ],
)
def test_what_is_hardly_meant_is_said(file: str, warnings: list[str]) -> None:
    assert advise(parse_quotas(file.encode()), 1, NOW) == warnings


NO_LIST = "leader: a quota of 5 B/s is set, but no replicas are listed for broker 1: throttles nothing"
SWAPPED = f"override abcd: topics.a.{LIST}: selects nothing here: expected partition:broker, like 0:1, found 1:0"


@pytest.mark.parametrize(
    ("file", "change", "texts"),
    [
        (OWN, None, []),
        (f"[brokers.default]\n{RATE} = 5", None, [NO_LIST]),
        ("", ("broker", RATE, 5), [NO_LIST]),
        (OWN, ("topics.a", LIST, "1:0"), [SWAPPED]),
        # A file may be many brokers': a list that names others, and a rate of the traffic with oneself, are none.
        (f'{OWN}[topics.a]\n{LIST} = "0:2,1:3"\n[peers.1]\n{RATE} = 70000', None, []),
        (f'{OWN}[topics.a]\n{LIST} = "1:0"\nuntil = 2026-11-01T12:00:00Z', None, []),
    ],
)
def test_what_has_no_effect_in_a_running_sidecar(
    file: str, change: tuple[str, str, Any] | None, texts: list[str]
) -> None:
    quota_file = parse_quotas(file.encode())
    if change is not None:
        made = Override(id="abcd", by="me", since=NOW, changes=(PlacedValue(*change),))
        quota_file = replace(quota_file, overrides=(layer_of(made, 1),))
    found = without_effect(quota_file, effective(quota_file, 1, NOW), 1, NOW)
    assert found == {Role.LEADER: texts, Role.FOLLOWER: []}


def test_of_many_rates_without_effect_some_are_told() -> None:
    quota_file = parse_quotas("".join(f"[topics.t{each}]\n{RATE} = 70000\n" for each in range(100)).encode())
    found = without_effect(quota_file, effective(quota_file, 1, NOW), 1, NOW)
    assert len(found[Role.LEADER]) == MAX_WARNINGS


def test_a_quota_for_a_role_that_is_not_served() -> None:
    quota_file = parse_quotas(f'[brokers.1]\n{RATE} = 5\n{LIST} = "*"'.encode())
    assert advise(quota_file, 1, NOW, roles=[Role.FOLLOWER]) == [
        "leader: a quota is set, but proxy.toml has no [ingress]: throttles nothing here"
    ]


def test_a_deadline_that_has_passed() -> None:
    table = '{ finish_by = 2026-01-01T06:00:00Z, max = "5MiB/s" }'
    quota_file = parse_quotas(f'[brokers.default]\n{RATE} = {table}\n{LIST} = "*"'.encode())
    before, after = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (5, 6))
    assert advise(quota_file, 101, before) == []
    passed = "leader: the time by 2026-01-01 06:00:00 UTC has passed: whatever falls behind goes at up to "
    assert advise(quota_file, 101, after) == [passed + "5.00 MiB/s (5242880 B/s)"]
