"""A broker of the world: Kafka's read path, purgatory, fetch sessions, and the faults that it is told to have.

One request of a connection at a time, as in Kafka. The high watermark is the log's end.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING

from lab.embedded.session_cache import FetchSessionCache
from lab.embedded.session_values import Ask, Read
from protocol.fetch.request import FetchRequest, parse_fetch_request
from protocol.session.requests import SessionRequest
from protocol.wire.apis import API_FETCH, API_PRODUCE
from protocol.wire.headers import peek_request

from .frames import FramedPeer
from .logs import Log
from .messages import fetch_response, parse_produce, produce_response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.embedded.session_cache import Context
    from protocol.session.requests import PartitionKey

    from .clock import Network
    from .ledger import Ledger
    from .messages import Produced
    from .pipes import End

TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER = 29, 3, 6


class Broker:
    """`refuses`: replica ids without ClusterAction. `errors`: until when a partition is answered with which error.
    `withholds`: the partitions of which it sends no records, as while its own throttle is over quota."""

    def __init__(self, network: Network, broker_id: int, ledger: Ledger, sizes: Sequence[int]) -> None:
        self.network, self.broker_id, self.ledger = network, broker_id, ledger
        self.logs: dict[PartitionKey, Log] = {}
        self.sizes = sizes
        self.cache = FetchSessionCache(itertools.count(500).__next__)
        self.refuses: set[int] = set()
        self.errors: dict[PartitionKey, tuple[float, int]] = {}
        self.withholds: set[PartitionKey] = set()
        self.paused_until = 0.0
        self.service_seconds = 0.0
        self.connections: set[Served] = set()
        self._waiting: dict[PartitionKey, dict[Served, None]] = {}

    def log(self, key: PartitionKey, *, sizes: Sequence[int] | None = None) -> Log:
        if key not in self.logs:
            self.logs[key] = Log(key, sizes or self.sizes)
        return self.logs[key]

    def accept(self, end: End) -> Served:
        served = Served(self, end)
        self.connections.add(served)
        return served

    def append(self, key: PartitionKey, batches: int = 1) -> None:
        self.log(key).end += batches
        for served in tuple(self._waiting.get(key, ())):
            served.try_again()

    def waits(self, served: Served, keys: Sequence[PartitionKey]) -> None:
        for key in keys:
            self._waiting.setdefault(key, {})[served] = None

    def waits_no_more(self, served: Served, keys: Sequence[PartitionKey]) -> None:
        for key in keys:
            self._waiting.get(key, {}).pop(served, None)

    def error_of(self, key: PartitionKey, replica_id: int) -> int:
        if replica_id in self.refuses:
            return TOPIC_AUTHORIZATION_FAILED
        if key not in self.logs:
            return UNKNOWN_TOPIC_OR_PARTITION
        until, code = self.errors.get(key, (0.0, 0))
        return code if self.network.now < until else 0


class Served(FramedPeer):
    """One connection that the broker serves."""

    def __init__(self, broker: Broker, end: End) -> None:
        super().__init__(broker.network, end)
        self._broker = broker
        self._queue: deque[bytes] = deque()
        self._answers: Callable[[bool], None] | None = None
        """Called with whether the time is over, while a fetch waits for data."""

    def came(self, frame: bytes) -> None:
        self._queue.append(frame)
        if len(self._queue) == 1:
            self._begin()

    def lost(self) -> None:
        self._queue.clear()
        self._answers = None
        self._broker.connections.discard(self)
        self.end.close()

    def try_again(self) -> None:
        if self._answers is not None:
            self._answers(False)

    def _begin(self) -> None:
        broker = self._broker
        begins = max(self.network.now + broker.service_seconds, broker.paused_until)
        if begins > self.network.now:
            self.network.at(begins, self._serve)
        else:
            self._serve()

    def _serve(self) -> None:
        if not self._queue:
            return
        frame = self._queue[0]
        head = peek_request(frame, 0, len(frame))
        assert head is not None
        if head.api_key == API_FETCH:
            self._fetch(parse_fetch_request(frame))
        elif head.api_key == API_PRODUCE:
            self._produce(parse_produce(frame, head.client_id or ""))
        else:
            self._broker.ledger.complain(self.network.now, f"a broker was asked for API {head.api_key}")
            self.lost()

    def _done(self, answer: bytes) -> None:
        self._queue.popleft()
        if answer:
            self.write(answer)
        if self._queue:
            self.network.soon(self._begin)

    def _fetch(self, request: FetchRequest) -> None:
        listed = {
            (e.topic, e.partition): Ask(e.fetch_offset, e.partition_max_bytes, e.current_leader_epoch)
            for e in request.entries
        }
        of_session = SessionRequest(
            request.head.api_version, listed, request.session_id, request.session_epoch, tuple(request.forgotten)
        )
        broker = self._broker
        context = broker.cache.context(of_session, self.network.now, is_follower=request.replica_id >= 0)
        keys = tuple(context.partitions)

        def answer(is_over: bool) -> None:
            reads, ready = self._entries(context, request)
            if not (ready >= request.min_bytes or is_over or not keys):
                return
            self._answers = None
            broker.waits_no_more(self, keys)
            for key, read in reads.items():
                if read.records_size:
                    payload = broker.logs[key].read(context.partitions[key].fetch_offset, read.records_size)
                    reads[key] = read._replace(payload=payload)
            response = context.respond(reads)
            self._done(fetch_response(request.head.api_version, request.head.correlation_id, response))

        self._answers = answer
        answer(False)
        if self._answers is not None:
            broker.waits(self, keys)
            self.network.at(self.network.now + request.max_wait_ms / 1000, self._time_is_over, answer)

    def _time_is_over(self, answer: Callable[[bool], None]) -> None:
        if self._answers is answer:
            answer(True)

    def _entries(self, context: Context, request: FetchRequest) -> tuple[dict[PartitionKey, Read], float]:
        """Return the entries without their bytes, and how many bytes there are; an error counts as enough."""
        reads: dict[PartitionKey, Read] = {}
        left, at_least_one, ready = request.max_bytes, request.head.api_version >= 3, 0.0
        for key, ask in context.partitions.items():
            error = self._broker.error_of(key, request.replica_id)
            if error:
                reads[key] = Read(-1, -1, error_code=error)
                ready = float("inf")
                continue
            log = self._broker.logs[key]
            size = log.readable(ask.fetch_offset, min(ask.partition_max_bytes, left), at_least_one=at_least_one)
            if key in self._broker.withholds:
                size = 0
            if size:
                at_least_one, left = False, max(left - size, 0)
                ready += size
            reads[key] = Read(log.end_offset, records_size=size)
        return reads, ready

    def _produce(self, produced: Produced) -> None:
        key = produced.topic, produced.partition
        log = self._broker.log(key)
        first, size = log.end_offset, len(produced.records)
        if produced.records != log.read(first, size):
            self._broker.ledger.complain(self.network.now, f"a producer's bytes for {key} changed on their way")
        self._broker.append(key, log.appended(first, size) // log.records - log.end)
        self._done(produce_response(produced, first) if produced.acks else b"")
