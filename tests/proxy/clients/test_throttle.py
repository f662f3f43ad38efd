"""Which connections share a budget, what is counted by which name, and what a change of the quotas does."""

from __future__ import annotations

import gc
import heapq
import math
import weakref

import msgspec
import pytest

from proxy.clients.connection import ClientConnection
from proxy.clients.entity import OTHER, ClientDebt, Entity
from proxy.clients.throttle import MAX_COUNTED, MAX_ENTITIES, ClientThrottle
from proxy.handover.messages import Begin
from proxy.quotas.client_entity import ANONYMOUS, ClientEntity
from proxy.quotas.client_rates import ClientRates, TrafficRates
from proxy.quotas.keys import ClientTraffic
from proxy.quotas.rules import Quotas
from proxy.statistics.counters import RoleStatistics
from tests.proxy.conversation import settings

from .rates import traffic_rates

PRODUCER, CONSUMER = ClientTraffic
A_GLOB, B_GLOB = ClientEntity(None, "a*"), ClientEntity(None, "*b")


def quotas(
    default: float = math.inf,
    globs: dict[str, float] | None = None,
    users: dict[str, float] | None = None,
    *,
    enforce: bool = True,
    **named: float,
) -> Quotas:
    """Quotas of client ids, and of the places ``users.…``."""
    clients = {f"clients.{name}": rate for name, rate in {"default": default, **(globs or {}), **named}.items()}
    return Quotas(clients=ClientRates(producer=traffic_rates({**clients, **(users or {})})), enforce=enforce)


def throttle(of: Quotas) -> ClientThrottle:
    return ClientThrottle(settings(), of, 0.0, RoleStatistics())


def charged(
    of: ClientThrottle, client_id: str | None, size: int = 1000, now: float = 0.0, user: str | None = ANONYMOUS
) -> ClientConnection:
    connection = ClientConnection(of, user)
    entity = connection.entity(client_id, PRODUCER, now)
    assert entity is not None
    connection.charge(entity, size, now)
    connection.count_answer(entity, size)
    return connection


@pytest.mark.parametrize(
    ("of", "one", "other", "share"),
    [
        (quotas(a=1000), "a", "a", True),
        (quotas(1000), "a", "a", True),
        (quotas(1000), "a", "b", False),  # as in Kafka, the default is a quota for each client id
        (quotas(globs={"a-*": 1000}), "a-1", "a-2", True),
        (quotas(users={"users.default": 1000, "users.default.clients.default": 5}), None, "", True),
    ],
)
def test_connections_of_an_entity_share_its_budget(of: Quotas, one: str | None, other: str | None, share: bool) -> None:
    clients = throttle(of)
    assert charged(clients, one).throttle_time_ms(0.0) == 750  # 1000 B/s, 250 B of burst
    assert charged(clients, other).throttle_time_ms(0.0) == (1750 if share else 750)


@pytest.mark.parametrize(
    ("users", "one", "other", "share"),
    [
        ({"users.alice": 1000}, ("alice", "a"), ("alice", "b"), True),
        ({"users.default": 1000}, ("alice", "a"), ("alice", "b"), True),
        ({"users.default": 1000}, ("alice", "a"), ("bob", "a"), False),  # as in Kafka, each other user by itself
        ({"users.a*": 1000}, ("alice", "a"), ("albert", "a"), True),
        ({"users.alice.clients.a": 1000, "users.alice": 1000}, ("alice", "a"), ("alice", "b"), False),
        ({"users.alice.clients.default": 1000}, ("alice", "a"), ("alice", "b"), False),
        ({"users.default.clients.a": 1000}, ("alice", "a"), ("bob", "a"), False),
        ({"users.a*.clients.default": 1000}, ("alice", "a"), ("albert", "a"), True),
        ({"clients.default": 1000}, ("alice", "a"), ("bob", "a"), True),  # a client id of whatever user
    ],
)
def test_connections_of_users(
    users: dict[str, float], one: tuple[str, str], other: tuple[str, str], share: bool
) -> None:
    clients = throttle(quotas(users=users))
    assert charged(clients, one[1], user=one[0]).throttle_time_ms(0.0) == 750
    assert charged(clients, other[1], user=other[0]).throttle_time_ms(0.0) == (1750 if share else 750)


@pytest.mark.parametrize("small", [900_000, 10_000], ids=["alike", "small"])
def test_consumers_of_an_entity_take_turns_whatever_a_response_brings(small: int) -> None:
    """Each is back when its mute is over, and its response comes 2 ms later: one whose mute ends always a little after
    that of the other was answered without records every time."""
    rate, seconds, sizes = 1_000_000, 100, (1_000_000, small)
    of = ClientThrottle(
        settings(), Quotas(clients=ClientRates(consumer=traffic_rates({"clients.a": rate}))), 0.0, RoleStatistics()
    )
    connections, passed_bytes = [ClientConnection(of) for _ in sizes], [0, 0]
    events = [(0.0, who, False) for who in range(2)]
    while (event := heapq.heappop(events))[0] < seconds:
        now, who, comes = event
        connection = connections[who]
        entity = connection.entity("a", CONSUMER, now)
        assert entity is not None
        if comes:
            connection.last_response_bytes = sizes[who]
            connection.charge(entity, sizes[who], now)
            passed_bytes[who] += sizes[who]
        elif connection.answer_session(entity, 7, 3, lists_nothing=True, now=now) is None:
            heapq.heappush(events, (now + 0.002, who, True))
            continue
        heapq.heappush(events, (max(connection.muted_until, now), who, False))
    assert min(passed_bytes) > 0.4 * sum(passed_bytes), passed_bytes
    assert 0.95 * rate * seconds < sum(passed_bytes) < rate * (seconds + 0.25) + sum(sizes)


def test_a_connection_is_charged_to_the_user_that_it_has_now() -> None:
    clients = throttle(quotas(5000, users={"users.alice": 1000}))
    connection = charged(clients, "app", size=1)
    for user, label in (("alice", "users.alice"), (None, "app"), ("alice", "users.alice")):
        connection.authenticated(user)
        entity = connection.entity("app", PRODUCER, 0.0)
        assert (entity and entity.label) == label


def test_a_client_id_that_reads_like_a_user_is_told_from_it() -> None:
    clients = throttle(quotas(1000, users={"users.alice": 1000}))
    charged(clients, "app", user="alice")
    charged(clients, "users.alice", user="bob", size=7)
    assert clients.passed_bytes == {("users.alice", PRODUCER): 1000, ("clients.users.alice", PRODUCER): 7}


def test_too_many_users_share_a_budget_for_each_section() -> None:
    clients = throttle(quotas(5000, users={"users.default.clients.etl": 1000}))
    for number in range(MAX_ENTITIES):
        charged(clients, "etl", user=f"user-{number}")
    assert charged(clients, "etl", user="new").throttle_time_ms(0.0) == 750
    assert charged(clients, "etl", user="newer").throttle_time_ms(0.0) == 1500
    assert charged(clients, "app", user="new", size=6250).throttle_time_ms(0.0) == 1000  # 5000 B/s, 1250 B of burst
    assert len({label for label, _ in clients.passed_bytes}) == MAX_COUNTED + 1


def test_both_kinds_of_traffic_have_budgets_of_their_own() -> None:
    clients = throttle(
        Quotas(clients=ClientRates(traffic_rates({"clients.a": 1000}), traffic_rates({"clients.a": 2000})))
    )
    connection = charged(clients, "a")
    entity = connection.entity("a", CONSUMER, 0.0)
    assert entity is not None
    assert entity.budget.bytes_per_second == 2000
    assert entity.budget.throttle_seconds(0.0) == 0


def test_what_is_counted() -> None:
    clients = throttle(quotas(a=1000))
    connections = [charged(clients, "a") for _ in range(2)]
    assert clients.passed_bytes == {("a", PRODUCER): 2000}
    assert not clients.throttle_seconds
    assert [connection.count_mute(1.0) for connection in connections] == [None, None]
    assert clients.throttle_seconds == {("a", PRODUCER): pytest.approx(0.75 + 1.0)}, "as it passes"
    assert [connection.count_mute(9.0) for connection in connections] == [None, None]
    assert clients.throttle_seconds == {("a", PRODUCER): pytest.approx(0.75 + 1.75)}
    assert [(state.name, state.rate_bytes_per_second) for state in clients.states(0.0)] == [("a", 2000.0)]


def test_observed_only_counts_and_mutes_nobody() -> None:
    clients = throttle(quotas(a=1000, enforce=False))
    assert charged(clients, "a").throttle_time_ms(0.0) == 0
    assert clients.passed_bytes == {("a", PRODUCER): 1000}
    # What passed before is no debt when quotas are enforced.
    clients.apply(quotas(a=1000), 0.0)
    assert charged(clients, "a", size=100).throttle_time_ms(0.0) == 0


def test_made_up_client_ids_are_counted_as_others_and_the_configured_by_name() -> None:
    clients = throttle(quotas(1e9, zzz=1e9))
    for number in range(MAX_COUNTED + 10):
        charged(clients, f"id-{number}")
    charged(clients, "zzz")
    names = {name for name, _ in clients.passed_bytes}
    assert len(names) == MAX_COUNTED + 2
    assert clients.passed_bytes[OTHER, PRODUCER] == 10 * 1000
    assert clients.passed_bytes["zzz", PRODUCER] == 1000


def test_made_up_client_ids_share_a_budget_once_there_are_too_many() -> None:
    clients = throttle(quotas(1000, zzz=1000))
    for number in range(MAX_ENTITIES):
        charged(clients, f"id-{number}")
    assert charged(clients, "new").throttle_time_ms(0.0) == 750
    assert charged(clients, "newer").throttle_time_ms(0.0) == 1500  # its own 750 B, at half the rate
    assert charged(clients, "id-0").throttle_time_ms(0.0) == 1750  # its own
    assert charged(clients, "zzz").throttle_time_ms(0.0) == 750
    # Those that have paid make room.
    assert charged(clients, "newest", now=100.0).throttle_time_ms(100.0) == 750
    assert len(clients.states(100.0)) <= 2 + MAX_ENTITIES


def test_a_connection_finds_the_new_budget_when_its_entity_was_forgotten() -> None:
    clients = throttle(quotas(1000))
    connection = charged(clients, "a", size=100)
    for number in range(MAX_ENTITIES):
        charged(clients, f"id-{number}", now=20.0)
    entity = connection.entity("a", PRODUCER, 20.0)
    assert entity is not None
    assert entity.is_other
    assert entity.name == OTHER


@pytest.mark.parametrize(
    ("after", "left_ms"),
    [
        (quotas(a=10_000), 900),  # 9000 B of debt, at 10 kB/s
        (quotas(a=100), 9000),  # no longer than it was told
        (quotas(), 0),
        (quotas(a=1000, enforce=False), 0),
        (quotas(globs={"a*": 1000}), 0),  # another entity, which has used nothing
        (quotas(1000), 0),
    ],
)
def test_a_change_shortens_a_mute(after: Quotas, left_ms: int) -> None:
    clients = throttle(quotas(a=1000))
    connection = charged(clients, "a", size=9250)
    assert connection.throttle_time_ms(0.0) == 9000
    clients.attach(connection, 0.0)
    clients.apply(after, 0.0)
    assert connection.throttle_time_ms(0.0) == left_ms


def test_a_section_of_its_own_names_a_client() -> None:
    clients = throttle(quotas(1000))
    for number in range(MAX_COUNTED + 1):
        charged(clients, f"id-{number}", size=1)
    clients.apply(quotas(1000, **{f"id-{MAX_COUNTED}": 5000}), 0.0)
    charged(clients, f"id-{MAX_COUNTED}", size=7)
    assert clients.passed_bytes[f"id-{MAX_COUNTED}", PRODUCER] == 7


def test_a_section_that_is_gone_is_shown_no_more() -> None:
    clients = throttle(quotas(1000, {"a-*": 1000}, b=1000))
    charged(clients, "a-1", 100)
    charged(clients, "b", 100)
    charged(clients, "c", 100)
    clients.apply(quotas(2000), 0.0)
    assert [state.name for state in clients.states(0.0)] == ["c"]


def test_debts_go_on_in_another_process() -> None:
    one = throttle(quotas(1000, users={"users.alice": 1000}))
    charged(one, "app", 5250)
    charged(one, "etl", 3250, user="alice")
    charged(one, "idle", 100)
    debts = msgspec.msgpack.decode(msgspec.msgpack.encode(Begin({}, one.debts(1.0))), type=Begin).client_debts
    assert len(debts) == 2
    other = throttle(quotas(1000, users={"users.alice": 1000}))
    other.take_debts(debts, 500.0)
    for client_id, user, seconds in (("app", ANONYMOUS, 3.0), ("etl", "alice", 1.0), ("idle", ANONYMOUS, 0.0)):
        entity = other.entity(user, client_id, PRODUCER, 501.0)
        assert entity is not None
        assert entity.budget.throttle_seconds(501.0) == pytest.approx(seconds)


def test_debts_that_were_handed_over_follow_the_quotas_and_go_on_to_a_third_process() -> None:
    debts = [ClientDebt("producer", None, "app", 10.0), ClientDebt("producer", "bob", None, 10.0)]
    of = throttle(quotas(1000, app=1000, users={"users.default": 1000}))
    of.take_debts(debts, 0.0)
    assert of.debts(0.0) == debts
    of.apply(quotas(1e6, app=1e6, users={"users.default": 1e6}), 0.0)
    assert [debt.seconds for debt in of.debts(0.0)] == [pytest.approx(0.01)] * 2
    of.apply(quotas(), 0.0)
    assert of.debts(0.0) == []


def test_a_client_whose_id_is_other_pays_for_nobody() -> None:
    """Those without a place of their own had its budget, and waited for what it owed."""
    for sections in ({}, {"other": 10.0}):
        clients = throttle(quotas(1000, **sections))
        charged(clients, OTHER, 100_000)
        for number in range(MAX_ENTITIES - (not sections)):
            charged(clients, f"id-{number}")
        assert charged(clients, "new").throttle_time_ms(0.0) == 750
        clients.apply(quotas(2000, **sections), 0.0)
        assert charged(clients, "newer", 2000).throttle_time_ms(0.0) <= 2500
        assert [state.name for state in clients.states(0.0) if state.is_other] == [OTHER]
        assert {state.quota_bytes_per_second for state in clients.states(0.0) if state.is_other} == {2000}


def test_a_connections_part_of_a_shared_budget_ends_with_it() -> None:
    """A connection kept one for each time that the others' budget was forgotten and made anew."""
    clients = throttle(quotas(1000))
    connection = ClientConnection(clients)
    parts = weakref.WeakSet[Entity]()
    for minute in range(5):
        now = 60.0 * minute
        for number in range(MAX_ENTITIES):
            charged(clients, f"id-{number}", now=now)
        entity = connection.entity("new", PRODUCER, now)
        assert entity is not None
        assert entity.is_other
        connection.charge(entity, 1000, now)
        parts.add(entity)
        del entity
        clients.count_mutes(now + 50)
        charged(clients, "makes room", 1, now=now + 50)
        connection.entity("id-0", PRODUCER, now + 50)
    gc.collect()
    assert len(parts) <= 1


def test_an_older_process_tells_no_debts() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode({"type": "begin", "available_bytes": {}}), type=Begin) == (
        Begin({})
    )


def test_without_quotas_nothing_is_needed() -> None:
    assert not throttle(Quotas()).is_needed
    assert not throttle(quotas(a=math.inf)).is_needed
    assert throttle(quotas(a=1)).is_needed


def test_a_client_that_is_silent_has_its_new_quota_at_once() -> None:
    clients = throttle(quotas(1000, app=1000))
    charged(clients, "app")
    charged(clients, "other")
    clients.apply(quotas(3000, app=2000), 0.0)
    assert {state.name: state.quota_bytes_per_second for state in clients.states(0.0)} == {"app": 2000, "other": 3000}


def test_sections_that_count_in_another_order_are_another_quota() -> None:
    """Of equals an override counts first: one that says what the file says of `*b` takes `ab` from `a*`."""
    before, after = (
        Quotas(clients=ClientRates(producer=TrafficRates(dict.fromkeys(order, 1000.0))))
        for order in ((A_GLOB, B_GLOB), (B_GLOB, A_GLOB))
    )
    assert not before.means_the_same_as(after)
    clients = throttle(before)
    clients.apply(after, 0.0)
    charged(clients, "ab")
    assert [state.name for state in clients.states(0.0)] == ["*b"]
