"""A producer that feels what users feel: one record every few milliseconds, acks=all, latencies kept.

Latency counts from the moment a record was due, not from when it could be sent, so a stall is not hidden
(coordinated omission). A record that is not answered yet counts with the time that it has waited, so a stall that
lasts to the end is not hidden either. Talks to the leader directly, through Trio.
Invariant: `acknowledged` holds only what the leader confirmed, in order.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import trio

from ..errors import LabError
from ..host.addresses import KAFKA_PORT
from ..wire.produce import parse_produce_response, produce_request
from ..wire.records import RecordMaker, Shape

if TYPE_CHECKING:
    from collections.abc import Callable

LIVE = Shape(record_bytes=500, batch_records=1)
_CHUNK_BYTES = 65536


class Acknowledged(NamedTuple):
    due_at: float
    """The time at which the record was due, on Trio's clock."""
    latency_seconds: float
    offset: int
    number: int = 0
    """The number of the record among all this producer sent; its value begins with it."""


@dataclass(slots=True)
class LiveProducer:
    """Produces to one partition until `run` is cancelled.

    Args:
        leader: address of the partition's leader.
        topic: its name.
        partition: number.
        interval_seconds: between batches.
        shape: of a batch; one record is what its `batch_records` should say where records are counted.
        load: how many times as many there are, at that many seconds since the first.
    """

    leader: str
    topic: str
    partition: int
    interval_seconds: float = 0.02
    shape: Shape = LIVE
    load: Callable[[float], float] = lambda _: 1.0
    acknowledged: list[Acknowledged] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    """The error codes of records that were refused."""
    pending: deque[tuple[int, float]] = field(default_factory=deque, init=False)
    """The pairs (number, time it was due) of each record that was sent and is neither acknowledged nor refused, in
    order."""
    _ended_at: float | None = field(default=None, init=False)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled. Raises LabError if the leader cannot be reached or goes away."""
        lost: BaseExceptionGroup[OSError | trio.BrokenResourceError] | None = None
        try:
            stream = await trio.open_tcp_stream(self.leader, KAFKA_PORT)
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(self._send, stream)
                nursery.start_soon(self._receive, stream)
                task_status.started()
        except* (OSError, trio.BrokenResourceError) as errors:
            lost = errors
        finally:
            self._ended_at = trio.current_time()
        if lost is not None:
            raise LabError(f"the leader at {self.leader} is gone: {lost.exceptions[0]}") from lost

    def percentile(self, share: float) -> float:
        """Return the latency in seconds that this share (0 to 1) of the records did not exceed. Those that are pending
        count with the time from when they were due to now, or to when `run` ended: they took at least that long.

        Raises:
            LabError: nothing was acknowledged.
        """
        if not self.acknowledged:
            raise LabError(f"{self.topic}-{self.partition}: no record was acknowledged")
        ordered = sorted([*(record.latency_seconds for record in self.acknowledged), *self._waited()])
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]

    def _waited(self) -> list[float]:
        if not self.pending:
            return []
        until = trio.current_time() if self._ended_at is None else self._ended_at
        return [until - due_at for _, due_at in self.pending]

    async def _send(self, stream: trio.SocketStream) -> None:
        maker = RecordMaker(self.shape)
        start = due_at = trio.current_time()
        number = 0
        while True:
            await trio.sleep_until(due_at)
            self.pending.append((number, due_at))
            number += 1
            await stream.send_all(
                produce_request(
                    self.topic,
                    {self.partition: maker.batch()},
                    correlation_id=number,
                    acks=-1,
                    message_format=self.shape.message_format,
                )
            )
            due_at += self.interval_seconds / self.load(due_at - start)

    async def _receive(self, stream: trio.SocketStream) -> None:
        held = bytearray()
        while chunk := await stream.receive_some(_CHUNK_BYTES):
            held += chunk
            while len(held) >= 4 and len(held) >= (size := 4 + struct.unpack_from(">i", held)[0]):
                self._record(bytes(held[4:size]), *self.pending.popleft())
                del held[:size]
        raise BrokenPipeError("connection closed")

    def _record(self, frame: bytes, number: int, due_at: float) -> None:
        for answer in parse_produce_response(frame)[1]:
            if answer.error_code:
                self.errors.append(answer.error_code)
            else:
                latency = trio.current_time() - due_at
                self.acknowledged.append(Acknowledged(due_at, latency, answer.base_offset, number))
