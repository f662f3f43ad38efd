from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from rich.console import Console

from operating.fleet.members import Member
from operating.status.rows import Sidecar
from operating.status.table import layout
from operating.status.words import holding, waiting_lines
from proxy.diagnostics.conditions import Condition
from proxy.diagnostics.replica_stats import LinkStats, PartitionStats
from proxy.observing.throttle_page import (
    BoundChangeState,
    BoundState,
    ChangeState,
    ClientState,
    JournalState,
    Page,
    PassingState,
    QuotasState,
    RateState,
    RoleChangeState,
    RoleState,
)

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
HEADINGS = [
    "of unthrottled lag in in-sync partitions fetches",
    "broker role mode quota rate quota rate messages ETA rate left out connections held",
]
GOOD = QuotasState("abc", last_success_timestamp_seconds=NOW.timestamp() - 90)


def shown(*answers: Page | Sidecar) -> list[str]:
    sidecars = [Sidecar(Member("http://a"), page=each) if isinstance(each, Page) else each for each in answers]
    console = Console(file=io.StringIO(), width=180)
    console.print(layout(sidecars, NOW))
    assert isinstance(console.file, io.StringIO)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def page(role: RoleState, *, enforce: bool = True, quotas: QuotasState = GOOD) -> Page:
    return Page(
        101, "strict", enforce, quotas, {"follower": role}, version="1.2", journal=JournalState(7, 0), conditions=()
    )


def test_a_row_per_role_and_what_holds() -> None:
    role = RoleState(
        2**20,
        2.0**19,
        omitted_partitions_total=3,
        substituted_partitions_total=4,
        withheld_bytes_total=5,
        connections=6,
        held_requests=7,
        lag_messages=8,
        eta_seconds=90,
    )
    assert shown(page(role)) == [
        *HEADINGS,
        "101 follower enforcing 1.00 MiB/s 512 KiB/s 50% - 8 1m30s - 7 6 7",
        "",
        "broker 101: policy strict, quotas abc read 1m30s ago, journal 7 lines, 0 dropped, version 1.2",
    ]


def test_rates_inside_the_roles_are_told_those_used_most_first() -> None:
    bounds = (BoundState("topic", "orders", 2.0**20, 1000.0, 5), BoundState("peer", "102", 2.0**21, 2.0**20, 5))
    lines = shown(page(RoleState(2.0**22, 1.0, bounds=bounds)))
    assert lines[-2:] == [
        "broker 101, follower: peer 102 has 1.00 MiB/s of 2.00 MiB/s",
        "broker 101, follower: topic orders has 1000 B/s of 1.00 MiB/s",
    ]
    many = tuple(BoundState("peer", str(each), 1.0, 0.0, 0) for each in range(100))
    lines = shown(page(RoleState(2.0**22, 1.0, bounds=many)))
    assert lines[-1] == "broker 101, follower: 88 more rates of racks, peers and topics"


def test_quotas_of_clients_are_told() -> None:
    role = RoleState(2.0**22, 1.0)
    clients = (
        ClientState(
            "producer",
            "etl-*",
            2.0**21,
            2.0**20,
            connections=9,
            muted_connections=2,
            muted_for_seconds=12.2,
            muted_seconds=3.7,
        ),
        ClientState("consumer", "default", 2.0**20),
        ClientState("consumer", "free", None),
        ClientState("consumer", "users.alice.clients.etl", 2.0**20),
        ClientState("consumer", "mirror", 2.0**21, 2.0**20, 2.0**19),
    )
    lines = shown(msgspec.structs.replace(page(role), clients=clients))
    held = "2 of 9 connections wait, since 12s, 4s more at most"
    assert lines[-5:] == [
        f"broker 101, client etl-* as a producer: 1.00 MiB/s of 2.00 MiB/s (50%), {held}",
        "broker 101, each other client id as a consumer: 1.00 MiB/s",
        "broker 101, client free as a consumer: unlimited",
        "broker 101, users.alice.clients.etl as a consumer: 1.00 MiB/s",
        "broker 101, client mirror as a consumer: 1.00 MiB/s of 2.00 MiB/s (50%) behind the tail, 512 KiB/s at it",
    ]
    waits = {"max_throttle": {"etl-*": "5s", "users.alice": "1m"}}
    assert shown(msgspec.structs.replace(page(role), client_settings=waits))[-2:] == [
        "broker 101, client etl-*: max_throttle 5s",
        "broker 101, users.alice: max_throttle 1m",
    ]
    many = tuple(ClientState("producer", str(each), 1.0) for each in range(50))
    assert shown(msgspec.structs.replace(page(role), clients=many))[-1] == "broker 101: 38 more quotas of clients"


def test_who_waits_after_a_change_is_told() -> None:
    """A producer that was told to wait did so, and nothing named it any more once its quota had ended."""
    clients = (
        ClientState("producer", "etl", 2.0**21, 2.0**20, connections=3),
        ClientState(
            "producer", "app", None, 1.0, connections=1, muted_connections=1, muted_for_seconds=1.0, muted_seconds=12.0
        ),
        ClientState(
            "consumer",
            "mirror",
            5.0,
            1.0,
            connections=2,
            muted_connections=2,
            muted_for_seconds=70.0,
            muted_seconds=9.0,
        ),
    )
    of = msgspec.structs.replace(page(RoleState(2.0**22, 1.0)), clients=clients)
    ended = "(its quota has ended)"
    assert list(waiting_lines([of])) == [
        f"broker 101: client app as a producer {ended}, 1 of 1 connections wait, since 1s, 12s more at most",
        "broker 101: client mirror as a consumer, 2 of 2 connections wait, since 1m10s, 9s more at most",
    ]


def test_the_rate_of_the_listener_is_told_with_what_uses_it() -> None:
    leader = RoleState(2.0**22, 1.0, passing_bytes_per_second=PassingState(2.0**19, 2.0**20, 2.0**21))
    of_leader = msgspec.structs.replace(page(leader), roles={"leader": leader})
    assert "listener" not in " ".join(shown(of_leader))
    assert shown(msgspec.structs.replace(of_leader, listener_bytes_per_second=2.0**22))[-1] == (
        "broker 101, listener has 3.50 MiB/s of 4.00 MiB/s: in sync 1.00 MiB/s, clients and others 2.00 MiB/s, "
        "catching up 512 KiB/s"
    )


def test_what_goes_first_is_told_if_there_is_something() -> None:
    in_need = {"under-min-isr": 2, "under-replicated": 0}
    assert shown(page(RoleState(2.0**22, 1.0, behind_in_need=in_need)))[-1] == (
        "broker 101, follower: replicas behind: 2 under-min-isr"
    )


@pytest.mark.parametrize(("quota", "cells"), [(None, "enforcing unlimited 1 B/s -"), (0, "enforcing 0 B/s 1 B/s -")])
def test_a_share_needs_a_quota(quota: float | None, cells: str) -> None:
    assert cells in shown(page(RoleState(quota, 1.0)))[2]


def test_quotas_of_nothing_are_nothing_together() -> None:
    stopped = page(RoleState(0.0, 0.0))
    lines = shown(*(msgspec.structs.replace(stopped, broker=broker) for broker in (1, 2, 3)))
    assert "total follower 3 of them 0 B/s 0 B/s - - 0 0s - 0 0 0" in lines


def test_a_sidecar_that_does_not_answer_is_a_row_with_its_error() -> None:
    lines = shown(Sidecar(Member("http://b"), error="http://b/throttle: no answer"), page(RoleState(None, 1.0)))
    assert lines[0] == "2 sidecars: 1 answer, 1 does not, none with warnings"
    assert lines[4] == "? - http://b no answer"
    assert lines[5].startswith("101 follower")
    assert lines[7] == "http://b/throttle: no answer"


def test_connections_say_what_they_speak_and_when_they_are_done() -> None:
    links = (
        LinkStats("102", 11, 40, 3, 1000, 2.0**20, 12.0),
        LinkStats("103", 3, 5, 5, 5000, 1.0, None),
    )
    assert shown(page(RoleState(None, 1.0, links=links)))[-4:] == [
        "partitions lag in",
        "broker role peer Fetch behind/all messages rate ETA",
        "101 follower 103 v3 5/5 5000 1 B/s -",
        "101 follower 102 v11 3/40 1000 1.00 MiB/s 12s",
    ]
    many = tuple(LinkStats(str(n)) for n in range(25))
    assert "… 5 more" in shown(page(RoleState(None, 1.0, links=many)))


def test_the_partitions_furthest_behind_come_first() -> None:
    partitions = tuple(PartitionStats("t", n, "102", n % 2 == 0, n * 10, 1.0) for n in range(15))
    lines = shown(page(RoleState(None, 1.0, partitions=partitions)))
    assert lines[6:10] == [
        "lag in",
        "broker role topic peer partition messages rate in sync",
        "101 follower t 102 14 140 1 B/s yes",
        "101 follower t 102 13 130 1 B/s no",
    ]
    assert len([line for line in lines if " t 102 " in line]) == 10
    refused = PartitionStats("t", 1, "102", False, 0, 0.0, "refused: CLUSTER_AUTHORIZATION_FAILED")
    assert shown(page(RoleState(None, 1.0, partitions=(refused,))))[-1] == (
        "101 follower t 102 1 0 0 B/s refused: CLUSTER_AUTHORIZATION_FAILED"
    )


def test_what_will_change_by_itself_is_said_with_its_time() -> None:
    soon = NOW + timedelta(hours=2)
    change = ChangeState(soon, enforce=False, roles={"follower": RoleChangeState(2.0**20, replicas_change=True)})
    quotas = QuotasState("abc", next_change=change)
    when = "2026-11-01 14:00:00 UTC (in 2h00m)"
    assert shown(page(RoleState(None, 0.0, until=soon), quotas=quotas))[-2:] == [
        f"broker 101, follower: quota ends {when}",
        f"broker 101: next change {when}: follower unlimited -> 1.00 MiB/s, other replicas (follower), observing only",
    ]


@pytest.mark.parametrize(
    ("source", "ages", "told"),
    [
        ("file", (90,), ["broker 1: policy strict, quotas abc read 1m30s ago"]),
        ("pushed", (90, 9), ["brokers 1, 2: policy strict, quotas abc, all read within the last 1m30s"]),
        (
            "last_good",
            (30 * 86400,),
            ["broker 1: policy strict, quotas abc first kept on disk 30d00h ago"],
        ),
        (
            "last_good",
            (90, 9),
            ["brokers 1, 2: policy strict, quotas abc, all first kept on disk within the last 1m30s"],
        ),
        ("none", (None,), ["broker 1: policy strict, quotas abc"]),
        # An older sidecar said 0.
        ("none", (NOW.timestamp(),), ["broker 1: policy strict, quotas abc"]),
    ],
)
def test_how_old_the_quotas_are_is_said_as_what_it_is(
    source: str, ages: tuple[float | None, ...], told: list[str]
) -> None:
    read = [None if age is None else NOW.timestamp() - age for age in ages]
    quotas = [QuotasState("abc", source=source, last_success_timestamp_seconds=at) for at in read]
    pages = [Page(n, "strict", enforce=True, quotas=each, roles={}, conditions=()) for n, each in enumerate(quotas, 1)]
    assert holding(pages, NOW) == told


def test_quotas_that_were_kept_are_told_apart_from_those_that_were_read() -> None:
    kept = QuotasState("abc", source="last_good", last_success_timestamp_seconds=NOW.timestamp() - 9)
    pages = [
        Page(n, "strict", enforce=True, quotas=each, roles={}, conditions=()) for n, each in enumerate((GOOD, kept), 1)
    ]
    assert [line.partition(" abc ")[2] for line in holding(pages, NOW)] == [
        "read 1m30s ago",
        "first kept on disk 9s ago",
    ]


def ahead(*roles: str, **after: Any) -> str:
    """What is said to change at a sidecar that serves these roles, each at 1 MiB/s; the follower's changes."""
    change = ChangeState(NOW, enforce=True, roles={"follower": RoleChangeState(2.0**20, **after)})
    served = {name: RoleState(2.0**20, 0.0, served=name in roles) for name in ("leader", "follower")}
    told = shown(
        Page(1, "strict", enforce=True, quotas=QuotasState("abc", next_change=change), roles=served, conditions=())
    )
    return " ".join(told).partition("next change 2026-11-01 12:00:00 UTC (in 0s): ")[2]


def test_of_the_rates_inside_the_change_is_said() -> None:
    peer = BoundChangeState("peer", "102", "10.0 MiB/s", "unlimited")
    topic = BoundChangeState("topic", "x", "unlimited", "5 B/s shared with topic *")
    assert ahead("follower", bounds=(peer,)) == "follower peer 102 10.0 MiB/s -> unlimited"
    assert ahead("follower", bounds=(peer, topic)) == (
        "follower peer 102 10.0 MiB/s -> unlimited, follower topic x unlimited -> 5 B/s shared with topic *"
    )
    many = tuple(BoundChangeState("peer", str(each), "1 B/s", "2 B/s") for each in range(100))
    assert ahead("follower", bounds=many).count("->") == 12
    assert ahead("follower", bounds=many).endswith(", 88 more rates inside follower")


def test_no_change_is_said_to_be_nothing() -> None:
    """An older sidecar does not say what changes inside a role's rate; what is not served changes for nobody."""
    assert ahead("follower") == "an older sidecar does not say what, `throttle-sidecar check` does"
    assert ahead("follower", bounds=()) == ""
    assert ahead("leader", bounds=(BoundChangeState("peer", "102", "1 B/s", "unlimited"),)) == ""
    assert ahead("leader", replicas_change=True) == ""


SET_ITSELF = RateState(
    "what is needed to end by 06:00:00 UTC, from 1 to 9",
    1.0,
    9.0 * 2**20,
    held_by="deadline",
    reason="the least that ends",
)


def test_a_rate_that_sets_itself_says_what_was_chosen_and_why() -> None:
    role = RoleState(2.0**20, 3.0 * 2**20, lag_bytes=2.0**30, rate=SET_ITSELF)
    lines = shown(page(role))
    assert lines[-1] == (
        "broker 101, follower: the rate sets itself, now 1.00 MiB/s, held by deadline: the least that ends; "
        "1.00 GiB behind (at most 9.00 MiB/s)"
    )
    # The rate of eleven seconds may be more than one that has sunk since.
    assert "!" not in lines[2]


@pytest.mark.parametrize("held_by", ["nothing", "nothing_behind", "lag_unknown", "deadline_passed"])
def test_what_holds_nothing_is_not_told_of(held_by: str) -> None:
    """It said "held by nothing"."""
    rate = msgspec.structs.replace(SET_ITSELF, held_by=held_by, reason="not all of it is used")
    line = shown(page(RoleState(2.0**20, 3.0 * 2**20, rate=rate)))[-1]
    assert line.endswith("the rate sets itself, now 1.00 MiB/s: not all of it is used (at most 9.00 MiB/s)")


def test_one_that_will_be_late_says_what_would_be_needed() -> None:
    late = msgspec.structs.replace(SET_ITSELF, late=True, reason="too late", needed_bytes_per_second=20.0 * 2**20)
    lines = shown(page(RoleState(9.0 * 2**20, 0.0, rate=late)))
    assert lines[-1].endswith("20.0 MiB/s would be needed (at most 9.00 MiB/s)")


def test_what_changes_of_a_rate_that_sets_itself_is_its_source() -> None:
    def ahead(**after: Any) -> str:
        change = ChangeState(NOW, enforce=True, roles={"follower": RoleChangeState(9.0 * 2**20, **after)})
        return shown(page(RoleState(2.0**20, 0.0, rate=SET_ITSELF), quotas=QuotasState("abc", next_change=change)))[-1]

    assert "->" not in ahead(rate_source=SET_ITSELF.source, replicas_change=True)
    assert f"follower {SET_ITSELF.source} -> 9.00 MiB/s" in ahead()


def test_what_is_amiss_is_said_below() -> None:
    wrong = Condition("undecoded", "critical", NOW, "{count} passed (tls)", "look", "leader", 2)
    roles = {"leader": RoleState(0.0, 0.0)}
    found = Page(101, "strict", enforce=False, quotas=QuotasState("abc"), roles=roles, conditions=(wrong,))
    lines = shown(found)
    assert lines[2].startswith("101 ! leader OBSERVING ")
    told = [line for line in lines if line.startswith("warning: ")]
    assert told == ["warning: broker 101, leader: 2 passed (tls): look"]


def test_eighty_columns_are_enough() -> None:
    """For what matters: what is left out, connections and holding need a wider terminal."""
    link = LinkStats("102", 11, 4000, 300, 10**7, 500 * 2.0**20, 90000)
    role = RoleState(500 * 2.0**20, 499 * 2.0**20, lag_messages=10**7, eta_seconds=90000, links=(link,))
    found = page(role)
    console = Console(file=io.StringIO(), width=80)
    console.print(
        layout(
            [Sidecar(Member("http://a"), page=found), Sidecar(Member("http://b"), error="http://b: no")], NOW, width=80
        )
    )
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "…" not in text
    assert " ".join(text.split()).count("101 follower 500 MiB/s 499 MiB/s 100% - 10000000 25h00m") == 1
    assert "connections" not in text
