"""Quotas of users: Kafka's order of its eight kinds of entity, globs within it, overrides, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ConfigurationError
from proxy.quotas.client_entity import ClientEntity, parse_place
from proxy.quotas.client_rates import TrafficRates, client_rates
from proxy.quotas.keys import CLIENT_RATES, ClientTraffic
from proxy.quotas.layer_values import LayerIndex
from proxy.quotas.override import Override, PlacedValue, validated
from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import effective
from proxy.quotas.sections import Layer, Section

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
PRODUCER, CONSUMER = ClientTraffic
USERS = ("alice", "bob", "default", None)
CLIENTS = ("etl", "web", "default", None)
ENTITIES = [ClientEntity(user, client) for user, client in product(USERS, CLIENTS) if (user, client) != (None, None)]


def rates_of(*layers: dict[ClientEntity, float]) -> TrafficRates:
    made = [
        Layer(clients={each: Section(str(each), values={CLIENT_RATES[PRODUCER]: rate}) for each, rate in layer.items()})
        for layer in layers
    ]
    return client_rates(made, NOW).producer


def kafkas(quotas: dict[ClientEntity, float], user: str, client_id: str) -> tuple[ClientEntity, float] | None:
    """`DefaultQuotaCallback` of ClientQuotaManager: `quotaMetricTags`, which shares, and `quotaLimit`."""
    order = [
        ((user, client_id), (user, client_id)),
        ((user, "default"), (user, client_id)),
        ((user, None), (user, None)),
        (("default", client_id), (user, client_id)),
        (("default", "default"), (user, client_id)),
        (("default", None), (user, None)),
        ((None, client_id), (None, client_id)),
        ((None, "default"), (None, client_id)),
    ]
    return next(
        ((ClientEntity(*tags), quotas[ClientEntity(*of)]) for of, tags in order if ClientEntity(*of) in quotas), None
    )


@given(
    quotas=st.dictionaries(st.sampled_from(ENTITIES), st.integers(1, 10).map(float)),
    user=st.sampled_from(["alice", "bob", "carol"]),
    client_id=st.sampled_from(["etl", "web", "app"]),
)
def test_the_order_is_kafkas(quotas: dict[ClientEntity, float], user: str, client_id: str) -> None:
    quota = rates_of(quotas).of(user, client_id)
    assert (quota and (quota.entity, quota.bytes_per_second)) == kafkas(quotas, user, client_id)


@given(
    quotas=st.dictionaries(st.sampled_from(ENTITIES), st.integers(1, 10).map(float)),
    override=st.dictionaries(st.sampled_from(ENTITIES), st.integers(11, 20).map(float)),
    user=st.sampled_from(["alice", "bob", "carol"]),
    client_id=st.sampled_from(["etl", "web", "app"]),
)
def test_an_override_changes_no_order(
    quotas: dict[ClientEntity, float], override: dict[ClientEntity, float], user: str, client_id: str
) -> None:
    quota = rates_of(override, quotas).of(user, client_id)
    assert (quota and (quota.entity, quota.bytes_per_second)) == kafkas({**quotas, **override}, user, client_id)


FILE = """
[users.alice]
producer_byte_rate = 10
[users.alice.clients.etl]
producer_byte_rate = 20
[users.alice.clients.default]
consumer_byte_rate = 30
[users."team-*"]
producer_byte_rate = 40
[users."team-a*".clients."job-*"]
producer_byte_rate = 50
[users.default.clients.default]
producer_byte_rate = "unlimited"
[users."CN=etl,OU=data"]
producer_byte_rate = 60
[clients.etl]
producer_byte_rate = 70
consumer_byte_rate = 80
"""


@pytest.mark.parametrize(
    ("user", "client_id", "traffic", "quota"),
    [
        ("alice", "etl", PRODUCER, ("users.alice.clients.etl", 20)),
        ("alice", "web", PRODUCER, ("users.alice", 10)),
        ("alice", "etl", CONSUMER, ("users.alice.clients.etl", 30)),  # key by key
        ("team-b", "job-1", PRODUCER, ("users.team-*", 40)),  # one budget for all users of the glob
        ("team-a1", "job-1", PRODUCER, ("users.team-a*.clients.job-*", 50)),
        ("team-a1", "web", PRODUCER, ("users.team-*", 40)),
        ("CN=etl,OU=data", "etl", PRODUCER, ("users.CN=etl,OU=data", 60)),
        ("carol", "etl", PRODUCER, None),  # exempt as a user, whatever its client id has
        (None, "etl", PRODUCER, ("clients.etl", 70)),  # nobody knows who it is
        ("carol", "etl", CONSUMER, ("clients.etl", 80)),
        (None, "web", CONSUMER, None),
    ],
)
def test_sections_of_users(
    user: str | None, client_id: str, traffic: ClientTraffic, quota: tuple[str, float] | None
) -> None:
    found = effective(parse_quotas(FILE.encode()), 101, NOW).clients.of(traffic).of(user, client_id)
    assert (found and (str(found.entity), found.bytes_per_second)) == quota


@pytest.mark.parametrize(
    ("place", "entity"),
    [
        ("clients.web.1", ClientEntity(None, "web.1")),
        ("users.CN=a,O=b.c", ClientEntity("CN=a,O=b.c", None)),
        ("users.alice.clients.web.1", ClientEntity("alice", "web.1")),
        ("users.alice.clients.b.clients.c", ClientEntity("alice", "b.clients.c")),
        ('users."a.clients.b"', ClientEntity("a.clients.b", None)),
        ('users."a.clients.b".clients.c', ClientEntity("a.clients.b", "c")),
        ('users.".clients"', ClientEntity(".clients", None)),
        ("users.", None),
        ("clients.", None),
        ("users.alice.clients.", None),
        ('users."alice"web', None),
        ("topics.a", None),
    ],
)
def test_places(place: str, entity: ClientEntity | None) -> None:
    assert parse_place(place) == entity
    assert entity is None or str(entity) == place


NAMES = st.one_of(st.none(), st.text(st.sampled_from("ab.*clients"), min_size=1), st.just(".clients."))


@given(entity=st.builds(ClientEntity, NAMES, NAMES).filter(any))
def test_each_entity_has_one_place(entity: ClientEntity) -> None:
    assert parse_place(str(entity)) == entity


def override(place: str, rate: object) -> Layer:
    made = Override(id="abcd", by="me", since=NOW, changes=(PlacedValue(place, "producer_byte_rate", rate),))
    return validated(made, 101)[1]


@pytest.mark.parametrize("place", ["users.alice", "users.new.clients.etl", 'users."a.clients.b"', "users.default"])
def test_the_layer_of_an_override_is_told(place: str) -> None:
    quota_file = replace(parse_quotas(FILE.encode()), overrides=(override(place, 7),))
    entity = parse_place(place)
    assert entity is not None
    assert effective(quota_file, 101, NOW).clients.producer.sections[entity] == 7
    told = [*LayerIndex(quota_file, 101).values(place, "producer_byte_rate", NOW)]
    assert (told[0].value, told[0].layer.startswith("override abcd: users.")) == ("7 B/s", True)


def test_a_default_in_an_override_hides_no_section_of_a_name() -> None:
    quota_file = replace(parse_quotas(FILE.encode()), overrides=(override("users.default.clients.default", 7),))
    told = [*LayerIndex(quota_file, 101).values("users.alice.clients.etl", "producer_byte_rate", NOW)]
    assert [each.layer for each in told[:3]] == [
        "users.alice.clients.etl",
        "users.alice",
        "override abcd: users.default.clients.default",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[users.a]\nproducer_byte_rate = 0", "users.a.producer_byte_rate: expected a rate above 0"),
        ("[users.a]\nrequests = 5", "users.a.requests: unknown key; expected one of producer_byte"),
        ("[users.a.b]\nproducer_byte_rate = 1", 'a user name with dots needs quotes: [users."a.b"] (line 2)'),
        (
            "[users.a.clients.web.1]\nproducer_byte_rate = 1",
            'a client name with dots needs quotes: [users.a.clients."web.1"]',
        ),
        ("[users.a]\nclients = 5", "users.a.clients: expected a table, found 5 (line 2)"),
        ("[users.a.clients]\netl = 5", "users.a.clients.etl: expected a table, found 5 (line 2)"),
        ("users = 5", "users: expected a table, found 5 (line 1)"),
        (r"[users.'O=a\, b']", "expected a user or glob without quotes and backslashes and control characters"),
        ("[user.alice]\nproducer_byte_rate = 1", "(did you mean users?)"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_quotas(text.encode())
    assert problem in str(refused.value)
