"""What `/throttle`, `/config` and `/readyz` say, in numbers that were worked out by hand."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from proxy.clients.connection import ClientConnection
from proxy.clients.throttle import ClientThrottle
from proxy.config.settings import load_settings
from proxy.diagnostics.conditions import Condition
from proxy.diagnostics.role_rates import RoleRates
from proxy.journal.writer import JournalStatistics
from proxy.observing.client_metrics import MAX_SHOWN, client_states
from proxy.observing.status_page import StatusPage, Steps
from proxy.quota_files.quota_file import keep_last_good
from proxy.quota_files.reload import QuotaWatch
from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.client_rates import ClientRates
from proxy.quotas.finer_rates import FinerRates
from proxy.quotas.keys import ClientTraffic
from proxy.quotas.replicas import EVERY_PARTITION
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.decision import Forward
from proxy.throttle.link import Link
from tests.proxy.clients.rates import traffic_rates
from tests.proxy.conversation import MIB, Conversation, quotas, settings, throttle
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.throttle.role_throttle import RoleThrottle
from proxy.diagnostics.replica_stats import MAX_PARTITIONS, LinkStats, ReplicaStats
from tests.proxy.diagnostics.surveys import surveyed

SETTINGS = """
[broker]
id = 101
[ingress]
listen = "127.0.0.1:9092"
upstream = "127.0.0.1:19092"
[quotas]
file = "quotas.toml"
[http]
listen = "127.0.0.1:0"
"""
QUOTAS = """
[brokers.101]
leader.replication.throttled.rate = "4MiB/s"
leader.replication.throttled.replicas = "*"
[topics.orders]
follower.replication.throttled.replicas = "3:101"
"""


@pytest.fixture
def throttles() -> dict[Role, RoleThrottle]:
    return {Role.LEADER: throttle(), Role.FOLLOWER: throttle(math.inf, role=Role.FOLLOWER)}


@pytest.fixture
def watch(tmp_path: Path) -> QuotaWatch:
    (tmp_path / "quotas.toml").write_text(QUOTAS)
    return QuotaWatch.open(tmp_path / "quotas.toml", broker_id=101, log=RecordedLog())


@pytest.fixture
def page(tmp_path: Path, watch: QuotaWatch, throttles: dict[Role, RoleThrottle]) -> StatusPage:
    (tmp_path / "proxy.toml").write_text(SETTINGS)
    return StatusPage(
        load_settings(tmp_path / "proxy.toml"),
        watch,
        throttles,
        replica_stats=lambda role, now: surveyed(throttles[role], now),
    )


def encoded(shown: Steps) -> Any:
    """As it leaves over HTTP: strict JSON has neither infinity nor NaN."""
    while True:
        try:
            next(shown)
        except StopIteration as done:
            return json.loads(msgspec.json.encode(done.value, enc_hook=str))


def moved(of: RoleThrottle, partitions: int) -> Conversation:
    """One fetch answered with 200 000 bytes of partition 0, all partitions behind, further the higher their number."""
    talk = Conversation(of, offsets={("t", p): 1000 * (partitions - p) for p in range(partitions)})
    talk.meet()
    decision = talk.ask()
    assert isinstance(decision, Forward)
    talk.answer(decision, {next(iter(talk.asked_for(decision))): 200_000})
    return talk


def test_an_idle_sidecar_is_all_zeroes(page: StatusPage) -> None:
    shown = encoded(page.throttle(5.0))
    assert shown["broker"] == 101
    assert shown["policy"] == "strict"
    assert shown["enforce"] is True
    leader, follower = shown["roles"]["leader"], shown["roles"]["follower"]
    assert leader["quota_bytes_per_second"] == 4 * MIB
    assert follower["quota_bytes_per_second"] is None
    for role in (leader, follower):
        assert role["eta_seconds"] == 0
        assert role["partitions"] == []
        assert not any(role[key] for key in ("rate_bytes_per_second", "connections", "held_requests", "lag_messages"))


def test_rates_inside_the_roles_are_shown_with_what_passed(
    page: StatusPage, throttles: dict[Role, RoleThrottle]
) -> None:
    finer = FinerRates(peers={102: 2.0 * MIB}, topics={"x": 1.0 * MIB})
    quota = RoleQuota(4 * MIB, otherwise=EVERY_PARTITION, finer=finer)
    throttles[Role.LEADER].apply(Quotas(leader=quota, follower=quota), 0.0)
    moved(throttles[Role.LEADER], 3)
    roles = encoded(page.throttle(1.0))["roles"]
    assert roles["leader"]["bounds"] == [
        {
            "kind": "peer", "name": "102", "quota_bytes_per_second": 2.0 * MIB, "rate_bytes_per_second": 200_018.0,
            "throttled_bytes_total": 200_018,
        },
        {
            "kind": "topic", "name": "x", "quota_bytes_per_second": 1.0 * MIB, "rate_bytes_per_second": 0.0,
            "throttled_bytes_total": 0,
        },
    ]  # fmt: skip
    assert roles["follower"]["bounds"] == []


def test_a_move_is_shown_with_its_furthest_partitions_first(
    page: StatusPage, throttles: dict[Role, RoleThrottle]
) -> None:
    moved(throttles[Role.LEADER], 30)
    shown = encoded(page.throttle(0.0))["roles"]["leader"]
    assert shown["rate_bytes_per_second"] == 200_018  # within the first second the window is one second
    assert shown["throttled_bytes_total"] == {"in_sync": 0, "catching_up": 200_018}
    assert shown["omitted_partitions_total"] == 29
    assert len(shown["partitions"]) == MAX_PARTITIONS
    lags = [row["lag_messages"] for row in shown["partitions"]]
    assert lags == sorted(lags, reverse=True)
    assert shown["partitions"][0] == {
        "topic": "t",
        "partition": 29,
        "peer": "102",
        "in_sync": False,
        "lag_messages": 1_000_000 - 1000,
        "rate_bytes_per_second": 0.0,
        "state": "behind",
    }


def test_lag_counts_every_partition_and_an_unknown_eta_is_null(
    page: StatusPage, throttles: dict[Role, RoleThrottle]
) -> None:
    moved(throttles[Role.LEADER], 3)
    shown = encoded(page.throttle(0.0))["roles"]["leader"]
    assert shown["lag_messages"] == 3 * 1_000_000 - 6000
    assert shown["eta_seconds"] is None


def test_the_eta_is_the_lag_over_its_gain(page: StatusPage, throttles: dict[Role, RoleThrottle]) -> None:
    talk = moved(throttles[Role.LEADER], 1)
    talk.now = 0.5
    talk.ask()  # 200 messages further
    shown = encoded(page.throttle(0.5))["roles"]["leader"]
    assert shown["lag_messages"] == 1_000_000 - 1200
    assert shown["eta_seconds"] == pytest.approx((1_000_000 - 1200) / (200 / 5))  # smoothed over 5 s


@pytest.mark.parametrize("enforce", [True, False])
def test_what_stands_still_has_no_eta(
    tmp_path: Path, watch: QuotaWatch, throttles: dict[Role, RoleThrottle], enforce: bool
) -> None:
    """At a quota of 0 it grew from 112 to 2175 s, beside "stands still": it is the average of a lag that has shrunk."""
    (tmp_path / "proxy.toml").write_text(SETTINGS)
    links = (LinkStats("102", 3, lag_messages=5, eta_seconds=112.0), LinkStats("103", 3, eta_seconds=0.0))
    seen = ReplicaStats(lag_messages=5, eta_seconds=112.0, links=links)
    throttles[Role.LEADER].apply(quotas(0.0, enforce=enforce), 0.5)
    page = StatusPage(load_settings(tmp_path / "proxy.toml"), watch, throttles, replica_stats=lambda _, __: seen)
    shown = encoded(page.throttle(0.5))["roles"]["leader"]
    expected = None if enforce else 112.0
    assert [shown["eta_seconds"], *(link["eta_seconds"] for link in shown["links"])] == [expected, expected, 0.0]


def test_connections_that_are_gone_are_not_shown(page: StatusPage, throttles: dict[Role, RoleThrottle]) -> None:
    moved(throttles[Role.LEADER], 2).link.close()
    assert encoded(page.throttle(0.0))["roles"]["leader"]["lag_messages"] == 0


def test_config_shows_what_is_in_force(page: StatusPage) -> None:
    shown = encoded(page.config())["effective_quotas"]
    assert shown["leader"] == {"bytes_per_second": 4 * MIB, "replicas": {"*": "*"}}
    assert shown["follower"] == {"bytes_per_second": None, "replicas": {"orders": "3"}}


def test_ready_until_a_drain_begins(page: StatusPage) -> None:
    assert page.readiness(draining=False) == (True, {"reasons": [], "conditions": []})
    ready, why = page.readiness(draining=True)
    assert not ready
    assert why["reasons"] == ["draining"]


def test_what_is_wrong_is_named_and_no_reason_to_stop(
    tmp_path: Path, watch: QuotaWatch, throttles: dict[Role, RoleThrottle], page: StatusPage
) -> None:
    """Not ready would take a replication path away because a list is misspelt."""
    since = datetime(2026, 12, 1, tzinfo=UTC)
    condition = Condition("undecoded", "critical", since, "{count} passed", "look", "leader", 3)
    warned = StatusPage(
        load_settings(tmp_path / "proxy.toml"),
        watch,
        throttles,
        conditions=lambda: (condition,),
        passing=lambda _: RoleRates(3.0, 2.0, 1.0),
    )
    ready, why = warned.readiness(draining=False)
    (told,) = why["conditions"]
    assert (ready, told["name"], told["role"], told["text"], told["do"]) == (
        True, "undecoded", "leader", "3 passed", "look",
    )  # fmt: skip
    shown = encoded(warned.throttle(0.0))
    assert [each["name"] for each in shown["conditions"]] == ["undecoded"]
    assert shown["roles"]["follower"]["passing_bytes_per_second"] == {"catching_up": 3.0, "in_sync": 2.0, "other": 1.0}


def test_connections_without_a_replicas_fetch_are_told_apart(
    page: StatusPage, throttles: dict[Role, RoleThrottle]
) -> None:
    leader = throttles[Role.LEADER]
    leader.statistics.connections = 3
    moved(leader, 1).link.replicas.fetch_version = 11
    shown = encoded(page.throttle(0.0))["roles"]
    assert shown["leader"]["connections_without_fetches"] == 2
    assert (shown["leader"]["served"], shown["follower"]["served"]) == (True, False)


async def test_a_bad_file_is_shown(tmp_path: Path, page: StatusPage, watch: QuotaWatch) -> None:
    (tmp_path / "quotas.toml").write_text("[brokers.default]\nrate = 1")
    await watch.reload("test")
    shown = encoded(page.throttle(0.0))["quotas"]
    assert shown["last_reload_successful"] is False
    assert "quotas.toml" in shown["last_error"]


@pytest.mark.parametrize(("kept_at", "source"), [((1000.0, 2000.0), "last_good"), ((), "none")])
def test_after_a_start_with_a_bad_file_it_is_told_since_when_the_quotas_were_kept(
    tmp_path: Path, page: StatusPage, kept_at: tuple[float, ...], source: str
) -> None:
    for now in kept_at:
        keep_last_good(tmp_path / "state", QUOTAS.encode(), now)
    (tmp_path / "quotas.toml").write_text("no")
    watch = QuotaWatch.open(tmp_path / "quotas.toml", broker_id=101, log=RecordedLog(), state=tmp_path / "state")
    shown = encoded(StatusPage(load_settings(tmp_path / "proxy.toml"), watch, {}).throttle(0.0))["quotas"]
    assert (shown["source"], shown["last_success_timestamp_seconds"]) == (source, kept_at[0] if kept_at else None)


def test_a_quota_that_was_lifted_is_null(page: StatusPage, throttles: dict[Role, RoleThrottle]) -> None:
    quota = RoleQuota(math.inf)
    throttles[Role.LEADER].apply(Quotas(leader=quota, follower=quota), 1.0)
    assert encoded(page.throttle(1.0))["roles"]["leader"]["quota_bytes_per_second"] is None


def test_connections_say_what_they_speak_and_how_far_behind_they_are(
    page: StatusPage, throttles: dict[Role, RoleThrottle]
) -> None:
    leader = throttles[Role.LEADER]
    near, other = moved(leader, 1), Link(leader, "x")
    far = Conversation(leader, offsets={("t", p): 1000 * (3 - p) for p in range(3)})
    far.meet()
    far.ask()
    near.link.replicas.fetch_version, far.link.replicas.fetch_version = 11, 17
    near.now = 0.5
    near.ask()  # 200 messages further
    first, second = encoded(page.throttle(0.5))["roles"]["leader"]["links"]
    assert other.replicas.fetch_version is None  # a client's connection is none of replication's
    assert first["fetch_version"] == 17
    assert (first["partitions"], first["behind"], first["lag_messages"]) == (3, 3, 3 * 1_000_000 - 6000)
    assert first["eta_seconds"] is None
    assert second["peer"] == "102"
    assert second["fetch_version"] == 11
    assert second["lag_messages"] == 1_000_000 - 1200
    assert second["eta_seconds"] == pytest.approx((1_000_000 - 1200) / (200 / 5))  # smoothed over 5 s
    assert second["rate_bytes_per_second"] == pytest.approx(200_000 / 5 * math.exp(-0.5 / 5), rel=0.01)


async def test_what_changes_by_the_clock_is_told_ahead(tmp_path: Path, page: StatusPage, watch: QuotaWatch) -> None:
    assert encoded(page.throttle(0.0))["quotas"]["next_change"] is None
    (tmp_path / "quotas.toml").write_text(QUOTAS + '[brokers.default]\nfollower.replication.throttled.rate = 5\n'
                                          "until = 2100-01-01T01:00:00+01:00\n")  # fmt: skip
    await watch.reload("test")
    shown = encoded(page.throttle(0.0))
    ends = [shown["roles"][role]["until"] for role in ("leader", "follower")]
    assert ends == [None, "2100-01-01T00:00:00Z"]
    assert shown["quotas"]["next_change"] == {
        "at": "2100-01-01T00:00:00Z",
        "enforce": True,
        "roles": {
            "leader": {"quota_bytes_per_second": 4 * MIB, "replicas_change": False, "rate_source": None, "bounds": []},
            "follower": {"quota_bytes_per_second": None, "replicas_change": False, "rate_source": None, "bounds": []},
        },
    }


RATE = "leader.replication.throttled.rate"
PEER_UNTIL = f'[peers.102]\n{RATE} = "10MiB/s"\nuntil = 2100-01-01T00:00:00Z\n'
FIVE = "5.00 MiB/s (5242880 B/s)"
EXEMPT_UNTIL = f'[topics.x]\n{RATE} = "unlimited"\nuntil = 2100-01-01T00:00:00Z\n[topics."*"]\n{RATE} = "5MiB/s"\n'


@pytest.mark.parametrize(
    ("more", "kind", "name", "before", "after"),
    [
        (PEER_UNTIL, "peer", "102", "10.00 MiB/s (10485760 B/s)", "unlimited"),
        (EXEMPT_UNTIL, "topic", "x", "unlimited", f"{FIVE} shared with topic *"),
    ],
    ids=["until", "a topic exempt from a glob's rate"],
)
async def test_of_the_rates_inside_those_that_change_by_the_clock_are_told_ahead(
    tmp_path: Path, page: StatusPage, watch: QuotaWatch, more: str, kind: str, name: str,
    before: str, after: str,
) -> None:  # fmt: skip
    (tmp_path / "quotas.toml").write_text(f'{QUOTAS}[peers.103]\n{RATE} = "1MiB/s"\n{more}')
    await watch.reload("test")
    roles = encoded(page.throttle(0.0))["quotas"]["next_change"]["roles"]
    assert roles["follower"]["bounds"] == []
    assert roles["leader"]["bounds"] == [{"kind": kind, "name": name, "before": before, "after": after}]


def test_the_journal_is_told_of_if_there_is_one(page: StatusPage, tmp_path: Path, watch: QuotaWatch) -> None:
    assert encoded(page.throttle(0.0))["journal"] is None
    statistics = JournalStatistics(lines=5, dropped_by_queue=2)
    kept = StatusPage(load_settings(tmp_path / "proxy.toml"), watch, {}, journal=statistics, version=lambda: "1.2")
    shown = encoded(kept.throttle(0.0))
    assert (shown["journal"], shown["version"]) == ({"lines_total": 5, "dropped_total": 2}, "1.2")


def test_the_keys_of_clients_are_shown(tmp_path: Path) -> None:
    (tmp_path / "proxy.toml").write_text(SETTINGS)
    (tmp_path / "quotas.toml").write_text(
        '[clients.etl]\nconsumer_byte_rate = 5\ncatch_up_only = true\nmax_throttle = "5s"'
    )
    watch = QuotaWatch.open(tmp_path / "quotas.toml", broker_id=101, log=RecordedLog())
    page = StatusPage(
        load_settings(tmp_path / "proxy.toml"), watch, {Role.LEADER: throttle(), Role.FOLLOWER: throttle()}
    )
    assert encoded(page.throttle(0.0))["client_settings"] == {"max_throttle": {"etl": "5s"}}
    assert encoded(page.config())["effective_quotas"]["clients"] == {
        "producer_byte_rate": {},
        "consumer_byte_rate": {"etl": 5.0},
        "catch_up_only": {"etl": "true"},
        "max_throttle": {"etl": "5s"},
    }


def test_who_waits_is_shown_and_for_how_long_although_the_quota_has_ended() -> None:
    in_force = Quotas(clients=ClientRates(traffic_rates({"clients.app": 1000.0, "clients.etl": 1000.0})))
    clients = ClientThrottle(settings(), in_force, 0.0, RoleStatistics())
    connections = [ClientConnection(clients) for _ in range(3)]
    for connection, size in zip(connections, (5250, 250, 250), strict=True):
        entity = connection.entity("app", ClientTraffic.PRODUCER, 0.0)
        assert entity is not None
        clients.attach(Attached(connection), 0.0)
        connection.charge(entity, size, 0.0)
    assert connections[0].throttle_time_ms(2.0) == 3000

    def shown(now: float) -> dict[str, tuple[object, ...]]:
        found = [each for each in client_states(clients, now) if each.kind == "producer"]
        return {
            each.entity: (
                each.quota_bytes_per_second,
                each.connections,
                each.muted_connections,
                each.muted_for_seconds,
                each.muted_seconds,
            )
            for each in found
        }

    assert shown(2.0) == {"app": (1000.0, 3, 3, 2.0, 3.5), "etl": (1000.0, 0, 0, None, 0.0)}
    clients.apply(Quotas(), 2.0)
    assert shown(2.0) == {"app": (None, 1, 1, 2.0, 3.0)}, "what it was told is not over"
    assert shown(5.5) == {}


@dataclass
class Attached:
    """A connection of the listener as its throttle knows it."""

    client: ClientConnection

    def __hash__(self) -> int:
        return id(self)

    def quotas_changed(self, now: float) -> None:
        self.client.quotas_changed(now)


def test_a_client_with_a_section_is_shown_however_many_move_more_bytes() -> None:
    rates = traffic_rates({"clients.default": 1000.0, "clients.quiet": 500.0, "clients.absent": 2000.0})
    clients = ClientThrottle(settings(), Quotas(clients=ClientRates(rates)), 0.0, RoleStatistics())
    for client_id, size in (("quiet", 1), *((f"busy-{number}", 1000) for number in range(2 * MAX_SHOWN))):
        connection = ClientConnection(clients)
        entity = connection.entity(client_id, ClientTraffic.PRODUCER, 0.0)
        assert entity is not None
        connection.charge(entity, size, 0.0)
    shown = {state.entity: state.rate_bytes_per_second for state in client_states(clients, 0.0)}
    assert len(shown) == MAX_SHOWN + 3
    assert shown["quiet"]
    assert shown["absent"] is None
