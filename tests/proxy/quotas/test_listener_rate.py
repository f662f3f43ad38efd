"""``[listener]`` in quotas.toml and in overrides: which rate holds, when, what is refused and what is warned of."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from operating.commands.set import changes
from operating.quota_words import differences
from proxy.errors import ConfigurationError, InvalidValueError
from proxy.quotas.advice import advise
from proxy.quotas.layer_values import LayerIndex, LayerValue
from proxy.quotas.override import Override, PlacedValue, validated
from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import changes_ahead, effective
from proxy.roles import Role

if TYPE_CHECKING:
    from proxy.quotas.sections import QuotaFile

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
MIB = 2**20


def file(text: str, *overrides: Override) -> QuotaFile:
    layers = tuple(validated(each, 101)[1] for each in overrides)
    return replace(parse_quotas(text.encode()), overrides=layers)


def override(rate: str, until: datetime | None = None) -> Override:
    return Override(id="abcd", by="me", since=NOW, until=until, changes=tuple(changes("listener.rate", rate)))


def test_the_command_writes_its_place() -> None:
    assert changes("listener.rate", "5MiB/s") == [PlacedValue("listener", "rate", "5MiB/s")]
    assert str(changes("listener.rate", "5MiB/s")[0]) == "listener.rate"
    with pytest.raises(InvalidValueError, match=r"listener\.rate: holds for the whole sidecar: leave out --topic"):
        changes("listener.rate", "5MiB/s", topic="orders")


@pytest.mark.parametrize(
    ("quota_file", "now", "rate"),
    [
        (file(""), NOW, math.inf),
        (file('[listener]\nrate = "80MiB/s"'), NOW, 80 * MIB),
        (file(f'[listener]\nrate = "80MiB/s"\nuntil = {LATER.isoformat()}'), LATER, math.inf),
        (file('[listener]\nrate = "80MiB/s"', override("5MiB/s", LATER)), NOW, 5 * MIB),
        (file('[listener]\nrate = "80MiB/s"', override("5MiB/s", LATER)), LATER, 80 * MIB),
        (file('[listener]\nrate = "80MiB/s"', override("unlimited")), NOW, math.inf),
    ],
)
def test_the_rate_that_holds(quota_file: QuotaFile, now: datetime, rate: float) -> None:
    assert effective(quota_file, 101, now).listener_bytes_per_second == rate


def test_the_layers_that_say_it_and_the_change_ahead() -> None:
    quota_file = file('[listener]\nrate = "80MiB/s"', override("5MiB/s", LATER))
    assert [*LayerIndex(quota_file, 101).values("listener", "rate", NOW)] == [
        LayerValue("5.00 MiB/s (5242880 B/s)", "override abcd: listener", LATER),
        LayerValue("80.00 MiB/s (83886080 B/s)", "listener"),
        LayerValue("unlimited", "default"),
    ]
    change = next(changes_ahead(quota_file, 101, NOW))
    assert (change.at, differences(change.before, change.after)) == (
        LATER,
        ["listener 5.00 MiB/s (5242880 B/s) -> 80.00 MiB/s (83886080 B/s)"],
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[listener]", 'quotas.toml: listener.rate: expected a rate like "80MiB/s", found none'),
        ("[listener]\nrate = 0", "quotas.toml: listener.rate: expected a rate above 0, found 0 (line 2)"),
        ('[listener]\nrate = "80Mbit"', "quotas.toml: listener.rate: "),
        ("[listener]\nrate = { auto = true }", 'listener.rate: expected a rate like "10MiB/s"'),
        ("[listener]\nrat = 5", "listener.rat: unknown key; expected rate or until (did you mean rate?) (line 2)"),
        ('[listener]\nrate = 5\nuntil = "soon"', "listener.until: expected a date and time with an offset"),
        ("listener = 5", "quotas.toml: listener: expected a table, found 5"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_quotas(text.encode())
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("rate", "leader", "warning"),
    [
        ("80MiB/s", '"50MiB/s"', None),
        ("80MiB/s", '"unlimited"', None),
        ("40MiB/s", '"50MiB/s"', "less than the leader's quota of 50.00 MiB/s (52428800 B/s), which is never reached"),
        (
            "5MiB/s",
            '{ auto = true, min = "10MiB/s", max = "800MiB/s" }',
            "less than the leader's min of 10.00 MiB/s (10485760 B/s): catch-up may have less than min",
        ),
        ("20MiB/s", '{ auto = true, min = "10MiB/s", max = "800MiB/s" }', None),
        ("80MiB/s", None, "no replicas are listed for the leader: catch-up of followers is not told apart"),
        ("50", '"50"', "listener.rate: the rate is 50 B/s, less than the 64 KiB of one portion"),
    ],
)
def test_what_is_warned_of(rate: str, leader: str | None, warning: str | None) -> None:
    text = f'[listener]\nrate = "{rate}"'
    if leader is not None:
        text += f"\n[brokers.default]\nleader.replication.throttled.rate = {leader}\n"
        text += 'leader.replication.throttled.replicas = "*"'
    told = [each for each in advise(file(text), 101, NOW) if each.startswith("listener")]
    assert (warning in " ".join(told)) if warning else told == []


def test_without_an_ingress_it_bounds_nothing() -> None:
    told = advise(file('[listener]\nrate = "5MiB/s"'), 101, NOW, roles=[Role.FOLLOWER])
    assert told == ["listener.rate: 5.00 MiB/s (5242880 B/s): proxy.toml has no [ingress]: it bounds nothing here"]
