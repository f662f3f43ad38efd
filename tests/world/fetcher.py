"""A replica fetcher as Kafka's: one request in flight, sessions, whole batches appended, errors that rest.

It knows the leader's log, so it checks every byte that comes: what is not the leader's next byte is a complaint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.embedded.session_handler import FetchSessionHandler
from lab.embedded.session_values import Ask, Read, SessionResponse
from protocol.errors import ProtocolError

from ..proxy.conversation import LIMIT
from .frames import FramedPeer, Splitter
from .ledger import Passed
from .messages import FetchOptions, fetch_request, parse_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from protocol.fetch.walker import ResponseEntry
    from protocol.session.requests import PartitionKey

    from .broker import Broker
    from .clock import Network
    from .ledger import Ledger
    from .pipes import End

BACKOFF_SECONDS = 1.0
"""replica.fetch.backoff.ms"""
STOP_SECONDS = 3.5
"""How long a fetcher that stops waits for its last answer."""


class Fetcher:
    """`connect` opens a way to the leader; `on_fetched` is for whoever wants to know when it waits how long."""

    def __init__(
        self,
        network: Network,
        ledger: Ledger,
        leader: Broker,
        keys: Iterable[PartitionKey],
        options: FetchOptions,
        *,
        name: str,
        connect: Callable[[Fetcher], End],
        backoff_seconds: float = BACKOFF_SECONDS,
    ) -> None:
        self.network, self.ledger, self.leader, self.options, self.name = network, ledger, leader, options, name
        self.wants = dict.fromkeys(keys, 0)
        """Fetch offsets."""
        self.marks: dict[PartitionKey, int] = {}
        """High watermarks told on this connection."""
        self.in_sync: frozenset[PartitionKey] = frozenset()
        """What was asked for at the high watermark, by the request in flight."""
        self.rests: dict[PartitionKey, float] = {}
        """Partitions that were answered with an error, and until when they are not asked for."""
        self.fetches = self.reconnects = self.refusals = 0
        self.paused_until = self.throttled_seconds = 0.0
        self.session_handler = FetchSessionHandler(options.version)
        self.longest_wait = 0.0
        """Seconds that the longest answer took."""
        self.brought_at: dict[PartitionKey, float] = {}
        self.longest_silence: dict[PartitionKey, float] = {}
        """Seconds for which a partition that was behind was brought nothing."""
        self._asked_at = -1.0
        """When the request in flight was sent; below 0: none is."""
        self._correlation_id = 0
        self._backoff_seconds = backoff_seconds
        self._connect_to = connect
        self.connection: _Conversation | None = None
        self._is_stopped = False

    def start(self) -> None:
        if self._is_stopped:
            return
        self.marks.clear()
        end = self._connect_to(self)
        self.connection = _Conversation(self, end)
        self.ask()

    def stop(self) -> None:
        """End for good, with the answer to the request in flight."""
        self._is_stopped = True
        if self._asked_at < 0:
            self._leave()
        else:
            self.network.at(self.network.now + STOP_SECONDS, self._leave)

    def _leave(self) -> None:
        if self.connection is not None:
            self.connection.leave()
            self.connection = None

    def lost(self) -> None:
        self.connection = None
        self._asked_at = -1.0
        self.reconnects += 1
        self.session_handler.failed()
        self.network.at(self.network.now + self._backoff_seconds, self.start)

    def ask(self) -> None:
        now, connection = self.network.now, self.connection
        if self._is_stopped:
            self._leave()
        if connection is None or self._is_stopped:
            return
        if self.paused_until > now:
            self.network.at(self.paused_until, self._ask_of, connection)
            return
        if self.rests:
            self.rests = {key: until for key, until in self.rests.items() if until > now}
        wanted = {key: Ask(offset, LIMIT, 0, -1, 0) for key, offset in self.wants.items() if key not in self.rests}
        if not wanted:
            self.network.at(min(self.rests.values()), self._ask_of, connection)
            return
        marks = self.marks
        self.in_sync = frozenset(key for key, ask in wanted.items() if ask.fetch_offset >= marks.get(key, 2**62))
        self._correlation_id += 1
        self.fetches += 1
        self._asked_at = now
        for key in wanted:
            self.brought_at.setdefault(key, now)
        request = self.session_handler.build(wanted)
        connection.write(fetch_request(self.options, request, self._correlation_id))

    def _ask_of(self, connection: _Conversation) -> None:
        if connection is self.connection:
            self.ask()

    def answered(self, frame: bytes) -> None:
        now, version = self.network.now, self.options.version
        try:
            answer = parse_answer(version, frame)
        except ProtocolError as error:
            self.ledger.complain(now, f"{self.name} was sent what is no answer: {error}")
            return self._give_up()
        if answer.correlation_id != self._correlation_id:
            self.ledger.complain(now, f"{self.name} asked {self._correlation_id}, was answered {answer.correlation_id}")
            return self._give_up()
        self.longest_wait = max(self.longest_wait, now - self._asked_at)
        self._asked_at = -1.0
        if answer.throttle_time_ms:
            self.throttled_seconds += answer.throttle_time_ms / 1000
            self.paused_until = now + answer.throttle_time_ms / 1000
        self.ledger.noted(now, self.name, len(frame), answer.error_code, answer.session_id)
        entries = {(e.topic, e.partition): e for e in answer.entries}
        response = SessionResponse(
            answer.session_id, {key: Read(e.high_watermark) for key, e in entries.items()}, answer.error_code
        )
        if not self.session_handler.handle(response):
            for complaint in self.session_handler.complaints:
                self.ledger.complain(now, f"{self.name}: {complaint}")
            self.session_handler.complaints.clear()
            self.refusals += 1
            if len(self.session_handler.errors) > 100 and self.session_handler.errors[-1]:
                self.network.at(now + 0.1, self.ask)
                return None
            return self.ask()
        for key, entry in entries.items():
            self._process(key, entry, frame)
        self.ask()
        return None

    def _process(self, key: PartitionKey, entry: ResponseEntry, frame: bytes) -> None:
        now = self.network.now
        if entry.error_code:
            self.rests[key] = now + self._backoff_seconds
            return
        log, offset, size = self.leader.log(key), self.wants[key], max(entry.records_size, 0)
        if not self.marks.get(key, 0) <= entry.high_watermark <= log.end_offset:
            told = f"{self.marks.get(key)} to {entry.high_watermark}, of {log.end_offset}"
            self.ledger.complain(now, f"{self.name} was told a high watermark of {key} that is none: {told}")
        if size:
            if frame[entry.records_at : entry.records_at + size] != log.read(offset, size):
                self.ledger.complain(now, f"{self.name} got bytes of {key} that are not the leader's at {offset}")
            self.wants[key] = log.appended(offset, size)
            in_sync = key in self.in_sync
            passed = Passed(now, self.name, self.options.replica_id, self.leader.broker_id, key, size, in_sync)
            self.ledger.arrive(passed)
            if self.options.version < 7:  # PartitionStates: what had data goes to the end
                self.wants[key] = self.wants.pop(key)
        if size or key in self.in_sync or key not in self.marks:
            self.longest_silence[key] = max(self.longest_silence.get(key, 0.0), now - self.brought_at.get(key, now))
            self.brought_at[key] = now
        self.marks[key] = entry.high_watermark

    def _give_up(self) -> None:
        if self.connection is not None:
            self.connection.leave()
        self.lost()

    def departs(self, frame: bytes, at: float) -> None:
        """Note what leaves the leader's host for this fetcher, which has one request in flight."""
        try:
            answer = parse_answer(self.options.version, frame)
        except ProtocolError:
            return  # the reader complains
        for e in answer.entries:
            if e.records_size > 0:
                key = e.topic, e.partition
                passed = Passed(
                    at,
                    self.name,
                    self.options.replica_id,
                    self.leader.broker_id,
                    key,
                    e.records_size,
                    key in self.in_sync,
                )
                self.ledger.depart(passed)


class _Conversation(FramedPeer):
    """The fetcher's end of one connection."""

    def __init__(self, fetcher: Fetcher, end: End) -> None:
        super().__init__(fetcher.network, end)
        self._fetcher = fetcher

    def came(self, frame: bytes) -> None:
        self._fetcher.answered(frame)

    def lost(self) -> None:
        self.end.close()
        if self._fetcher.connection is self:
            self._fetcher.lost()


class Departures:
    """Tells a fetcher's frames apart where they leave the leader's host."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._frames = Splitter()

    def __call__(self, chunk: bytes) -> None:
        for frame in self._frames.split(chunk):
            self._fetcher.departs(frame, self._fetcher.network.now)
