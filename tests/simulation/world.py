"""Many brokers with their sidecars on one virtual clock: the real code decides, what is in between is arithmetic.

A connection is a generator that says when it goes on; whoever is due first goes first. One fetch of a connection is in
flight at a time, as between brokers. A hop takes as long as the connection's `hop` says, a byte as long as at the
network's rate, and a broker without data answers when its wait is over or a producer writes.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from lab.embedded.session_handler import FetchSessionHandler
from lab.embedded.session_values import Ask, SessionResponse
from protocol.fetch.request import parse_fetch_request
from proxy.quotas.finer_rates import NO_FINER_RATES
from proxy.quotas.rules import Quotas
from proxy.roles import Role
from proxy.throttle.decision import Answer, Hold
from proxy.throttle.link import Link
from proxy.throttle.work_in_steps import run_through

from ..proxy.conversation import LIMIT, throttle
from ..proxy.session_conversation import SessionLeader, parsed_answer, session_frame, through

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from protocol.session.requests import PartitionKey
    from proxy.quotas.finer_rates import FinerRates
    from proxy.throttle.role_throttle import RoleThrottle

    Steps = Generator[float, None, SessionResponse]

HOP_SECONDS = 0.0005
NETWORK_BYTES_PER_SECOND = 100e6
FOREVER = 10**6
"""Messages that nobody catches up on within a test: 1 GB of each partition."""


class Arrival(NamedTuple):
    """So many record bytes reached the follower. `in_sync`: it asked for them from the high watermark it knew, or from
    beyond; what leaves a leader's host is not told apart."""

    at: float
    key: PartitionKey
    size: int
    in_sync: bool = False


@dataclass
class Broker:
    """`egress` and `ingress` are its sidecar's throttles; None: it has no sidecar on that side."""

    egress: RoleThrottle | None
    ingress: RoleThrottle | None
    leads: SessionLeader = field(default_factory=SessionLeader)


@dataclass
class Connection:
    """A follower's to a leader. `hop`: seconds of one way between the brokers' hosts, drawn anew each time.

    `live`: partitions in sync, to which producers write a message every `live_seconds`.
    """

    follower: int
    leader: int
    wants: dict[PartitionKey, int]
    hop: Callable[[], float]
    live: frozenset[PartitionKey] = frozenset()
    live_seconds: float = math.inf
    arrivals: list[Arrival] = field(default_factory=list)
    departures: list[Arrival] = field(default_factory=list)
    """The same where they leave the leader's host, which is where a leader's quota is to hold."""
    errors: int = 0
    fetches: int = 0

    def bytes_between(self, begin: float, end: float) -> int:
        """Record bytes of those that were behind, which the quota shares out. A partition that producers write to is
        one of them until it is in sync: where its part of the quota is less than is written, it never is."""
        return sum(each.size for each in self.arrivals if begin <= each.at < end and not each.in_sync)

    def in_sync_bytes_between(self, begin: float, end: float) -> int:
        """Record bytes that were charged and never withheld."""
        return sum(each.size for each in self.arrivals if begin <= each.at < end and each.in_sync)


class World:
    """`leader_rate` and `follower_rate`: quotas of every broker, bytes per second; None: no sidecar on that side.
    `finer`: rates of racks, peers and topics, of every sidecar; `racks`: the rack of each broker."""

    def __init__(
        self,
        brokers: Iterable[int],
        *,
        leader_rate: float | None,
        follower_rate: float | None,
        version: int = 12,
        finer: FinerRates = NO_FINER_RATES,
        racks: Mapping[int, str] | None = None,
        leads: Callable[[], SessionLeader] = SessionLeader,
    ) -> None:
        self.now = 0.0
        self.version = version
        self.brokers = {
            each: Broker(
                None if follower_rate is None else throttle(follower_rate, role=Role.FOLLOWER),
                None if leader_rate is None else throttle(leader_rate),
                leads(),
            )
            for each in brokers
        }
        for each in self.brokers.values():
            for side in (each.egress, each.ingress):
                if side is not None and finer:
                    quota = replace(side.quota, finer=finer)
                    side.apply(Quotas(leader=quota, follower=quota), 0.0)
                    side.racks.learn(racks or {})
                    side.racks_changed()
        self.connections: list[Connection] = []
        self._due: list[tuple[float, int, Generator[float, None, None]]] = []
        self._order = itertools.count()

    def connect(
        self,
        follower: int,
        leader: int,
        behind: Iterable[PartitionKey],
        *,
        messages: int = FOREVER,
        hop: Callable[[], float] | float = HOP_SECONDS,
        live: Iterable[PartitionKey] = (),
        live_seconds: float = math.inf,
        begins: float = 0.0,
    ) -> Connection:
        """A follower that lacks so many messages of each partition in `behind`, and none of those in `live`."""
        wants = {**dict.fromkeys(behind, 0), **dict.fromkeys(live, 0)}
        alive = frozenset(live)
        self.brokers[leader].leads.ends.update({key: 0 if key in alive else messages for key in wants})
        takes = hop if callable(hop) else itertools.repeat(hop).__next__
        made = Connection(follower, leader, wants, takes, alive, live_seconds)
        self.connections.append(made)
        self._is_due(begins, self._fetches(made))
        return made

    def run(self, until: float) -> None:
        while self._due and self._due[0][0] < until:
            self.now, _, steps = heapq.heappop(self._due)
            due = next(steps, None)
            if due is not None:
                self._is_due(due, steps)

    def _is_due(self, at: float, steps: Generator[float, None, None]) -> None:
        heapq.heappush(self._due, (at, next(self._order), steps))

    def _fetches(self, made: Connection) -> Generator[float, None, None]:
        handler = FetchSessionHandler(self.version)
        leader, follower = self.brokers[made.leader], self.brokers[made.follower]
        ends = leader.leads.ends
        egress = None if follower.egress is None else Link(follower.egress, str(made.leader), leader=made.leader)
        ingress = None if leader.ingress is None else Link(leader.ingress, str(made.follower), leader=made.leader)

        def at_leader(frame: bytes) -> Steps:
            self._produce(made)
            response = leader.leads.answer(frame, self.now)
            size = sum(read.records_size for read in response.entries.values())
            if not response.error_code and not size:
                produced = math.inf if not made.live else (self.now // made.live_seconds + 1) * made.live_seconds
                yield min(self.now + parse_fetch_request(frame).max_wait_ms / 1000, produced)
            yield self.now + size / NETWORK_BYTES_PER_SECOND
            return response

        def between(frame: bytes) -> Steps:
            yield self.now + made.hop()
            response = yield from self._through(ingress, frame, at_leader)
            made.departures += self._records(response)
            yield self.now + made.hop()
            return response

        marks: dict[PartitionKey, int] = {}
        while made.live or any(ends[key] > offset for key, offset in made.wants.items()):
            made.fetches += 1
            request = handler.build({key: Ask(offset, LIMIT) for key, offset in made.wants.items()})
            response = yield from self._through(egress, session_frame(self.version, request), between)
            if not handler.handle(response):
                made.errors += 1
                continue
            for each in self._records(response):
                made.arrivals.append(each._replace(in_sync=made.wants[each.key] >= marks.get(each.key, math.inf)))
                made.wants[each.key] += leader.leads.messages(each.key, made.wants[each.key], each.size)
            marks.update({key: read.high_watermark for key, read in response.entries.items()})
        for link in (egress, ingress):
            if link is not None:
                link.close()

    def _records(self, response: SessionResponse) -> list[Arrival]:
        read = response.entries.items()
        return [Arrival(self.now, key, each.records_size) for key, each in read if each.records_size]

    def _produce(self, made: Connection) -> None:
        ends = self.brokers[made.leader].leads.ends
        ends.update(dict.fromkeys(made.live, int(self.now // made.live_seconds)))

    def _through(self, link: Link | None, frame: bytes, ask: Callable[[bytes], Steps]) -> Steps:
        if link is None:
            return (yield from ask(frame))
        decision = demand = run_through(link.begin(frame, parse_fetch_request(frame), self.now))
        if not isinstance(demand, Answer):
            while isinstance(decision := run_through(link.decide(demand, self.now)), Hold):
                yield decision.until
        if isinstance(decision, Answer):
            return parsed_answer(self.version, decision.frame)
        response = yield from ask(frame if decision.frame is None else decision.frame)
        return response if decision.pending is None else through(response, decision.pending, self.now)
