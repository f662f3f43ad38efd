"""Whatever key is declared, the sidecar reads it, overrides have it, and people and the chart are told of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from operating.commands.set import changes, command
from operating.quota_words import differences
from proxy.errors import ConfigurationError
from proxy.quotas.keys import ALL, BY_KIND, MAX_THROTTLE, OF_OVERRIDES, QuotaKey, SectionKind
from proxy.quotas.layer_values import LayerIndex
from proxy.quotas.override import Override, validated
from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import effective

if TYPE_CHECKING:
    from proxy.quotas.client_rates import ClientQuota
    from proxy.quotas.sections import QuotaFile

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
NAMES = {
    SectionKind.BROKER: "101",
    SectionKind.PEER: "102",
    SectionKind.RACK: "eu",
    SectionKind.TOPIC: "orders",
    SectionKind.CLIENT: "etl",
    SectionKind.USER: "alice",
}


def section(kind: SectionKind) -> str:
    return f"{kind.value}.{NAMES[kind]}" if kind.has_names else kind.value


def place(kind: SectionKind) -> str:
    return "broker" if kind is SectionKind.BROKER else section(kind)


def test_no_two_keys_of_a_section_have_one_name() -> None:
    assert sum(len(key.kinds) for key in ALL) == sum(map(len, BY_KIND.values()))


def test_the_help_of_set_has_each_key() -> None:
    told = CliRunner().invoke(command, ["--help"]).output
    assert [key.typed for key in OF_OVERRIDES if f"  {key.typed} " not in told] == []


@pytest.mark.parametrize(
    ("key", "kind"), [(key, kind) for key in ALL for kind in key.kinds], ids=lambda each: getattr(each, "name", "")
)
def test_a_value_that_is_none_is_refused_by_its_place(key: QuotaKey[Any], kind: SectionKind) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_quotas(f"[{section(kind)}]\n{key.name} = []".encode())
    assert f"quotas.toml: {section(kind)}.{key.name}: expected" in str(refused.value)
    assert "unknown" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "kind"),
    [(key, kind) for key in OF_OVERRIDES for kind in key.kinds],
    ids=lambda each: getattr(each, "name", ""),
)
def test_where_nothing_says_a_key_its_default_is_told(key: QuotaKey[Any], kind: SectionKind) -> None:
    (told,) = LayerIndex(parse_quotas(b""), 101).values(place(kind), key.name, NOW)
    assert told.layer == "default"
    assert told.value in (key.in_words(key.default, 101), "no rate of its own")


FILE = """
[clients.default]
producer_byte_rate = 1000
max_throttle = "5s"
[clients.etl]
producer_byte_rate = 2000
[clients."web-*"]
producer_byte_rate = 3000
max_throttle = "1m"
[users.alice]
producer_byte_rate = 4000
[users.alice.clients.etl]
producer_byte_rate = 5000
"""


def with_override(text: str, key: str, value: str, client: str) -> QuotaFile:
    made = Override(id="abcd", by="me", since=NOW, changes=tuple(changes(key, value, client=client)))
    _, layer = validated(made, 101)
    return replace(parse_quotas(text.encode()), overrides=(layer,))


def quota_of(quota_file: QuotaFile, user: str | None, client: str) -> ClientQuota:
    found = effective(quota_file, 101, NOW).clients.producer.of(user, client)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("user", "client", "seconds"),
    [
        (None, "other", 5),
        (None, "etl", 5),  # its section says none: key by key the next one that counts for it
        (None, "web-1", 60),
        ("alice", "etl", 5),
        ("alice", "other", 15),  # the budget of alice, with whatever client id: no section of a client id is about it
    ],
)
def test_a_key_that_is_no_rate_goes_with_the_rate(user: str | None, client: str, seconds: int) -> None:
    assert quota_of(parse_quotas(FILE.encode()), user, client).get(MAX_THROTTLE) == timedelta(seconds=seconds)


def test_an_override_of_it_alone() -> None:
    before, after = parse_quotas(FILE.encode()), with_override(FILE, "max_throttle", "30s", "etl")
    assert quota_of(after, None, "etl").get(MAX_THROTTLE) == timedelta(seconds=30)
    assert quota_of(after, None, "other").get(MAX_THROTTLE) == timedelta(seconds=5)
    quotas = [effective(each, 101, NOW) for each in (before, after)]
    assert not quotas[0].means_the_same_as(quotas[1])
    assert differences(*quotas) == ["client etl max_throttle 5s -> 30s"]
    told = LayerIndex(after, 101).values("clients.etl", "max_throttle", NOW)
    assert [each.value for each in told] == ["30s", "5s", "15s"]


@pytest.mark.parametrize("value", ['"0s"', '"61m"', "5", '"15"', "true"])
def test_what_is_no_wait_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"clients\.a\.max_throttle: expected a time"):
        parse_quotas(f"[clients.a]\nmax_throttle = {value}".encode())
