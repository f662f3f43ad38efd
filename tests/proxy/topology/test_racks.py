"""What is known of racks, what went between them, and what is warned of while they are not known."""

from __future__ import annotations

import pytest

from proxy.quotas.finer_rates import FinerRates
from proxy.statistics.counters import RoleStatistics
from proxy.topology.racks import MAX_BROKERS, MAX_NAMED, Racks, RackWarnings, Relayed

CLUSTER = {101: "a", 102: "b", 103: "a", 104: ""}


@pytest.fixture
def racks() -> Racks:
    found = Racks(101)
    assert found.learn(CLUSTER)
    return found


def test_what_nobody_told_is_not_known(racks: Racks) -> None:
    assert [racks.of(peer) for peer in ("102", "104", "105", "10.0.0.1:9092")] == ["b", "", None, None]
    assert not Racks(101).is_known
    assert not racks.learn(CLUSTER)


def test_a_broker_that_is_away_keeps_its_rack_and_one_that_returns_may_have_another(racks: Racks) -> None:
    assert not racks.learn({101: "a"})
    assert racks.of("102") == "b"
    assert racks.learn({102: "c"})
    assert racks.of("102") == "c"


def test_no_more_brokers_are_remembered_than_a_cluster_has(racks: Racks) -> None:
    racks.learn(dict.fromkeys(range(200, 200 + MAX_BROKERS), "z"))
    assert racks.of("101") is None
    assert racks.of(str(199 + MAX_BROKERS)) == "z"


@pytest.mark.parametrize(
    ("own", "peer", "crossed"),
    [(101, "102", True), (101, "103", False), (101, "104", False), (101, "105", False), (104, "102", False),
     (999, "102", False), (None, "102", False)],
)  # fmt: skip
def test_traffic_goes_between_racks_where_both_are_known(own: int | None, peer: str, *, crossed: bool) -> None:
    racks = Racks(own)
    racks.learn(CLUSTER)
    assert racks.is_crossed(peer) is crossed


def test_bytes_between_racks_are_counted_once_whenever_it_is_looked() -> None:
    relayed, statistics = Relayed(), RoleStatistics()
    relayed.request_bytes, relayed.response_bytes = 10, 500
    relayed.cross(statistics)
    relayed.cross(statistics)
    relayed.response_bytes += 7
    relayed.cross(statistics)
    assert (statistics.cross_rack_request_bytes, statistics.cross_rack_response_bytes) == (10, 507)


def test_a_rate_of_a_rack_without_a_broker_is_found_once_racks_are_known(racks: Racks) -> None:
    rates = FinerRates(racks={"a": 1.0, "c": 1.0})
    assert racks.missing(rates) == ["c"]
    assert Racks(101).missing(rates) == []


def test_warnings_name_some_and_count_the_others() -> None:
    assert RackWarnings().in_words() == ""
    told = RackWarnings([str(number) for number in range(100, 102 + MAX_NAMED)], ["eu-1x"]).in_words()
    assert "do not hold for broker 100, 101, 102, 103, 104 and 2 more, whose rack is unknown" in told
    assert "no broker is in rack eu-1x, which has a rate" in told
