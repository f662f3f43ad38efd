"""Asking how many replicas are in sync: when, by which version, and what comes of a broker that does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from protocol.metadata import ReplicaCount, metadata_request_layout, metadata_response_layout, replica_counts
from protocol.own_requests import REASSIGNMENTS_RESPONSE
from protocol.wire.framing import with_length
from protocol.wire.headers import peek_request, response_header, response_header_version
from protocol.wire.layout import TAGS, layout, parse_whole
from proxy.cluster import broker_client
from proxy.cluster.polling import RETRY_SECONDS, follow
from proxy.cluster.questions import ReplicaCountQuestion, without_added
from proxy.config.settings import Address
from proxy.quotas.priorities import Priorities
from proxy.topology.partition_urgency import PartitionUrgency
from proxy.topology.topic_names import TopicNames
from tests.proxy.conversation import MIB, Conversation, throttle

from ..api_versions import ASKED, known
from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from proxy.throttle.role_throttle import RoleThrottle

BROKER = broker_client.Broker(Address("kafka", 9092))
ISR = {0: (3, 1), 1: (3, 3)}


def metadata(names: list[str | None], ids: list[bytes], version: int) -> bytes:
    topics = [
        {
            "error_code": 3 if name == "gone" else 0, "name": name, "topic_id": topic_id, "is_internal": False,
            "partitions": [
                {
                    "error_code": 0, "partition_index": partition, "leader_id": 1, "leader_epoch": 1,
                    "replica_nodes": list(range(replicas)), "isr_nodes": list(range(in_sync)), "offline_replicas": [],
                    TAGS: [],
                }
                for partition, (replicas, in_sync) in ISR.items()
            ],
            "topic_authorized_operations": -(2**31), TAGS: [],
        }
        for name, topic_id in zip(names, ids, strict=True)
    ]  # fmt: skip
    values = {
        "throttle_time_ms": 0, "brokers": [], "cluster_id": "c", "controller_id": 1, "topics": topics, TAGS: [],
        "error_code": 0,
    }  # fmt: skip
    header = response_header(response_header_version(3, version)).build({"correlation_id": 0, TAGS: []})
    return bytes(header + metadata_response_layout(version).build(values))


@pytest.mark.parametrize("version", [4, 12])
def test_replicas_are_counted_by_name_and_by_id(version: int) -> None:
    frame = metadata(["t", "gone"], [b"t" * 16, b"g" * 16], version)
    counts = {partition: ReplicaCount(*has) for partition, has in ISR.items()}
    assert replica_counts(frame, version=version) == ({"t": counts} | ({b"t" * 16: counts} if version == 12 else {}))


def reassignments(added: dict[str, dict[int, int]], error_code: int = 0) -> bytes:
    topics = [
        {
            "name": name, TAGS: [],
            "partitions": [
                {
                    "partition_index": number, "replicas": [1, 2], "adding_replicas": list(range(count)),
                    "removing_replicas": [], TAGS: [],
                }
                for number, count in partitions.items()
            ],
        }
        for name, partitions in added.items()
    ]  # fmt: skip
    values = {"throttle_time_ms": 0, "error_code": error_code, "error_message": None, "topics": topics, TAGS: []}
    header = response_header(response_header_version(46, 0)).build({"correlation_id": 0, TAGS: []})
    return bytes(header + layout(REASSIGNMENTS_RESPONSE, 0, flexible=True).build(values))


class Asked:
    """What a broker is asked for; `last` is the last version of Metadata that it knows. `added`: the reassignments that
    it tells of; None: it cannot be asked for them."""

    def __init__(
        self, *, last: int = 12, silent: bool = False, added: dict[str, dict[int, int]] | None = None, refuses: int = 0
    ) -> None:
        self.last, self.silent, self.added, self.refuses = last, silent, added, refuses
        self.asked: list[tuple[float, int, list[str | bytes]]] = []

    async def connect(self, address: Address) -> trio.abc.Stream:
        del address
        if self.silent:
            raise ConnectionRefusedError("nobody listens")
        near, far = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self._serve, far)
        return near

    async def _serve(self, stream: trio.abc.Stream) -> None:
        async with stream:
            assert await stream.receive_some(10**6) == ASKED
            moves = ((46, 0, 0),) if self.added is not None else ()
            await stream.send_all(known((1, 0, 11), (3, 0, self.last), *moves))
            frame = await stream.receive_some(10**6)
            if not frame:
                return
            head = peek_request(bytes(frame), 4, len(frame))
            assert head is not None
            if head.api_key == 46:
                assert self.added is not None
                await stream.send_all(with_length(reassignments(self.added, self.refuses)))
                return
            body = parse_whole(metadata_request_layout(head.api_version), bytes(frame[head.body_at :]))
            names = [topic.name for topic in body.topics]
            ids = [topic.get("topic_id", bytes(16)) for topic in body.topics]
            topics = [topic_id if name is None else name for name, topic_id in zip(names, ids, strict=True)]
            self.asked.append((trio.current_time(), head.api_version, topics))
            await stream.send_all(
                with_length(metadata(["x" if name is None else name for name in names], ids, head.api_version))
            )


def behind(topics: list[str], rate: float = 4.0 * MIB) -> RoleThrottle:
    """A role of which one replica of each topic is behind on a connection."""
    subject = throttle(rate)
    talk = Conversation(subject)
    talk.offsets = {(topic, 0): 0 for topic in topics}
    talk.meet()
    talk.ask()
    return subject


async def running(
    asked: Asked, throttles: list[RoleThrottle], urgency: PartitionUrgency, seconds: float
) -> RecordedLog:
    log = RecordedLog()
    async with trio.open_nursery() as nursery:
        asked.nursery = nursery
        nursery.start_soon(follow, ReplicaCountQuestion(urgency, throttles), [BROKER], log)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    return log


@pytest.fixture
def urgency() -> PartitionUrgency:
    return PartitionUrgency(TopicNames())


@pytest.mark.parametrize("last", [4, 11, 13])
async def test_topics_that_are_behind_are_asked_for_now_and_then(
    urgency: PartitionUrgency, last: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: None
) -> None:
    asked = Asked(last=last)
    monkeypatch.setattr(broker_client, "open_stream", asked.connect)
    log = await running(asked, [behind(["b", "a"])], urgency, 10.5)
    assert {version for _, version, _ in asked.asked} == {last}
    assert 3 <= len(asked.asked) <= 4
    assert all(sorted(map(str, topics)) == ["a", "b"] for _, _, topics in asked.asked)
    assert urgency.urgency_of(("a", 0)) == 2
    assert log.events == []


def test_a_topic_is_told_of_by_its_id_as_well() -> None:
    """Reassignments are listed by name alone."""
    counts = replica_counts(metadata(["t"], [b"t" * 16], 12), version=12)
    found = without_added(counts, {"t": {0: 1}, "u": {1: 1}})
    expected = {0: ReplicaCount(2, 1), 1: ReplicaCount(3, 3)}
    assert found == {"t": expected, b"t" * 16: expected}


@pytest.mark.parametrize(
    ("asked", "is_any"),
    [
        # Both partitions of the topic move, and of 0 a replica is lost besides.
        (Asked(added={"t": {0: 1, 1: 1}}), {0}),
        (Asked(added={"t": {0: 1, 1: 1}, "u": {0: 9}}, last=11), {0}),
        # Nothing moves, or nobody tells: an old broker, and one that is not the controller.
        (Asked(added={}), {0, 1}),
        (Asked(), {0, 1}),
        (Asked(added={"t": {0: 1, 1: 1}}, refuses=41), {0, 1}),
    ],
)
async def test_replicas_that_a_move_adds_are_not_missing(
    urgency: PartitionUrgency, asked: Asked, is_any: set[int], monkeypatch: pytest.MonkeyPatch, autojump_clock: None
) -> None:
    """Partitions of a plain move counted as under-replicated, where all of the topic's partitions moved: moves lost
    their last place."""
    monkeypatch.setattr(broker_client, "open_stream", asked.connect)
    monkeypatch.setitem(ISR, 0, (4, 2))
    monkeypatch.setitem(ISR, 1, (4, 3))
    await running(asked, [behind(["t"])], urgency, 3.5)
    assert {number for number in ISR if urgency.urgency_of(("t", number))} == is_any


@pytest.mark.parametrize(
    ("throttles", "priorities"),
    [
        ([behind(["t"], rate=float("inf"))], Priorities()),  # nothing is limited
        ([throttle()], Priorities()),  # nothing is behind
        ([behind(["t"])], Priorities(())),
        ([behind(["t"])], Priorities(("t",))),  # that needs no broker
    ],
)
async def test_nobody_is_asked_without_need(
    urgency: PartitionUrgency, throttles: list[RoleThrottle], priorities: Priorities, monkeypatch: pytest.MonkeyPatch,
    autojump_clock: None,
) -> None:  # fmt: skip
    asked = Asked()
    monkeypatch.setattr(broker_client, "open_stream", asked.connect)
    urgency.apply(priorities)
    await running(asked, throttles, urgency, 10.0)
    assert asked.asked == []
    assert urgency.is_any is bool(priorities.urgency_of_topic("t"))


async def test_where_nobody_answers_all_are_alike_and_it_is_told_once(
    urgency: PartitionUrgency, monkeypatch: pytest.MonkeyPatch, autojump_clock: None
) -> None:
    asked = Asked(silent=True)
    monkeypatch.setattr(broker_client, "open_stream", asked.connect)
    log = await running(asked, [behind(["t"])], urgency, 3 * RETRY_SECONDS)
    assert log.events == ["cluster_request_failed"]
    assert not urgency.is_any
