"""Values of the sidecar to events with the fields of the schema."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from journal_schema import Kind
from proxy.clients.connection import ClientConnection
from proxy.clients.throttle import ClientThrottle
from proxy.config.settings import JournalSettings
from proxy.journal.encoding import Selection
from proxy.journal.recorder import Journal
from proxy.journal.reports import JournalReports, bounds_text
from proxy.quota_files.reload import ReloadOutcome, ReloadResult
from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.client_rates import ClientRates
from proxy.quotas.finer_rates import FinerRates
from proxy.quotas.keys import ClientTraffic
from proxy.quotas.override import Override, PlacedValue
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.role_throttle import RoleThrottle
from proxy.topology.racks import Racks
from tests.proxy.clients.rates import traffic_rates
from tests.proxy.conversation import settings
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from proxy.journal.encoding import EventValue

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def plain(value: EventValue) -> EventValue:
    return str(value) if isinstance(value, Selection) else value


def of_role(role: Role, quotas: Quotas) -> RoleThrottle:
    return RoleThrottle(role, settings(), quotas=quotas, statistics=RoleStatistics(), now=0.0)


def test_rates_inside_a_rate_are_told_with_the_brokers_of_each_rack() -> None:
    racks, rates = (
        Racks(),
        FinerRates(peers={102: 1.0, 103: float("inf")}, racks={"b": 4.0, "c": 2.0}, globs=(("o*", 3.0),)),
    )
    racks.learn({104: "b", 102: "b", 103: "a"})
    assert json.loads(bounds_text(rates, racks) or "") == {
        "racks": {"b": {"bytes_per_second": 4, "brokers": [102, 104]}, "c": {"bytes_per_second": 2, "brokers": []}},
        "peers": {"102": 1},
        "topics": {"o*": 3},
    }
    assert bounds_text(FinerRates(peers={103: float("inf")}), racks) is None


def test_they_are_worked_out_again_when_they_or_racks_are_others() -> None:
    reports, racks, rates = JournalReports(None, "strict"), Racks(), FinerRates(racks={"b": 4.0})
    first = reports._bounds_text(Role.LEADER, rates, racks)
    assert reports._bounds_text(Role.LEADER, rates, racks) is first
    racks.learn({102: "b"})
    assert "[102]" in (reports._bounds_text(Role.LEADER, rates, racks) or "")
    assert reports._bounds_text(Role.LEADER, FinerRates(), racks) is None


async def test_events_have_what_the_schema_asks_for(tmp_path: Path) -> None:
    journal = Journal(JournalSettings(tmp_path, 600, 1 << 20, 1 << 30), broker=101, log=RecordedLog())
    reports = JournalReports(journal, "strict")
    reports.started(lambda: "1.0")
    for role in Role:
        reports.quota(of_role(role, Quotas(leader=RoleQuota.of_every_topic(5.0))), "start")
    reports.reloaded(ReloadOutcome(ReloadResult.FAILED, error="bad", reason="http"))
    override = Override(
        id="7f3a", by="ana", since=NOW, reason="p99", changes=(PlacedValue("broker", "leader.rate", 5),)
    )
    reports.override(override, "undone", "bob")
    reports.stopped()
    told = [(event.kind, tuple(map(plain, event.values))) for event in journal._take_events()]
    assert told == [
        (Kind.START, ("1.0",)),
        (Kind.QUOTA, ("leader", 5.0, "strict", True, "*", None, "under-min-isr,under-replicated,moves", "start")),
        (Kind.QUOTA, ("follower", None, "strict", True, "{}", None, "under-min-isr,under-replicated,moves", "start")),
        (Kind.RELOAD, ("failed", "bad", "http")),
        (
            Kind.OVERRIDE,
            ("7f3a", "undone", None, "bob", "p99", None, '[{"place":"broker","key":"leader.rate","value":5}]'),
        ),
        (Kind.STOP, ()),
    ]


async def test_clients_are_told_what_they_carried_since_the_last_time(tmp_path: Path) -> None:
    journal = Journal(JournalSettings(tmp_path, 600, 1 << 20, 1 << 30), broker=101, log=RecordedLog())
    reports = JournalReports(journal, "strict")
    rates = traffic_rates({"clients.default": 1000})
    clients = ClientThrottle(settings(), Quotas(clients=ClientRates(rates, rates)), 0.0, RoleStatistics())

    def carry(client_id: str, traffic: ClientTraffic, size: int) -> None:
        connection = ClientConnection(clients)
        entity = connection.entity(client_id, traffic, 0.0)
        assert entity is not None
        connection.charge(entity, size, 0.0)
        connection.count_answer(entity, size)
        clients.count_mutes(9.0)

    def told() -> list[tuple[object, ...]]:
        reports.clients(clients)
        events = journal._take_events()
        assert {event.kind for event in events} <= {Kind.CLIENT}
        return [event.values for event in events]

    assert told() == []
    carry("app", ClientTraffic.PRODUCER, 1250)
    carry("etl", ClientTraffic.CONSUMER, 100)
    assert told() == [("app", "producer", True, 1250, 1.0), ("etl", "consumer", True, 100, 0.0)]
    carry("app", ClientTraffic.PRODUCER, 500)
    assert told() == [("app", "producer", True, 500, 1.5)]
    assert told() == []


def test_without_a_journal_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No event is made, and nothing is written: not even a directory."""
    monkeypatch.chdir(tmp_path)
    made = list[object]()
    monkeypatch.setattr(Journal, "event", lambda *_, **values: made.append(values))
    reports = JournalReports(None, "strict")
    reports.started(lambda: "1.0")
    reports.quota(of_role(Role.LEADER, Quotas()), "start")
    reports.reloaded(ReloadOutcome(ReloadResult.UNCHANGED))
    reports.stopped()
    assert (made, list(tmp_path.iterdir())) == ([], [])
