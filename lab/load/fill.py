"""Fills topics fast: pre-encoded batches over a plain socket per leader, several requests in flight.

Goes to brokers directly, past sidecars and taps. Blocking: use it from a thread under Trio.
Invariant: when `fill` returns, every record has been acknowledged by its leader (acks=1).
"""

from __future__ import annotations

import random
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..errors import LabError
from ..host.addresses import KAFKA_PORT
from ..wire.produce import parse_produce_response, produce_request
from ..wire.records import SMALL, RecordMaker, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..wire.produce import Produced

_IN_FLIGHT = 4
_TIMEOUT_SECONDS = 30.0
KNOWN_SECONDS = 10.0
"""How long a leader may not know a topic that has just been created. In a first request the controller tells it that it
leads: from then on it lists offsets. In another request it hears that the topic exists: before that it takes no
records."""
_AGAIN_SECONDS = 0.1
_UNKNOWN_TOPIC_OR_PARTITION = 3
_REQUEST_BYTES = 1 << 20
"""The size of a request. A larger one only costs memory; with smaller ones there is a round trip for every few
kilobytes."""


@dataclass(frozen=True, slots=True)
class Filled:
    """The result of a fill."""

    batches: int
    records: int
    wire_bytes: int
    """Bytes of the encoded batches, which is what the brokers store."""
    seconds: float

    @property
    def bytes_per_second(self) -> float:
        return self.wire_bytes / self.seconds


def fill(
    topic: str,
    leaders: Mapping[int, str],
    *,
    bytes_per_partition: int,
    shape: Shape = SMALL,
    mixed_with: Sequence[Shape] = (),
    port: int = KAFKA_PORT,
) -> Filled:
    """Write at least so many bytes to each partition.

    Args:
        topic: its name.
        leaders: partition -> address of its leader.
        bytes_per_partition: reached by the last batch; at most one batch more.
        shape: of the batches.
        mixed_with: other shapes; which one of all a request's batches are of is drawn at random.
        port: where leaders take clients.

    Raises:
        LabError: a leader refused a batch or went away.
    """
    by_leader: dict[str, list[int]] = {}
    for partition, leader in leaders.items():
        by_leader.setdefault(leader, []).append(partition)
    started = time.monotonic()
    shapes = (shape, *mixed_with)
    with ThreadPoolExecutor(max_workers=len(by_leader)) as threads:
        jobs = [
            threads.submit(_fill_leader, (leader, port), topic, partitions, bytes_per_partition, shapes)
            for leader, partitions in by_leader.items()
        ]
        done = [job.result() for job in jobs]
    return Filled(
        batches=sum(batches for batches, _, _ in done),
        records=sum(records for _, records, _ in done),
        wire_bytes=sum(size for _, _, size in done),
        seconds=time.monotonic() - started,
    )


def _fill_leader(
    leader: tuple[str, int], topic: str, partitions: list[int], bytes_per_partition: int, shapes: Sequence[Shape]
) -> tuple[int, int, int]:
    """Fill one leader's partitions; return (batches, records, bytes) written."""
    count = records = size = 0
    written = dict.fromkeys(partitions, 0)
    makers = [RecordMaker(shape, seed=partitions[0]) for shape in shapes]
    draw = random.Random(partitions[0])
    with FillConnection(*leader) as connection:
        while written:
            maker = draw.choice(makers)
            batches = _next_request(maker, written, bytes_per_partition)
            connection.produce(topic, {p: b"".join(made) for p, made in batches.items()}, shape=maker.shape)
            made_now = sum(map(len, batches.values()))
            count, records = count + made_now, records + made_now * maker.shape.batch_records
            for partition, made in batches.items():
                added = sum(map(len, made))
                size += added
                written[partition] += added
                if written[partition] >= bytes_per_partition:
                    del written[partition]
        connection.wait_answers(0)
    return count, records, size


def _next_request(maker: RecordMaker, written: Mapping[int, int], bytes_per_partition: int) -> dict[int, list[bytes]]:
    """Make a request of about `_REQUEST_BYTES` for the partitions that want more. A Produce request takes only one v2
    batch per partition."""
    batches: dict[int, list[bytes]] = {partition: [maker.batch()] for partition in written}
    if maker.shape.message_format == "v1" and not maker.shape.compressed:
        first = next(iter(batches.values()))[0]
        at_most = _REQUEST_BYTES // (len(first) * len(batches)) - 1
        for partition, made in batches.items():
            missing = -(-(bytes_per_partition - written[partition]) // len(first)) - 1
            made.extend(maker.batch() for _ in range(min(at_most, missing)))
    return batches


class _Request(NamedTuple):
    """A request in flight."""

    topic: str
    batches: Mapping[int, bytes]
    shape: Shape


class FillConnection:
    """One connection that keeps a few requests in flight. Args: leader: address of a broker; port: of it."""

    def __init__(self, leader: str, port: int = KAFKA_PORT) -> None:
        self._leader, self._port = leader, port
        self._sent = 0
        self._in_flight: dict[int, _Request] = {}
        """The requests in flight by correlation id; a broker answers in order."""
        self._known_by = time.monotonic() + KNOWN_SECONDS

    def __enter__(self) -> FillConnection:
        try:
            self._socket = socket.create_connection((self._leader, self._port), timeout=_TIMEOUT_SECONDS)
        except OSError as error:
            raise LabError(f"cannot reach the leader at {self._leader}: {error}") from error
        self._answers = self._socket.makefile("rb")
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()

    def produce(self, topic: str, batches: Mapping[int, bytes], *, shape: Shape) -> None:
        """Send one request; waits for an earlier answer when enough are in flight. Raises LabError."""
        self._send(_Request(topic, batches, shape))
        self.wait_answers(_IN_FLIGHT)

    def wait_answers(self, allowed_in_flight: int) -> None:
        """Read answers until no more than so many requests are open. Raises LabError."""
        while len(self._in_flight) > allowed_in_flight:
            try:
                prefix = self._answers.read(4)
                frame = self._answers.read(struct.unpack(">i", prefix)[0]) if len(prefix) == 4 else b""
            except OSError as error:
                raise LabError(f"no answer from the leader at {self._leader}: {error}") from error
            if not frame:
                raise LabError(f"the leader at {self._leader} closed the connection")
            correlation_id, answers = parse_produce_response(frame)
            request = self._in_flight.pop(correlation_id)
            refused = [answer for answer in answers if answer.error_code]
            if refused:
                self._again(request, refused)

    def _send(self, request: _Request) -> None:
        self._sent += 1
        self._in_flight[self._sent] = request
        topic, batches, shape = request
        frame = produce_request(topic, batches, correlation_id=self._sent, acks=1, message_format=shape.message_format)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise LabError(f"the leader at {self._leader} went away: {error}") from error

    def _again(self, request: _Request, refused: Sequence[Produced]) -> None:
        """Send again the batches that a leader refused because it does not know the topic yet. Raises LabError for any
        other refusal."""
        others = [answer for answer in refused if answer.error_code != _UNKNOWN_TOPIC_OR_PARTITION]
        if others or time.monotonic() > self._known_by:
            raise LabError(f"the leader at {self._leader} refused a batch: {(others or refused)[0]}")
        time.sleep(_AGAIN_SECONDS)
        self._send(
            request._replace(batches={answer.partition: request.batches[answer.partition] for answer in refused})
        )
