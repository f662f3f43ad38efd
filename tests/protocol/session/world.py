"""A follower, any number of sidecars in a row, a leader: Kafka's session rules at both ends, translators between.

One record is one byte. Faults are named before a fetch and happen in it. `violations` is what must never be: it is
written down where it is seen, and asserted on by the tests.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass, field

from lab.embedded.session_cache import FetchSessionCache
from lab.embedded.session_handler import FetchSessionHandler
from lab.embedded.session_values import Ask, Read, SessionResponse
from protocol.session.registry import FetchSessions
from protocol.session.requests import Choice, LocalAnswer, PartitionKey, SessionRequest, Upstream
from protocol.session.translator import SessionTranslator, Translation
from protocol.work_in_steps import run_through
from tests.protocol.session.conversations import changes_to

OWN_BYTES = 1000
RESPONSE_BYTES = 200
NOT_LEADER_OR_FOLLOWER = 6
FENCED_LEADER_EPOCH = 74


class Fault(enum.Enum):
    """What may go wrong with a request at a sidecar."""

    REQUEST_LOST = "the connection ends before it went on"
    RESPONSE_LOST = "the connection ends when the leader has answered"
    RESPONSE_UNDECODED = "its response is not understood, and passes"
    SENT_TWICE = "it comes a second time after it was answered"
    SENT_AGAIN = "the answer is lost, and it comes a second time on another connection"


@dataclass
class Log:
    end: int = 0
    high_watermark: int = 0
    epoch: int = 5
    error_code: int = 0


class Leader:
    """Reads up to RESPONSE_BYTES, but at least one record if there is any (KIP-74)."""

    def __init__(self, *, slots: int) -> None:
        self.logs: dict[PartitionKey, Log] = {}
        self.slots = slots
        self._ids = itertools.count(1)
        self.restart()

    def restart(self) -> None:
        self.cache = FetchSessionCache(self._ids.__next__, slots=self.slots)

    def serve(self, request: SessionRequest[Ask], now: float) -> SessionResponse:
        context = self.cache.context(request, now)
        left, reads = RESPONSE_BYTES, {}
        for key, ask in context.partitions.items():
            reads[key] = read = self._read(self.logs[key], ask, left)
            left -= min(read.records_size, left)
        return context.respond(reads)

    def _read(self, log: Log, ask: Ask, left: int) -> Read:
        error = log.error_code or (FENCED_LEADER_EPOCH if ask.current_leader_epoch != log.epoch else 0)
        if error:
            return Read(-1, -1, error_code=error)
        least = 1 if left == RESPONSE_BYTES else 0
        size = min(log.end - ask.fetch_offset, max(min(ask.partition_max_bytes, left), least))
        return Read(log.high_watermark, records_size=size, payload=ask.fetch_offset)


class Follower:
    """Appends what comes; records that do not begin at its log's end mark the partition as failed, for ever."""

    def __init__(self, version: int) -> None:
        self.handler = FetchSessionHandler(version)
        self.wanted: dict[PartitionKey, Log] = {}
        self.failed: list[PartitionKey] = []
        self.fenced: list[PartitionKey] = []

    def request(self) -> SessionRequest[Ask]:
        return self.handler.build(
            {key: Ask(log.end, OWN_BYTES, current_leader_epoch=log.epoch) for key, log in self.wanted.items()}
        )

    def take(self, response: SessionResponse | None) -> None:
        if response is None:
            self.handler.failed()
        elif self.handler.handle(response):
            for key, read in response.entries.items():
                self._append(key, read)

    def _append(self, key: PartitionKey, read: Read) -> None:
        log = self.wanted[key]
        if read.error_code == FENCED_LEADER_EPOCH:
            self.fenced.append(key)
        if read.error_code:
            return
        if read.records_size and read.payload != log.end:
            self.failed.append(key)
            return
        log.end += read.records_size
        log.high_watermark = min(read.high_watermark, log.end)


@dataclass
class Sidecar:
    """Omits `choice` of what it may: in a full request only what it can replay, as `Link` does."""

    sessions: FetchSessions[Ask]
    choice: Choice = field(default_factory=Choice)
    is_idle: bool = False
    is_blind: bool = False
    """It understands no request but for the session that it names."""
    forwarded: dict[PartitionKey, tuple[int, int]] = field(default_factory=dict)
    """Leader epoch and high watermark."""

    def __post_init__(self) -> None:
        self.translator = SessionTranslator(self.sessions, "leader")

    def reconnect(self) -> None:
        self.translator.close()
        self.translator = SessionTranslator(self.sessions, "leader")
        self.forwarded = {}

    def restart(self) -> None:
        self.sessions = FetchSessions(most_sessions=2)
        self.reconnect()

    def chosen(self, request: SessionRequest[Ask]) -> Choice:
        if self.is_idle:
            return Choice()
        if not request.is_full:
            return self.choice
        epochs = {key: ask.current_leader_epoch for key, ask in request.listed.items()}
        known = {key for key, (epoch, _) in self.forwarded.items() if epochs.get(key) == epoch}
        return Choice(self.choice.omitted & known, self.choice.grants, self.choice.probes)

    def replays(self, request: SessionRequest[Ask], choice: Choice) -> dict[PartitionKey, Read]:
        if not request.is_full:
            return {}
        return {key: Read(self.forwarded[key][1]) for key in choice.omitted if key in request.listed}

    def saw(self, translation: Translation[Ask], entries: dict[PartitionKey, Read]) -> None:
        for key, read in entries.items():
            self.forwarded.pop(key, None)
            if not read.error_code and key in translation.partitions:
                self.forwarded[key] = (translation.partitions[key].current_leader_epoch, read.high_watermark)


class World:
    """`fetch` is one round trip through all sidecars, the follower's first."""

    def __init__(self, *, version: int = 11, sidecars: int = 1, slots: int = 10) -> None:
        self.leader = Leader(slots=slots)
        self.follower = Follower(version)
        self.sidecars = [Sidecar(FetchSessions(most_sessions=2)) for _ in range(sidecars)]
        self.now = 0.0
        self.violations: list[str] = []
        self._fault: tuple[int, Fault] | None = None

    def add(self, key: PartitionKey, *, records: int = 0) -> None:
        log = self.leader.logs.setdefault(key, Log(end=records, high_watermark=records))
        self.follower.wanted.setdefault(key, Log(epoch=log.epoch))

    def fetch(self, fault: tuple[int, Fault] | None = None) -> SessionResponse | None:
        self._fault = fault
        request = self.follower.request()
        emptied = self.leader.cache.emptied
        response = self._through(0, request)
        if self.leader.cache.emptied > emptied and self.follower.wanted:
            self.violations.append(f"{request} emptied the leader's session")
        if response is None:
            for sidecar in self.sidecars:
                sidecar.reconnect()
        self.follower.take(response)
        return response

    def _through(self, place: int, request: SessionRequest[Ask]) -> SessionResponse | None:
        if place == len(self.sidecars):
            return self.leader.serve(request, self.now)
        sidecar, fault = self.sidecars[place], self._fault_at(place)
        if sidecar.is_blind:
            named = (request.session_id, request.session_epoch)
            return None if sidecar.translator.undecoded(named) else self._through(place + 1, request)
        if sidecar.is_idle and sidecar.translator.may_relay(request.session_id, request.session_epoch):
            return self._through(place + 1, request)
        if fault is Fault.SENT_TWICE:
            self._translate(place, request, None)
        elif fault is Fault.SENT_AGAIN:
            self._translate(place, request, Fault.RESPONSE_LOST)
            for lost_connection in self.sidecars:
                lost_connection.reconnect()
        return self._translate(place, request, fault)

    def _fault_at(self, place: int) -> Fault | None:
        if self._fault is None or self._fault[0] != place:
            return None
        return self._fault[1]

    def _translate(self, place: int, request: SessionRequest[Ask], fault: Fault | None) -> SessionResponse | None:
        sidecar = self.sidecars[place]
        taken = run_through(sidecar.translator.translate(request, self.now))
        if isinstance(taken, LocalAnswer):
            return SessionResponse(taken.session_id, error_code=taken.error_code)
        choice = sidecar.chosen(request)
        decided = run_through(taken.decide(changes_to(taken.absent, choice)))
        replays = sidecar.replays(request, choice)
        if isinstance(decided, LocalAnswer):
            return SessionResponse(decided.session_id, replays, decided.error_code)
        response = None
        if fault is not Fault.REQUEST_LOST:
            response = self._through(place + 1, to_request(request.version, decided))
        if response is None or fault is Fault.RESPONSE_LOST:
            taken.lost()
            return None
        if fault is Fault.RESPONSE_UNDECODED and not request.is_full:
            taken.lost()
            return response
        taken.answered(response.error_code, response.session_id)
        unexpected = [key for key in response.entries if not taken.expects(key)]
        if unexpected:
            self.violations.append(f"{unexpected} came though not asked for")
        sidecar.saw(taken, response.entries)
        return SessionResponse(response.session_id, {**response.entries, **replays}, response.error_code)


def to_request(version: int, upstream: Upstream[Ask]) -> SessionRequest[Ask]:
    listed = {key: ask._replace(partition_max_bytes=limit) for key, ask, limit in upstream.listed}
    return SessionRequest(version, listed, upstream.session_id, upstream.session_epoch, upstream.forgotten)
