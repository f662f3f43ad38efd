"""Quotas of users: whom Kafka's own quotas bound, and users under a quota of the sidecar beside the broker's: by SASL,
authenticated again and again (KIP-368), and by the certificates of TLS."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

from lab.brokers.releases import release
from lab.brokers.security import PASSWORD, USER, Security
from lab.clients.program import ClientProgram
from lab.cluster.cluster import cluster
from lab.cluster.plan import ClusterPlan
from lab.host.addresses import KAFKA_PORT, SECURED_PORT
from lab.moves.scenes import topic
from lab.sidecars.sidecars import SidecarPlan
from proxy.quotas.client_entity import ANONYMOUS, ClientEntity
from proxy.quotas.client_rates import client_rates
from proxy.quotas.keys import CLIENT_RATES, ClientTraffic
from proxy.quotas.sections import Layer, Section

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from lab.cluster.cluster import Cluster

PROGRAM = ClientProgram(Path(__file__).parent / "clients" / "Users.java", "4.1.0")
BROKER, OTHER = 101, 102
PLAIN, SCRAM = "PLAIN", "SCRAM-SHA-512"
RATE = 2_000_000
RECORDS = 50
"""Of 100 kB, for each of two client ids of a user: five seconds of its quota."""
BATCH_BYTES = 200_000
"""The most that a producer sends at once; a consumer is sent a second of its quota at most."""
BURST_SECONDS, NATIVE_BURST_SECONDS = 0.25, 10
QUOTAS = f"""
[users.alice]
producer_byte_rate = {RATE}
consumer_byte_rate = {RATE}
[users.default]
producer_byte_rate = "unlimited"
consumer_byte_rate = "unlimited"
[clients.default]
producer_byte_rate = 1000
consumer_byte_rate = 1000
"""
"""What client ids have counts for no user here."""
SMALL, LARGE = 5_000.0, 1e9
RECORD_BYTES, FEW_BYTES = 100_000, 1000
"""One record is far over the small quota, in the ten seconds that a broker looks at; a few bytes are not."""


class Case(NamedTuple):
    """Quotas of the broker by entity. One record is sent as `first`, perhaps a few bytes as `then`."""

    quotas: Mapping[ClientEntity, float]
    first: tuple[str, str] = ("{}", "{}")
    then: tuple[str, str] | None = None
    shares: bool = False
    """The second one is told a throttle time because of the first one's bytes."""


E, PRODUCER = ClientEntity, ClientTraffic.PRODUCER
CASES = {
    "default user's client id before client id": Case({E("default", "{}"): SMALL, E(None, "{}"): LARGE}),
    "client id after default user's client id": Case({E("default", "{}"): LARGE, E(None, "{}"): SMALL}),
    "default user before client id": Case({E("default", None): SMALL, E(None, "{}"): LARGE}),
    "user's default client before user": Case({E("{}", "default"): SMALL, E("{}", None): LARGE}),
    "user before default user's client id": Case({E("{}", None): SMALL, E("default", "{}"): LARGE}),
    "default client of default users before them": Case({E("default", "default"): LARGE, E("default", None): SMALL}),
    "each default user by itself": Case({E("default", None): SMALL}, then=("{}-b", "{}")),
    "a user's client ids together": Case({E("default", None): SMALL}, then=("{}", "{}-b"), shares=True),
    "each default client by itself": Case({E(None, "default"): SMALL}, then=("{}", "{}-b")),
    "a client id's users together": Case({E(None, "default"): SMALL}, then=("{}-b", "{}"), shares=True),
    "each default pair by itself": Case({E("default", "default"): SMALL}, then=("{}", "{}-b")),
    "who is not authenticated": Case({E("ANONYMOUS", None): SMALL, E(None, "{}"): LARGE}, first=("-", "{}")),
    "who is not authenticated is a default user": Case({E("default", None): SMALL}, first=("-", "{}")),
}
NAMES = [f"n{number}" for number in range(len(CASES))]
USERS = ["alice", "bob", *(f"{name}{more}" for name in NAMES for more in ("", "-b"))]


def plain_module() -> str:
    known = " ".join(f'user_{user}="secret"' for user in USERS)
    return (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}"'
        f' user_{USER}="{PASSWORD}" {known};'
    )


PROPERTIES = {
    "sasl.enabled.mechanisms": f"{PLAIN},{SCRAM}",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_module(),
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "connections.max.reauth.ms": "4000",
}


@asynccontextmanager
async def brokers(
    security: Security = Security.SASL_PLAINTEXT, properties: Mapping[str, str] = PROPERTIES, quotas: str = QUOTAS
) -> AsyncIterator[Cluster]:
    plan = ClusterPlan(
        brokers=(BROKER, OTHER), release=release(protocol="4.1"), security=security, broker_overrides=properties,
        sidecars=SidecarPlan(quotas=quotas),
    )  # fmt: skip
    async with cluster(plan) as running:
        yield running


async def said(running: Cluster, name: str, commands: list[str], *, native: bool) -> list[list[list[str]]]:
    """The answers of `Users.java` to each of the commands. `native`: it meets the broker itself."""
    address_of, where = (
        running.addresses.direct if native else running.addresses.ingress,
        running.addresses.name(BROKER),
    )
    arguments = (f"{where}:{KAFKA_PORT}", f"{where}:{SECURED_PORT}", name, running.keys.home)
    events = await PROGRAM.run(
        running,
        {broker: address_of(broker) for broker in (BROKER, OTHER)},
        arguments,
        stdin="\n".join(commands).encode(),
    )
    answers: list[list[list[str]]] = [[]]
    for event in events:
        if event == ["done"]:
            answers.append([])
        else:
            answers[-1].append(event)
    assert not [event for answer in answers for event in answer if event[0] == "failed"]
    return answers[:-1]


def told_ms(answer: list[list[str]]) -> int:
    return next(int(event[1]) for event in answer if event[0] == "told")


def authenticated_again(answer: list[list[str]]) -> tuple[int, int]:
    """How often a client has, and how many connections were closed under it."""
    return next((int(event[1]), int(event[2])) for event in answer if event[0] == "authenticated_again")


def carried(answers: list[list[list[str]]], kind: str) -> list[tuple[float, int]]:
    found = [(int(event[1]) / 1000, int(event[2])) for answer in answers for event in answer if event[0] == kind]
    return sorted(found)


def rate(moved: list[tuple[float, int]]) -> float:
    """Bytes per second after the first record."""
    return sum(size for _, size in moved[1:]) / (moved[-1][0] - moved[0][0])


def worst_second(moved: list[tuple[float, int]]) -> float:
    return max(sum(size for at, size in moved if began <= at < began + 1) for began, _ in moved)


def written(parts: tuple[str | None, str | None], name: str) -> list[str]:
    return ["-" if part is None else part.format(name) for part in parts]


def senders(case: Case, name: str) -> list[list[str]]:
    return [written(sender, name) for sender in (case.first, case.then) if sender is not None]


def commands_of(case: Case, name: str) -> list[str]:
    given = [(*written(entity, name), rate) for entity, rate in case.quotas.items()]
    sizes = (RECORD_BYTES, FEW_BYTES)
    return [
        *(f"quota {user} {client} {rate}" for user, client, rate in given),
        *(
            f"send {user} PLAIN {client} 1 {size}"
            for (user, client), size in zip(senders(case, name), sizes, strict=False)
        ),
        *(f"quota {user} {client} 0" for user, client, _ in given),
    ]


@pytest.mark.system
@pytest.mark.timeout(300)
async def test_the_order_is_that_of_a_broker() -> None:
    """The quota that a real broker goes by is the one that the sidecar finds, and shared by the same connections."""
    async with brokers() as running, topic(running, {0: [BROKER]}) as name:
        commands = [commands_of(case, each) for case, each in zip(CASES.values(), NAMES, strict=True)]
        answers = await said(running, name, [line for lines in commands for line in lines], native=True)
    found, expected = {}, {}
    for (words, case), each, lines in zip(CASES.items(), NAMES, commands, strict=True):
        mine, answers = answers[: len(lines)], answers[len(lines) :]
        found[words] = [told_ms(answer) > 0 for answer, line in zip(mine, lines, strict=True) if "send" in line]
        expected[words] = bounded_here(case, each)
    assert found == expected


def bounded_here(case: Case, name: str) -> list[bool]:
    """Whether each sender is over its quota, by the quota and the entity that the sidecar finds."""
    sections = {
        ClientEntity(*(part and part.format(name) for part in entity)): Section(
            "", values={CLIENT_RATES[PRODUCER]: rate}
        )
        for entity, rate in case.quotas.items()
    }
    rates = client_rates([Layer(clients=sections)], datetime.now(UTC)).producer
    first, *then = [rates.of(ANONYMOUS if user == "-" else user, client) for user, client in senders(case, name)]
    assert first is not None
    return [first.bytes_per_second == SMALL, *(each is not None and each.entity == first.entity for each in then)]


class Moved(NamedTuple):
    """What two client ids of alice and one of bob moved: (seconds, bytes) of each record."""

    sent: list[tuple[float, int]]
    read: list[tuple[float, int]]
    exempt: list[tuple[float, int]]
    told_ms: tuple[int, ...]
    """The longest throttle time of each producer and consumer of alice."""
    authenticated_again: tuple[tuple[int, int], ...]
    """How often each of them has, and how many connections were closed under it."""

    def figures(self) -> dict[str, object]:
        return {
            "sent_bytes_per_second": round(rate(self.sent)),
            "read_bytes_per_second": round(rate(self.read)),
            "worst_second_sent": worst_second(self.sent),
            "worst_second_read": worst_second(self.read),
            "exempt_bytes_per_second": round(rate(self.exempt)),
            "told_ms": self.told_ms,
            "authenticated_again": self.authenticated_again,
        }


async def moved_by_users(running: Cluster, name: str, *, native: bool) -> Moved:
    count = RECORDS
    if native:  # ten seconds of the quota pass at once, and then the broker throttles
        await said(running, name, [f"quota alice - {RATE}"], native=True)
        count += NATIVE_BURST_SECONDS * RATE // RECORD_BYTES // 2
    answers: list[list[list[str]]] = []

    async def run(mechanism: str, client: str) -> None:
        sender = f"alice {mechanism} {client} {count}"
        answers.extend(await said(running, name, [f"send {sender} {RECORD_BYTES}", f"read {sender}"], native=native))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, PLAIN, "one")
        nursery.start_soon(run, SCRAM, "two")
    exempt = await said(running, name, [f"send bob {SCRAM} one {2 * count} {RECORD_BYTES}"], native=native)
    told, again = tuple(map(told_ms, answers)), tuple(map(authenticated_again, answers))
    return Moved(carried(answers, "acked"), carried(answers, "read"), carried(exempt, "acked"), told, again)


@pytest.mark.system
@pytest.mark.timeout(300)
async def test_two_users_beside_the_brokers_own_quota(record: Callable[..., None]) -> None:
    """Both client ids of a user share its quota, by PLAIN as by SCRAM; another user is exempt, as its section says.

    A connection that does not authenticate again within four seconds is closed by the broker: its user stays the
    same, and its quota."""
    async with brokers() as running, topic(running, {0: [BROKER]}) as name:
        await said(running, name, ["scram alice", "scram bob"], native=True)
        ours = await moved_by_users(running, name, native=False)
        metrics = running.sidecars[BROKER].metrics()["replication_throttle_client_bytes_total"]
        native = await moved_by_users(running, name, native=True)
    record("user_quotas", kafka=PROGRAM.kafka, ours=ours.figures(), native=native.figures())
    assert {labels.split('"')[1] for labels in metrics} == {"users.alice"}
    for mine, theirs, at_once in ((ours.sent, native.sent, BATCH_BYTES), (ours.read, native.read, RATE)):
        size, span = sum(size for _, size in mine), mine[-1][0] - mine[0][0]
        # What the two connections moved last is waited for by nobody.
        assert 0.9 * RATE * span <= size <= 1.05 * RATE * (span + BURST_SECONDS) + 2 * at_once
        assert worst_second(mine) <= (1 + BURST_SECONDS) * RATE + 2 * at_once
        assert worst_second(mine) < worst_second(theirs)
    assert min(ours.told_ms) > 0
    # Producers answer first; one client may have read all before its time has come.
    assert all(sum(times for times, _ in ours.authenticated_again[kind::2]) > 0 for kind in range(2))
    assert {closed for _, closed in ours.authenticated_again} == {0}
    assert max(native.told_ms) > 0
    assert min(rate(ours.exempt), rate(native.exempt)) > 3 * RATE


@pytest.mark.system
@pytest.mark.timeout(120)
async def test_a_user_by_certificate_has_the_name_that_the_broker_knows(record: Callable[..., None]) -> None:
    quotas = f"""
[users."CN=etl"]
producer_byte_rate = {RATE}
[users.default]
producer_byte_rate = "unlimited"
"""
    rate_of = "quota CN=etl - {}"
    async with brokers(Security.MTLS, {}, quotas) as running, topic(running, {0: [BROKER]}) as name:
        for user in ("etl", "other"):
            running.keys.authority.issue(f"{user}.pem", [user])
        once = [f"send {user} TLS one 1 {RECORD_BYTES}" for user in ("etl", "other")]
        _, *native, _ = await said(running, name, [rate_of.format(SMALL), *once, rate_of.format(0)], native=True)
        often = [f"send {user} TLS one {RECORDS} {RECORD_BYTES}" for user in ("etl", "other")]
        ours = await said(running, name, often, native=False)
        metrics = running.sidecars[BROKER].metrics()["replication_throttle_client_bytes_total"]
    bounded, exempt = (carried([answer], "acked") for answer in ours)
    record("user_by_certificate", bytes_per_second=round(rate(bounded)), exempt=round(rate(exempt)))
    assert [told_ms(answer) > 0 for answer in native] == [True, False]
    assert [told_ms(answer) > 0 for answer in ours] == [True, False]
    assert {labels.split('"')[1] for labels in metrics} == {"users.CN=etl"}
    assert worst_second(bounded) <= (1 + BURST_SECONDS) * RATE + BATCH_BYTES
    assert rate(bounded) > 0.9 * RATE
    assert rate(exempt) > 2 * RATE
