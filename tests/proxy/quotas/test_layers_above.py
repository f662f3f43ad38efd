"""Overrides above the file: what goes first, and that what they hid counts again once they are gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.quotas import QuotaFile, effective, parse_quotas, parse_replicas
from proxy.quotas.layer_values import LayerIndex
from proxy.quotas.override import PlacedValue
from proxy.quotas.reading import parse_layer
from proxy.roles import Role

NOW = datetime(2026, 12, 1, tzinfo=UTC)
RATE, LIST = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
FILE = """
[brokers.default]
leader.replication.throttled.rate = 1000000
leader.replication.throttled.replicas = "*"
[brokers.101]
leader.replication.throttled.rate = 2000000
[topics.exact]
leader.replication.throttled.replicas = "0:101"
leader.replication.throttled.rate = 300000
[topics."exempt-*"]
leader.replication.throttled.replicas = ""
[peers.102]
leader.replication.throttled.rate = 400000
"""
TOPICS = ("exact", "exempt-1", "other")


def quota(*documents: dict[str, Any], file: str = FILE, until: datetime | None = None, at: datetime = NOW) -> Any:
    """The leader's quota of broker 101 under overrides, newest first."""
    layers = tuple(
        parse_layer(document, source=f"override {number}", override=f"{number}", until=until, since=NOW)
        for number, document in enumerate(documents)
    )
    return effective(replace(parse_quotas(file.encode()), overrides=layers), 101, at).leader


def listed(found: Any) -> dict[str, str]:
    return {topic: str(found.partitions_of(topic)) for topic in TOPICS}


def test_a_rate_goes_before_both_sections_of_the_file() -> None:
    assert quota({"brokers": {"101": {RATE: 5}}}).bytes_per_second == 5


def test_of_two_the_newest_goes_first_key_by_key() -> None:
    newest, older = {"brokers": {"101": {RATE: 5}}}, {"brokers": {"101": {RATE: 6, LIST: ""}}}
    found = quota(newest, older)
    assert (found.bytes_per_second, listed(found)) == (5, dict.fromkeys(TOPICS, ""))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, {"exact": "0", "exempt-1": "", "other": "*"}),
        ({"topics": {"exempt-1": {LIST: "*"}}}, {"exact": "0", "exempt-1": "*", "other": "*"}),
        ({"topics": {"e*": {LIST: "7:101"}}}, {"exact": "7", "exempt-1": "7", "other": "*"}),
        ({"topics": {"exempt-*": {LIST: "*"}}}, {"exact": "0", "exempt-1": "*", "other": "*"}),
        ({"brokers": {"101": {LIST: "*"}}}, {"exact": "*", "exempt-1": "*", "other": "*"}),
        ({"brokers": {"101": {LIST: ""}}}, {"exact": "", "exempt-1": "", "other": ""}),
        (
            {"brokers": {"101": {LIST: ""}}, "topics": {"other": {LIST: "3:101"}}},
            {"exact": "", "exempt-1": "", "other": "3"},
        ),
    ],
)
def test_what_an_override_says_of_a_topic_hides_the_file(document: dict[str, Any], expected: dict[str, str]) -> None:
    assert listed(quota(document)) == expected


def test_a_broker_wide_list_of_an_older_one_does_not_hide_a_newer_topic() -> None:
    found = quota({"topics": {"exact": {LIST: "9:101"}}}, {"brokers": {"101": {LIST: ""}}})
    assert listed(found) == {"exact": "9", "exempt-1": "", "other": ""}


def test_rates_inside_the_brokers_are_hidden_alike() -> None:
    found = quota({"topics": {"e*": {RATE: 7}}, "peers": {"102": {RATE: 8}}}).finer
    assert {str(entity): rate for entity, rate in found.bounds()} == {"peer 102": 8, "topic e*": 7}


def test_a_list_does_not_hide_a_rate() -> None:
    found = quota({"brokers": {"101": {LIST: ""}}}).finer
    assert {str(entity): rate for entity, rate in found.bounds()} == {"peer 102": 400000, "topic exact": 300000}


def test_mode() -> None:
    layer = parse_layer({"mode": {"enforce": False}}, source="x", override="x", until=None, since=NOW)
    assert not effective(replace(parse_quotas(b"[mode]\nenforce = true"), overrides=(layer,)), 101, NOW).enforce


def test_after_its_end_the_file_counts_again_and_the_end_is_the_next_change() -> None:
    until = NOW + timedelta(hours=1)
    document = {"brokers": {"101": {RATE: 5}}}
    assert quota(document, until=until, at=until - timedelta(seconds=1)).bytes_per_second == 5
    assert quota(document, until=until, at=until).bytes_per_second == 2000000
    layer = parse_layer(document, source="x", override="x", until=until, since=NOW)
    found = effective(replace(parse_quotas(FILE.encode()), overrides=(layer,)), 101, NOW)
    assert (found.next_change, found.until[Role.LEADER]) == (until, until)


def test_within_counts_from_when_the_override_was_made() -> None:
    source = quota({"brokers": {"101": {RATE: {"within": "2h", "max": "1MiB/s"}}}}).source
    assert source.deadline.moment(NOW + timedelta(hours=1)) == NOW + timedelta(hours=2)
    assert source.start_key is None


@pytest.mark.parametrize(
    ("place", "key", "value", "text"),
    [
        ("mode", "enforce", False, "mode.enforce = false"),
        ("broker", RATE, "20MiB/s", f"{RATE} = 20MiB/s"),
        ("topics.orders", LIST, "", f'topics.orders.{LIST} = ""'),
        ("clients.etl", "catch_up_only", True, "clients.etl.catch_up_only = true"),
        (
            "broker",
            RATE,
            {"auto": True, "min": 1000, "max": "300MiB/s"},
            f'{RATE} = {{ auto = true, min = 1000, max = "300MiB/s" }}',
        ),
    ],
)
def test_a_change_is_shown_as_it_is_typed(place: str, key: str, value: bool | str | dict[str, Any], text: str) -> None:
    assert PlacedValue(place, key, value).text == text


NAMES = st.sampled_from(["exact", "exempt-1", "other", "e*", "exempt-*", "*"])
LISTS = st.sampled_from(["*", "", "0:101", "1:101,2:7"])
DOCUMENTS = st.builds(
    lambda broker, topics: {
        **({} if broker is None else {"brokers": {"101": {LIST: broker}}}),
        **({"topics": {name: {LIST: value} for name, value in topics.items()}} if topics else {}),
    },
    st.none() | st.sampled_from(["*", ""]),
    st.dictionaries(NAMES, LISTS, max_size=3),
)


def naive(documents: list[dict[str, Any]], topic: str) -> str:
    """What holds of a topic, by the definition: layer by layer an exact name, the longest glob, the broker."""
    for number, document in enumerate(documents):
        topics = document.get("topics", {})
        globs = sorted((each for each in topics if "*" in each), key=lambda each: (-len(each), each))
        names = [topic] if topic in topics else [each for each in globs if fnmatchcase(topic, each)]
        if names:
            return str(parse_replicas(topics[names[0]][LIST]).partitions_on(101))
        own = document.get("brokers", {}).get("101")
        if own is not None and number < len(documents) - 1:
            return str(parse_replicas(own[LIST]).partitions_on(101))
    own = documents[-1].get("brokers", {}).get("101")
    return "" if own is None else str(parse_replicas(own[LIST]).partitions_on(101))


@given(st.lists(DOCUMENTS, max_size=4), DOCUMENTS)
def test_however_layers_lie_the_definition_holds_and_the_index_says_the_same(
    overrides: list[dict[str, Any]], file: dict[str, Any]
) -> None:
    made = [
        parse_layer(each, source=f"override {number}", override=f"{number}", until=None, since=NOW)
        for number, each in enumerate([*overrides, file])
    ]
    quota_file = QuotaFile(replace(made[-1], override=""), "", overrides=tuple(made[:-1]))
    leader, index = effective(quota_file, 101, NOW).leader, LayerIndex(quota_file, 101)
    for topic in TOPICS:
        expected = naive([*overrides, file], topic)
        assert str(leader.partitions_of(topic)) == expected
        assert next(index.values(f"topics.{topic}", LIST, NOW)).value == (expected or "none")
