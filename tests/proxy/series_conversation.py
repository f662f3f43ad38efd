"""A follower, its own sidecar, the leader's sidecar and a leader, one after the other: no sockets, no clocks but one.

One fetch is in flight at a time, as between brokers, so a whole move is a loop. A hop takes `HOP_SECONDS`, a leader
without data waits for max_wait_ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from lab.embedded.session_handler import FetchSessionHandler
from lab.embedded.session_values import Ask, SessionResponse
from protocol.fetch.request import parse_fetch_request
from protocol.work_in_steps import run_through
from proxy.roles import Role
from proxy.throttle.decision import Answer, Hold
from proxy.throttle.link import Link

from .conversation import LIMIT, throttle
from .session_conversation import LEADER, MESSAGE_BYTES, SessionLeader, parsed_answer, session_frame, through

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.session.requests import PartitionKey

HOP_SECONDS = 0.0005


class Arrival(NamedTuple):
    at: float
    key: PartitionKey
    size: int


@dataclass
class Series:
    """`fetches` are the times at which a request came from one sidecar to the other; `arrivals` the record bytes that
    the follower got."""

    wants: dict[PartitionKey, int]
    leader: SessionLeader
    version: int
    egress_rate: float
    ingress_rate: float
    hop: Callable[[], float] = lambda: HOP_SECONDS
    now: float = 0.0
    fetches: list[float] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.follower = FetchSessionHandler(self.version)
        self.egress = Link(throttle(self.egress_rate, role=Role.FOLLOWER), "101", leader=LEADER)
        self.ingress = Link(throttle(self.ingress_rate), "102", leader=LEADER)

    @property
    def behind(self) -> int:
        """How many partitions have not got everything."""
        return sum(self.leader.ends[key] > offset for key, offset in self.wants.items())

    def fetch(self) -> None:
        """One round trip of the follower's."""
        request = self.follower.build({key: Ask(offset, LIMIT) for key, offset in self.wants.items()})
        response = self._hop(self.egress, session_frame(self.version, request), self._between)
        if not self.follower.handle(response):
            return
        for key, read in response.entries.items():
            if read.records_size:
                self.wants[key] += read.records_size // MESSAGE_BYTES
                self.arrivals.append(Arrival(self.now, key, read.records_size))

    def run(self, *, until: float, beside: Callable[[float], None] | None = None) -> None:
        """Fetch until then; `beside` is told the time before every fetch."""
        while self.now < until:
            if beside is not None:
                beside(self.now)
            self.fetch()

    def _between(self, frame: bytes) -> SessionResponse:
        self.fetches.append(self.now)
        return self._hop(self.ingress, frame, self._ask_leader)

    def _ask_leader(self, frame: bytes) -> SessionResponse:
        response = self.leader.answer(frame, self.now)
        if not response.error_code and not any(read.records_size for read in response.entries.values()):
            self.now += parse_fetch_request(frame).max_wait_ms / 1000
        return response

    def _hop(self, link: Link, frame: bytes, ask: Callable[[bytes], SessionResponse]) -> SessionResponse:
        self.now += self.hop()
        decision = demand = run_through(link.begin(frame, parse_fetch_request(frame), self.now))
        if not isinstance(demand, Answer):
            while isinstance(decision := run_through(link.decide(demand, self.now)), Hold):
                self.now = decision.until
        if isinstance(decision, Answer):
            response = parsed_answer(self.version, decision.frame)
        else:
            response = ask(frame if decision.frame is None else decision.frame)
            if decision.pending is not None:
                response = through(response, decision.pending, self.now)
        self.now += self.hop()
        return response
