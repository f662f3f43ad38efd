"""Client quotas in quotas.toml and in overrides: which section says a client's rate, when, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from operating.commands.set import changes
from proxy.errors import ConfigurationError, InvalidValueError
from proxy.quotas.advice import advise
from proxy.quotas.keys import ClientTraffic
from proxy.quotas.layer_values import LayerIndex
from proxy.quotas.override import Override, PlacedValue, validated
from proxy.quotas.reading import MAX_CLIENTS, parse_quotas
from proxy.quotas.rules import effective

if TYPE_CHECKING:
    from proxy.quotas.client_rates import ClientQuota, ClientRates

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
PRODUCER, CONSUMER = ClientTraffic
FILE = f"""
[clients.default]
producer_byte_rate = "1MiB/s"
consumer_byte_rate = 2000
[clients.etl]
producer_byte_rate = "10MiB/s"
[clients."etl-*"]
consumer_byte_rate = 3000
[clients."etl-night-*"]
consumer_byte_rate = 4000
until = {LATER.isoformat()}
[clients."web.1"]
producer_byte_rate = "unlimited"
consumer_byte_rate = "unlimited"
"""


def rates(now: datetime = NOW, text: str = FILE, *changes: tuple[str, str, Any]) -> ClientRates:
    quota_file = parse_quotas(text.encode())
    if changes:
        override = Override(id="abcd", by="me", since=NOW, changes=tuple(PlacedValue(*change) for change in changes))
        quota_file = replace(quota_file, overrides=(validated(override, 101)[1],))
    return effective(quota_file, 101, now).clients


Found = tuple[str, float] | None
"""The entity and its bytes per second."""


def found(quota: ClientQuota | None) -> Found:
    return None if quota is None else (str(quota.entity), quota.bytes_per_second)


@pytest.mark.parametrize(
    ("client_id", "traffic", "quota"),
    [
        ("etl", PRODUCER, ("clients.etl", 10 * 2**20)),
        ("etl", CONSUMER, ("clients.etl", 2000)),  # its own section says no such rate
        ("etl-1", PRODUCER, ("clients.etl-1", 2**20)),
        ("etl-1", CONSUMER, ("clients.etl-*", 3000)),
        ("etl-night-1", CONSUMER, ("clients.etl-night-*", 4000)),
        ("web.1", PRODUCER, None),
        ("web.1", CONSUMER, None),
        ("other", CONSUMER, ("clients.other", 2000)),  # a quota for each client id, as in Kafka
        ("", CONSUMER, None),  # as in Kafka, the default is of client ids, and this is none
    ],
)
@pytest.mark.parametrize("user", [None, "ANONYMOUS", "alice"])
def test_the_most_specific_section_says_each_rate(
    client_id: str, traffic: ClientTraffic, quota: Found, user: str | None
) -> None:
    assert found(rates().of(traffic).of(user, client_id)) == quota


def test_a_section_ends() -> None:
    assert found(rates(LATER).consumer.of(None, "etl-night-1")) == ("clients.etl-*", 3000)
    quotas = effective(parse_quotas(FILE.encode()), 101, NOW)
    assert quotas.next_change == LATER
    assert not quotas.means_the_same_as(effective(parse_quotas(FILE.encode()), 101, LATER))


def test_without_sections_no_client_has_a_quota() -> None:
    assert not rates(text="")
    assert not rates(text='[clients.etl]\nproducer_byte_rate = "unlimited"')
    assert rates(text="[clients.etl]\nproducer_byte_rate = 1")


@pytest.mark.parametrize(
    ("change", "client_id", "quota"),
    [
        (("clients.etl-1", "consumer_byte_rate", 7), "etl-1", ("clients.etl-1", 7)),
        (("clients.etl-*", "consumer_byte_rate", "unlimited"), "etl-1", None),
        # What an override says of a glob hides what the file says of the names that it matches.
        (("clients.et*", "consumer_byte_rate", 7), "etl", ("clients.et*", 7)),
        (("clients.default", "consumer_byte_rate", 7), "other", ("clients.other", 7)),
        (("clients.default", "consumer_byte_rate", 7), "etl-1", ("clients.etl-*", 3000)),
    ],
)
def test_overrides_go_before_the_file(change: tuple[str, str, Any], client_id: str, quota: Found) -> None:
    assert found(rates(NOW, FILE, change).consumer.of(None, client_id)) == quota


@pytest.mark.parametrize(
    ("place", "key", "layers"),
    [
        ("clients.etl", "producer_byte_rate", ["clients.etl", "clients.default", "default"]),
        ("clients.etl-1", "consumer_byte_rate", ['clients."etl-*"', "clients.default", "default"]),
        ("clients.other", "consumer_byte_rate", ["clients.default", "default"]),
        ("clients.default", "producer_byte_rate", ["clients.default", "default"]),
        ("clients.etl-*", "consumer_byte_rate", ['clients."etl-*"', "clients.default", "default"]),
        ("clients.web.1", "producer_byte_rate", ['clients."web.1"', "clients.default", "default"]),
    ],
)
def test_the_layer_of_each_value_is_told(place: str, key: str, layers: list[str]) -> None:
    told = [*LayerIndex(parse_quotas(FILE.encode()), 101).values(place, key, NOW)]
    assert [each.layer for each in told] == layers
    assert told[-1].value == "unlimited"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[clients.a]\nproducer_byte_rate = 0", "clients.a.producer_byte_rate: expected a rate above 0"),
        ("[clients.a]\nconsumer_byte_rate = 1\ncatch_up_only = 1", "catch_up_only: expected true or false, found 1"),
        (
            "[clients.a]\nproducer_byte_rate = 1\ncatch_up_only = true",
            "clients.a.catch_up_only: expected consumer_byte_rate in the same section, the rate that it is about",
        ),
        ("[topics.a]\ncatch_up_only = true", "unknown key"),
        ("[clients.a]\nrequests = 5", "unknown key; expected one of producer_byte_rate, consumer_byte_rate"),
        ("[clients.a]\nrequest_percentage = true", "clients.a.request_percentage: expected a number, found true"),
        ("[clients.a]\nproducer_byte_rate = 5.5", "expected bytes per second"),
        ("[clients.a]\nproducer_byte_rate = '5.5'", "a number with a point needs its unit"),
        ("[clients.a]\nproducer_byte_rate = '1.5E0'", "expected bytes per second"),
        ("[clients.a]\nconsumer_byte_rate = { auto = true }", "expected a rate like"),
        ("[clients.web.1]\nconsumer_byte_rate = 1", 'a client name with dots needs quotes: [clients."web.1"]'),
        ("[clients.'a\"b']\nconsumer_byte_rate = 1", "expected a client id or glob without quotes and backslashes"),
        ("[topics.a]\nconsumer_byte_rate = 1", "unknown key; expected one of leader.replication"),
        ("[clients.a]\nleader.replication.throttled.replicas = '*'", "unknown key"),
        (
            "".join(f"[clients.a{number}]\nconsumer_byte_rate = 1\n" for number in range(MAX_CLIENTS + 1)),
            f"clients: expected at most {MAX_CLIENTS} sections of clients and users, found {MAX_CLIENTS + 1}",
        ),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_quotas(text.encode())
    assert problem in str(refused.value)


CATCH_UP = """
[clients.default]
consumer_byte_rate = 2000
catch_up_only = true
[clients.etl]
consumer_byte_rate = 1000
[users.alice]
producer_byte_rate = 10
consumer_byte_rate = 10
catch_up_only = true
"""


@pytest.mark.parametrize(
    ("user", "client_id", "traffic", "is_catch_up_only"),
    [
        (None, "app", CONSUMER, True),
        (None, "etl", CONSUMER, False),
        ("alice", "etl", CONSUMER, True),
        ("alice", "etl", PRODUCER, False),
    ],
)
def test_catch_up_only_goes_with_the_rate_of_its_section(
    user: str | None, client_id: str, traffic: ClientTraffic, *, is_catch_up_only: bool
) -> None:
    quota = rates(NOW, CATCH_UP).of(traffic).of(user, client_id)
    assert quota is not None
    assert quota.catch_up_only is is_catch_up_only


def test_a_rate_of_an_override_is_for_all_bytes_unless_it_says_otherwise() -> None:
    rate = ("clients.default", "consumer_byte_rate", 1)
    for asked, expected in (([rate], False), ([rate, ("clients.default", "catch_up_only", True)], True)):
        quota = rates(NOW, CATCH_UP, *asked).consumer.of(None, "app")
        assert quota is not None
        assert (quota.bytes_per_second, quota.catch_up_only) == (1, expected)
    with pytest.raises(ConfigurationError, match="expected consumer_byte_rate in the same section"):
        rates(NOW, CATCH_UP, ("clients.default", "catch_up_only", True))


@pytest.mark.parametrize("written", ["1048576.0", '"1048576.0"', '"1.048576E6"', '"1MiB/s"', "1048576"])
def test_a_rate_as_kafka_configs_describes_it(written: str) -> None:
    """A double of Java's, in bytes per second."""
    found_ = rates(NOW, f"[clients.a]\nproducer_byte_rate = {written}").producer.of(None, "a")
    assert found(found_) == ("clients.a", 2.0**20)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "[clients.a]\nproducer_byte_rate = 5",
            "clients.a.producer_byte_rate: the rate is 5 B/s: clients wait",
        ),
        ("[clients.a]\nproducer_byte_rate = 1024", None),
        ("[users.a]\nconsumer_byte_rate = 'unlimited'", None),
        ("[clients.a]\nrequest_percentage = 50", "clients.a.request_percentage: brokers enforce it"),
        ("[users.a]\ncontroller_mutation_rate = 10.5", "users.a.controller_mutation_rate: brokers enforce it"),
        ("[users.'User:alice']\nproducer_byte_rate = 9999", 'users."User:alice": no user has this name'),
        ("[users.'User:alice'.clients.a]\nproducer_byte_rate = 9999", '"User:alice".clients.a: no user has this name'),
        ("[users.'CN=etl, OU=data']\nproducer_byte_rate = 9999", "without blanks after its commas, found CN=etl, OU"),
        ("[users.'/O=x/CN=y']\nproducer_byte_rate = 9999", "the subject as RFC 2253 has it"),
        ("[users.'CN=etl,OU=data of all']\nproducer_byte_rate = 9999", None),
        ("[users.'alice, of sales']\nproducer_byte_rate = 9999", None),
    ],
)
def test_what_is_hardly_meant_is_said(text: str, warning: str | None) -> None:
    told = advise(parse_quotas(text.encode()), 101, NOW)
    assert (warning in " ".join(told)) if warning else told == []


def test_an_override_has_no_key_that_brokers_enforce() -> None:
    with pytest.raises(ConfigurationError, match="request_percentage: is not for overrides: Enforced by brokers"):
        rates(NOW, FILE, ("clients.etl", "request_percentage", 5))
    with pytest.raises(InvalidValueError, match="request_percentage: Enforced by brokers, with kafka-configs"):
        changes("request_percentage", "5", client="etl")
