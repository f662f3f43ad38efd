"""`catch_up_only` on relayed connections: a consumer and a broker with Kafka's own ends of a session, on the wire."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from lab.embedded.session_handler import FetchSessionHandler
from lab.embedded.session_values import Ask, Read, SessionResponse
from protocol.fetch.request import parse_fetch_request
from protocol.fetch.tables import response_layout
from protocol.session.requests import SessionRequest
from protocol.wire.apis import API_FETCH
from protocol.wire.framing import with_length
from protocol.wire.headers import response_header, response_header_version
from protocol.wire.layout import TAGS
from proxy.clients.throttle import ClientThrottle
from proxy.handover.connection_state import restore, take
from proxy.handover.messages import Begin, ConnectionState
from proxy.quotas import Quotas
from proxy.quotas.client_entity import ANONYMOUS, ClientEntity
from proxy.quotas.client_rates import ClientRates, TrafficRates
from proxy.quotas.keys import CATCH_UP_ONLY, ClientTraffic
from proxy.relay.connection import Given
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.role_throttle import RoleThrottle
from tests.proxy.conversation import LIMIT, MIB, settings
from tests.proxy.session_conversation import MESSAGE_BYTES, SessionLeader, session_frame, topic_of

from ..relay.wire import Wire, answer, entry, patient_clock, read_frame, relayed

if TYPE_CHECKING:
    from trio.testing import MockClock

    from protocol.session.requests import PartitionKey
    from proxy.relay.connection import Connection

CONSUMER = ClientTraffic.CONSUMER
MIRROR = ClientEntity(None, "mirror")
SESSION_ID_NOT_FOUND = 70


@pytest.fixture
def clock() -> MockClock:
    return patient_clock()


def quotas(rate: float = MIB, *, catch_up_only: bool = True, enforce: bool = True) -> Quotas:
    rates = TrafficRates({MIRROR: rate}, {CATCH_UP_ONLY: {MIRROR: catch_up_only}})
    return Quotas(clients=ClientRates(consumer=rates), enforce=enforce)


def clients(of: Quotas | None = None) -> ClientThrottle:
    return ClientThrottle(settings(), of or quotas(), 0.0, RoleStatistics())


class Consumer:
    """One consumer, and a broker that waits for news as long as it is asked to."""

    def __init__(
        self,
        wire: Wire,
        partitions: dict[int, tuple[int, int]],
        *,
        version: int = 12,
        has_sessions: bool = True,
        **says: Any,
    ) -> None:
        """`has_sessions`: librdkafka has none, in any version."""
        topic = topic_of(version)
        self.wire, self.version, self.says = wire, version, says
        self.has_sessions = has_sessions and version >= 7
        self.broker = SessionLeader({(topic, number): end for number, (_, end) in partitions.items()})
        self.wants = {(topic, number): offset for number, (offset, _) in partitions.items()}
        self.handler = FetchSessionHandler(version)
        self.told_ms: list[int] = []
        self.requests: list[bytes] = []
        """Those that reached the broker."""
        self.open_messages = 0
        """Of an open transaction, behind the last stable offset, which is the end of what is read."""
        self.sent_to = -1
        """The replica that the broker tells the consumer to read from."""

    async def fetch(self) -> SessionResponse:
        listed = {key: Ask(offset, LIMIT) for key, offset in self.wants.items()}
        request = self.handler.build(listed) if self.has_sessions else SessionRequest(self.version, listed)
        frame = session_frame(self.version, request, replica_id=-1, client_id="mirror", **self.says)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._broker)
            await self.wire.follower.send_all(with_length(frame))
            told = self._read(await read_frame(self.wire.follower))
            nursery.cancel_scope.cancel()
        if not self.has_sessions or self.handler.handle(told):
            for key, read in told.entries.items():
                self.wants[key] += read.records_size // MESSAGE_BYTES
        if not self.has_sessions:
            assert told.entries.keys() == self.wants.keys()
        return told

    async def _broker(self) -> None:
        frame = await self.wire.asked()
        self.requests.append(frame)
        request = parse_fetch_request(frame)
        assert request.replica_id == -1
        response = self.broker.answer(frame, trio.current_time())
        if not any(read.records_size for read in response.entries.values()) and not response.error_code:
            await trio.sleep(request.max_wait_ms / 1000)
        await self.wire.leader.send_all(with_length(self._written(response)))

    def _written(self, response: SessionResponse) -> bytes:
        topics = [
            {"topic": topic, "topic_id": topic, "partitions": [self._entry(number, read)], TAGS: []}
            for (topic, number), read in response.entries.items()
        ]
        body: dict[str, Any] = {
            "throttle_time_ms": 0, "error_code": response.error_code, "session_id": response.session_id,
            "responses": topics, TAGS: [],
        }  # fmt: skip
        header = response_header(response_header_version(API_FETCH, self.version)).build(
            {"correlation_id": 7, TAGS: []}
        )
        return bytes(header) + bytes(response_layout(self.version).build(body))

    def _entry(self, number: int, read: Read) -> dict[str, Any]:
        high_watermark = read.high_watermark + self.open_messages
        return {
            **entry(number, bytes(read.records_size), high_watermark=high_watermark),
            "last_stable_offset": read.high_watermark, "preferred_read_replica": self.sent_to, TAGS: [],
        }  # fmt: skip

    def _read(self, frame: bytes) -> SessionResponse:
        body = response_layout(self.version).parse(frame[4 + response_header_version(API_FETCH, self.version) :])
        self.told_ms.append(body.throttle_time_ms)
        entries: dict[PartitionKey, Read] = {}
        for block in body.responses:
            for found in block.partitions:
                key = (block.topic_id if self.version >= 13 else block.topic, found.partition_index)
                assert found.last_stable_offset == self.broker.ends[key] or not found.records.size_bytes
                assert found.high_watermark == found.last_stable_offset + self.open_messages
                assert found.get("preferred_read_replica", -1) == (self.sent_to if self.version >= 11 else -1)
                entries[key] = Read(found.high_watermark, records_size=found.records.size_bytes)
        return SessionResponse(body.get("session_id", 0), entries, body.get("error_code", 0))


@pytest.mark.parametrize(
    ("version", "by_trio", "has_sessions"),
    [
        (4, False, False),
        (6, False, False),
        (7, False, True),
        (11, True, True),
        (12, False, True),
        (12, False, False),
        (13, False, True),
        (16, False, False),  # librdkafka 2.14
        (18, False, True),
    ],
)
async def test_behind_a_consumer_keeps_to_its_rate_and_at_the_tail_it_waits_for_nothing(
    clock: MockClock, version: int, *, by_trio: bool, has_sessions: bool
) -> None:
    of = clients()
    async with relayed(clients=of, by_trio=by_trio) as wire:
        partitions = {0: (0, 20_000), 1: (500, 500), 2: (0, 20_000)}
        consumer = Consumer(wire, partitions, version=version, has_sessions=has_sessions)
        tail = (topic_of(version), 1)
        for _ in range(2):
            await consumer.fetch()
        began, before = trio.current_time(), dict(consumer.wants)
        seconds: Counter[int] = Counter()
        while (now := trio.current_time()) < began + 3:
            consumer.broker.ends[tail] += 10
            caught_up = sum(consumer.wants.values())
            await consumer.fetch()
            assert consumer.wants[tail] == consumer.broker.ends[tail]
            assert trio.current_time() - now < 0.005
            seconds[int(now - began)] += sum(consumer.wants.values()) - caught_up - 10
            await trio.sleep(0.03)
        behind = sum(consumer.wants[key] - before[key] for key in before if key != tail) * MESSAGE_BYTES
        assert 0.9 * 3 * MIB < behind < 1.1 * 3 * MIB
        assert max(seconds.values()) * MESSAGE_BYTES < 1.25 * MIB
        assert of.free_bytes["mirror"] > 90 * 10 * MESSAGE_BYTES
        assert of.passed_bytes["mirror", CONSUMER] > behind + of.free_bytes["mirror"]
        assert not of.throttle_seconds
        assert not any(consumer.told_ms)


async def test_a_fetch_of_which_all_is_behind_is_held_as_by_a_broker_without_news(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        consumer = Consumer(wire, {0: (0, 20_000)}, max_wait_ms=100)
        began = trio.current_time()
        for _ in range(30):
            now = trio.current_time()
            assert (await consumer.fetch()).error_code == 0
            assert trio.current_time() - now <= 0.11
        seconds = trio.current_time() - began
        assert consumer.wants[topic_of(12), 0] * MESSAGE_BYTES < MIB * (seconds + 0.5)
        assert consumer.wants[topic_of(12), 0] * MESSAGE_BYTES > 0.9 * MIB * (seconds - 0.5)


async def test_the_connections_of_an_entity_share_its_rate(clock: MockClock) -> None:
    of = clients()
    tail = (topic_of(12), 1)

    async def read(consumer: Consumer, until: float) -> None:
        while (now := trio.current_time()) < until:
            consumer.broker.ends[tail] += 10
            await consumer.fetch()
            assert consumer.wants[tail] == consumer.broker.ends[tail]
            assert trio.current_time() - now < 0.01
            await trio.sleep(0.03)

    async with relayed(clients=of) as one, relayed(clients=of) as other:
        consumers = [Consumer(wire, {0: (0, 20_000), 1: (500, 500)}) for wire in (one, other)]
        for consumer in consumers * 2:
            await consumer.fetch()
        brought: list[int] = []
        for until in (1.0, 4.0):
            async with trio.open_nursery() as nursery:
                for consumer in consumers:
                    nursery.start_soon(read, consumer, until)
            brought.extend(consumer.wants[topic_of(12), 0] * MESSAGE_BYTES for consumer in consumers)
        shares = [after - before for before, after in zip(brought[:2], brought[2:], strict=True)]
        assert 0.9 * 3 * MIB < sum(shares) < 1.1 * 3 * MIB
        assert min(shares) > 0.8 * max(shares)


async def test_a_consumer_that_reads_from_a_follower_is_at_the_tail_at_its_end(clock: MockClock) -> None:
    """KIP-392: the leader tells which replica to read from, whose high watermark is not yet the leader's."""
    async with relayed(clients=clients()) as wire:
        consumer = Consumer(wire, {0: (400, 500)}, rack_id="here")
        consumer.sent_to, consumer.broker.gives_nothing = 103, True
        await consumer.fetch()
        assert b"\x05here" in consumer.requests[-1]
    of = clients()
    async with relayed(clients=of) as wire:
        consumer = Consumer(wire, {0: (400, 400), 1: (0, 20_000)}, rack_id="here")
        await consumer.fetch()
        for _ in range(4):
            consumer.broker.ends[topic_of(12), 0] += 10
            await consumer.fetch()
            assert consumer.wants[topic_of(12), 0] == consumer.broker.ends[topic_of(12), 0]
            assert b"\x05here" in consumer.requests[-1]
        assert of.free_bytes["mirror"] >= 30 * MESSAGE_BYTES


async def test_what_is_granted_is_not_waited_for_up_to_min_bytes(clock: MockClock) -> None:
    async with relayed(clients=clients()) as wire:
        consumer = Consumer(wire, {0: (0, 20_000)}, min_bytes=8 * MIB)
        await consumer.fetch()
        frame = session_frame(
            12, consumer.handler.build({key: Ask(0, LIMIT) for key in consumer.wants}), replica_id=-1,
            client_id="mirror", min_bytes=8 * MIB,
        )  # fmt: skip
        await wire.follower.send_all(with_length(frame))
        assert parse_fetch_request(await wire.asked()).min_bytes == 1


@pytest.mark.parametrize(("isolation_level", "is_free"), [(1, True), (0, False)])
async def test_committed_reads_are_at_the_tail_at_the_last_stable_offset(
    clock: MockClock, isolation_level: int, *, is_free: bool
) -> None:
    """Of an open transaction nothing can be read, however far away the high watermark is."""
    of = clients()
    async with relayed(clients=of) as wire:
        consumer = Consumer(wire, {0: (500, 500)}, isolation_level=isolation_level, max_wait_ms=50)
        consumer.open_messages = 10**6
        for _ in range(3):
            await consumer.fetch()
        consumer.broker.ends[topic_of(12), 0] += 10
        await consumer.fetch()
        assert (of.free_bytes["mirror"] > 0) is is_free


async def test_a_quota_for_all_bytes_refuses_the_session_and_takes_over(clock: MockClock) -> None:
    of = clients()
    async with relayed(clients=of) as wire:
        consumer = Consumer(wire, {0: (0, 20_000), 1: (0, 0)})
        for _ in range(3):
            await consumer.fetch()
        of.apply(quotas(catch_up_only=False), trio.current_time())
        wire.changes.notify()
        assert (await consumer.fetch()).error_code == SESSION_ID_NOT_FOUND
        assert (await consumer.fetch()).entries.keys() == consumer.wants.keys()
        of.apply(quotas(), trio.current_time())
        assert (await consumer.fetch()).error_code == SESSION_ID_NOT_FOUND
        assert (await consumer.fetch()).error_code == 0
        of.apply(Quotas(), trio.current_time())
        assert (await consumer.fetch()).error_code == SESSION_ID_NOT_FOUND
        await consumer.fetch()
        asked = len(consumer.requests)
        for _ in range(3):
            assert (await consumer.fetch()).error_code == 0
        assert len(consumer.requests) == asked + 3


async def test_a_changed_rate_wakes_a_fetch_that_is_held(clock: MockClock) -> None:
    of = clients(quotas(10_000))
    async with relayed(clients=of) as wire:
        consumer = Consumer(wire, {0: (0, 2_000)}, max_wait_ms=30_000)
        for _ in range(2):
            await consumer.fetch()
        began = trio.current_time()

        async def change() -> None:
            await trio.sleep(1)
            of.apply(quotas(10 * MIB), trio.current_time())
            wire.changes.notify()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            while consumer.wants[topic_of(12), 0] < 1500:
                await consumer.fetch()
        assert trio.current_time() - began < 2


async def test_in_observe_mode_nothing_is_left_out(clock: MockClock) -> None:
    of = clients(quotas(10_000, enforce=False))
    async with relayed(clients=of) as wire:
        consumer = Consumer(wire, {0: (0, 2_000), 1: (0, 2_000)})
        began = trio.current_time()
        while list(consumer.wants.values()) != [2_000, 2_000]:
            await consumer.fetch()
        assert trio.current_time() - began < 2
        assert of.passed_bytes["mirror", CONSUMER] >= 4_000 * MESSAGE_BYTES


async def test_a_follower_is_decided_by_the_roles_quota_beside_a_default_for_clients(clock: MockClock) -> None:
    everyone = ClientEntity(None, "default")
    rates = TrafficRates({everyone: 1000.0}, {CATCH_UP_ONLY: {everyone: True}})
    async with relayed(clients=clients(Quotas(clients=ClientRates(consumer=rates)))) as wire:
        told = answer([entry(0, bytes(1000), high_watermark=10**6)])
        for _ in range(3):
            request, got = await wire.in_flight({("t", 0): 0}, told)
            assert parse_fetch_request(request).replica_id == 102
            assert got == told
        assert len(wire.throttle.links) == 1
        assert wire.throttle.statistics.fetch_requests[3] == 3


async def test_a_fetch_that_is_larger_than_the_window_is_decided(clock: MockClock) -> None:
    """Passed unread, it began a session at line rate that was refused at once, again and again."""
    idle = RoleThrottle(Role.LEADER, settings(), quotas=Quotas(), statistics=RoleStatistics(), now=0.0)
    of = clients()
    async with relayed(idle, clients=of) as wire:
        consumer = Consumer(wire, dict.fromkeys(range(4500), (0, 100)), version=17)
        for _ in range(3):
            assert (await consumer.fetch()).error_code == 0
        assert 0 < sum(consumer.wants.values()) * MESSAGE_BYTES < 1.25 * MIB
        assert of.passed_bytes["mirror", CONSUMER]


async def test_nothing_stays_of_a_session_when_its_connection_ends(clock: MockClock) -> None:
    """A consumer never goes on with it on another one: 5000 partitions of one that starts again and again are 2 MB each
    time."""
    of = clients()
    for _ in range(2):
        async with relayed(clients=of) as wire:
            consumer = Consumer(wire, {0: (0, 2_000), 1: (0, 0)})
            await consumer.fetch()
            entity = of.entity(ANONYMOUS, "mirror", CONSUMER, trio.current_time())
            assert entity is not None
            assert entity.catch_up is not None
            assert len(entity.catch_up.throttle.sessions) == 1
        assert len(entity.catch_up.throttle.sessions) == 0


async def test_another_process_refuses_the_session(clock: MockClock) -> None:
    states: list[ConnectionState] = []

    async def give(connection: Connection) -> Given:
        await trio.lowlevel.checkpoint()
        states.append(take(connection, trio.current_time()))
        return Given.TAKEN

    async with relayed(clients=clients()) as wire:
        consumer = Consumer(wire, {0: (0, 20_000), 1: (0, 0)})
        for _ in range(3):
            await consumer.fetch()
        wire.draining.give = give
        wire.draining.begun.set()
        await wire.finished.wait()
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(states[0]), type=ConnectionState)
    for of in (quotas(), Quotas()):
        async with relayed(clients=clients(of), restore=partial(restore, state=state, now=trio.current_time())) as wire:
            consumer.wire = wire
            before = dict(consumer.wants)
            assert (await consumer.fetch()).error_code == SESSION_ID_NOT_FOUND
            assert consumer.wants == before
            assert (await consumer.fetch()).error_code == 0


async def test_a_debt_is_paid_in_another_process(clock: MockClock) -> None:
    old, new = clients(), clients()
    entity = old.entity(ANONYMOUS, "mirror", CONSUMER, 0.0)
    assert entity is not None
    assert entity.catch_up is not None
    link = entity.catch_up.link("peer", leader="101")
    link.claim.path.settle(reserved=0, used=5 * MIB, now=0.0)
    debts = msgspec.msgpack.decode(msgspec.msgpack.encode(Begin({}, old.debts(0.0))), type=Begin).client_debts
    assert [debt.seconds for debt in debts] == [pytest.approx(5.0, abs=0.2)]
    async with relayed(clients=new) as wire:
        began = trio.current_time()
        new.take_debts(debts, began)
        consumer = Consumer(wire, {0: (0, 20_000), 1: (500, 500)})
        tail = (topic_of(12), 1)
        for _ in range(3):
            await consumer.fetch()
        before = consumer.wants[topic_of(12), 0]
        while trio.current_time() < began + debts[0].seconds - 0.2:
            consumer.broker.ends[tail] += 10
            await consumer.fetch()
            assert consumer.wants[tail] == consumer.broker.ends[tail]
            await trio.sleep(0.1)
        assert consumer.wants[topic_of(12), 0] == before
        while trio.current_time() < began + debts[0].seconds + 1:
            await consumer.fetch()
        assert consumer.wants[topic_of(12), 0] > before + 500
