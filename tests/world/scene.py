"""Scenes as values, and how they run in virtual time.

quotas = Rates(leader=4 * MIB, racks={"a": MIB}).toml     # or the text of any quotas.toml
scene = Scene({1: SidecarSpec(quotas, egress=False)}, (Fetch(2, 1), Fetch(3, 1, one_way_ms=60)), racks={3: "a"})
outcome = scene.run(30)
outcome.rates(begin=5)                       # bytes per second of each connection: {"2<1": 3145728.0, "3<1": ...}
entities(outcome)                            # beside their exact shares (shares.py)
outcome.fetchers["3<1"].longest_silence      # seconds that each partition was brought nothing
worst_excess(outcome.ledger.departures, 4 * MIB, 0.1)
outcome.wrong                                # must be empty
"""

from __future__ import annotations

import gc
import math
import random
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from proxy.relay.transport import answer_within
from proxy.roles import Role

from .broker import Broker
from .clock import run_in_virtual_time
from .fetcher import BACKOFF_SECONDS, Departures, Fetcher
from .leaks import alive, what_is_left
from .ledger import Ledger, rates
from .logs import FOREVER
from .messages import FetchOptions, keys_of
from .pipes import WINDOW_BYTES, Line, pipes
from .sidecar import WorldSidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from protocol.session.requests import PartitionKey
    from proxy.relay.connection import Connection

    from .clients import Client, Deaf
    from .clock import Network
    from .ledger import Passed
    from .pipes import End
    from .sidecar import SidecarSpec

EVERY = '[topics."*"]\nleader.replication.throttled.replicas = "*"\nfollower.replication.throttled.replicas = "*"\n'
"""The lists that select every partition."""
BATCH_BYTES = (16_000,)
LIVE_BYTES = 1000
"""A batch that producers write to a partition in sync."""


class Fetch(NamedTuple):
    """Replica fetchers of one follower at one leader.

    `topics`: partitions behind, of each connection. `live`: partitions that begin in sync. `backlog`: bytes of each
    partition behind. `written`: bytes per second that producers write to each live partition. `first`: number of the
    first partition.
    """

    follower: int
    leader: int
    topics: Mapping[str, int] = {"t": 8}
    one_way_ms: float = 0.5
    jitter_ms: float = 0.0
    version: int = 12
    connections: int = 1
    backlog: float = math.inf
    live: Mapping[str, int] = {}
    written: float = 0.0
    first: int = 0
    begins: float = 0.0
    line_rate: float = math.inf
    """Bytes per second that the network carries from the leader to the follower."""
    sizes: tuple[int, ...] = BATCH_BYTES

    def names(self) -> list[str]:
        many = self.connections > 1
        return [f"{self.follower}<{self.leader}" + (f"#{each}" if many else "") for each in range(self.connections)]


class Act(NamedTuple):
    """Something that happens at a time; `what` is called with the world."""

    at: float
    kind: str
    what: Callable[[World], None]


class Scene(NamedTuple):
    sidecars: Mapping[int, SidecarSpec]
    fetches: tuple[Fetch, ...] = ()
    clients: tuple[Client, ...] = ()
    acts: tuple[Act, ...] = ()
    racks: Mapping[int, str] = {}
    seed: int = 0
    busy: float = 0.0
    """The chance that the relay's clock says, each time it is asked, that the turn is over."""
    cuts: float = 0.0

    def run(self, seconds: float) -> Outcome:
        """Run it, and then until everybody has left."""
        outcome: list[Outcome] = []

        async def main(network: Network) -> None:
            outcome.append(await _run(self, network, seconds))

        run_in_virtual_time(self.seed, main)
        return outcome[0]


@dataclass
class Outcome:
    """What came of a scene. Rates are in bytes per second, of those behind alone."""

    world: World
    seconds: float

    @property
    def ledger(self) -> Ledger:
        return self.world.ledger

    @property
    def trace(self) -> str:
        return self.ledger.trace

    @property
    def fetchers(self) -> dict[str, Fetcher]:
        return self.world.fetchers

    @property
    def wrong(self) -> list[str]:
        return self.ledger.wrong

    def rates(
        self, begin: float = 5.0, by: Callable[[Passed], Any] = lambda each: each.reader, end: float | None = None
    ) -> dict[Any, float]:
        """Return what reached the followers; by name of the connection unless told otherwise."""
        return rates(self.ledger.arrivals, begin, self.seconds if end is None else end, by)


@dataclass
class World:
    """A scene that runs."""

    scene: Scene
    network: Network
    nursery: trio.Nursery
    draw: random.Random
    ledger: Ledger = field(default_factory=Ledger)
    brokers: dict[int, Broker] = field(default_factory=dict)
    sidecars: dict[int, WorldSidecar] = field(default_factory=dict)
    fetchers: dict[str, Fetcher] = field(default_factory=dict)
    lines: dict[tuple[int, int], Line] = field(default_factory=dict)
    """By sender and receiver."""
    leaving: list[Callable[[], None]] = field(default_factory=list)
    deaf: list[Deaf] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    """The dialling ends of connections between hosts that were open when it was looked last."""
    _alive: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)
    """What is still there of peers that have all left."""
    _addresses: int = 0

    def broker(self, broker_id: int) -> Broker:
        if broker_id not in self.brokers:
            self.brokers[broker_id] = Broker(self.network, broker_id, self.ledger, BATCH_BYTES)
        return self.brokers[broker_id]

    def build(self) -> None:
        scene = self.scene
        for broker_id, spec in sorted(scene.sidecars.items()):
            self.sidecars[broker_id] = self.make_sidecar(broker_id, spec)
        self._alive = alive()
        for fetch in scene.fetches:
            self.add(fetch)
        for client in scene.clients:
            client.join(self)
        for act in scene.acts:
            self.network.at(act.at, self._act, act)

    def make_sidecar(self, broker_id: int, spec: SidecarSpec) -> WorldSidecar:
        topics = {"late", *(topic for fetch in self.scene.fetches for topic in (*fetch.topics, *fetch.live))}
        made = WorldSidecar(
            self.network, broker_id, spec, ledger=self.ledger, racks=self.scene.racks, topics=sorted(topics),
            turn_clock=self._turn_clock,
        )  # fmt: skip
        self.nursery.start_soon(made.reaper.run)
        return made

    def _act(self, act: Act) -> None:
        self.ledger.faults[act.kind] += 1
        act.what(self)

    def _turn_clock(self) -> float:
        busy = self.scene.busy
        return math.inf if busy and self.draw.random() < busy else self.network.now

    def open_ends(self) -> list[End]:
        self.ends = [end for end in self.ends if not end.is_closed and not end.is_broken]
        return self.ends

    def silence(self) -> None:
        """Have those leave who never read."""
        for deaf in self.deaf:
            deaf.leave()
        self.deaf.clear()

    def look_who_is_left(self) -> None:
        """Note what sidecars know of peers that have all left."""
        for sidecar in self.sidecars.values():
            for each in (*sidecar.before, sidecar):
                self.left += what_is_left(each)

    def look_what_is_alive(self) -> None:
        """Note what is alive of connections, once the tasks that look after them have ended, too."""
        gc.collect()
        if any(sidecar.before for sidecar in self.sidecars.values()):
            return  # those that took over are new themselves
        self.left += [
            f"{count - self._alive[kind]} more of {kind} than before anybody came"
            for kind, count in sorted(alive().items())
            if count > self._alive[kind]
        ]

    def add(self, fetch: Fetch, *, backoff_seconds: float = BACKOFF_SECONDS) -> list[Fetcher]:
        """Let a follower begin to fetch."""
        there = self.line(fetch.follower, fetch.leader)
        back = self.line(fetch.leader, fetch.follower)
        for line in (there, back):
            line.delay, line.jitter = fetch.one_way_ms / 1000, fetch.jitter_ms / 1000
        back.bytes_per_second = fetch.line_rate
        made = []
        for number, name in enumerate(fetch.names()):
            behind = keys_of(fetch.topics, fetch.version, fetch.first + number * max(fetch.topics.values(), default=0))
            live = keys_of(fetch.live, fetch.version, fetch.first + number * max(fetch.live.values(), default=0))
            made.append(self._add_fetcher(name, fetch, behind, live, backoff_seconds))
        return made

    def _add_fetcher(
        self, name: str, fetch: Fetch, behind: list[PartitionKey], live: list[PartitionKey], backoff_seconds: float
    ) -> Fetcher:
        leader = self.broker(fetch.leader)
        for key in behind:
            log = leader.log(key, sizes=fetch.sizes)
            log.end = FOREVER if math.isinf(fetch.backlog) else log.batch_at(int(fetch.backlog))
        for key in live:
            leader.log(key, sizes=(LIVE_BYTES,))
            if fetch.written:
                self._write(leader, key, LIVE_BYTES / fetch.written)
        options = FetchOptions(fetch.version, fetch.follower, f"broker-{fetch.follower}-fetcher-0")
        while name in self.fetchers:
            name += "'"
        made = Fetcher(
            self.network,
            self.ledger,
            leader,
            [*behind, *live],
            options,
            name=name,
            connect=self.connect_fetcher,
            backoff_seconds=backoff_seconds,
        )
        self.fetchers[name] = made
        self.leaving.append(made.stop)
        self.network.at(max(fetch.begins, self.network.now), made.start)
        return made

    def _write(self, leader: Broker, key: PartitionKey, every: float) -> None:
        def write() -> None:
            leader.append(key)
            self.network.at(self.network.now + every, write)

        salt = zlib.crc32(repr(key).encode()) % 1000 / 1000
        self.network.at(self.network.now + every * salt, write)

    def line(self, sender: int, receiver: int) -> Line:
        """Return the line between two hosts."""
        if (sender, receiver) not in self.lines:
            self.lines[sender, receiver] = Line(delay=0.0005, window=WINDOW_BYTES, draw=self.draw, cuts=self.scene.cuts)
        return self.lines[sender, receiver]

    def connect_fetcher(self, fetcher: Fetcher) -> End:
        follower, leader = fetcher.options.replica_id, fetcher.leader.broker_id
        sidecar = self.sidecars.get(follower)
        if sidecar is None or not sidecar.spec.egress:
            return self.dial(follower, leader, fetcher)
        near, far = pipes(self.network, Line(), Line(), (fetcher.name, f"egress of {follower}"))

        async def dial(address: object, *, timeout_seconds: float) -> End:
            del address
            with answer_within(timeout_seconds):
                await trio.sleep(2 * self.line(follower, leader).delay)
            return self.dial(follower, leader, fetcher)

        self.serve(sidecar, far, Role.FOLLOWER, str(leader), (str(leader), 9092), dial)
        return near

    def dial(self, host: int, leader: int, fetcher: Fetcher | None = None) -> End:
        """Connect a host to a leader's listener, or to the sidecar that stands before it."""
        self._addresses += 1
        names = f"{host}.{self._addresses}", f"listener of {leader}"
        near, far = pipes(self.network, self.line(host, leader), self.line(leader, host), names)
        self.ends.append(near)
        if fetcher is not None:
            far.watch = Departures(fetcher)
        broker, sidecar = self.broker(leader), self.sidecars.get(leader)
        if sidecar is None or not sidecar.spec.ingress:
            broker.accept(far)
            return near

        async def local(address: object, *, timeout_seconds: float) -> End:
            del address, timeout_seconds
            await trio.lowlevel.checkpoint()
            here, there = pipes(self.network, Line(), Line(), (f"ingress of {leader}", f"broker {leader}"))
            broker.accept(there)
            return here

        self.serve(sidecar, far, Role.LEADER, f"10.0.0.{host}:{self._addresses}", (f"broker-{leader}", 9092), local)
        return near

    def serve(
        self,
        sidecar: WorldSidecar,
        end: End,
        role: Role,
        peer: str,
        upstream: Any,
        dial: Any,
        *,
        restored: Callable[[Connection], object] | None = None,
    ) -> None:
        """Have a sidecar relay a connection."""

        async def serve() -> None:
            await sidecar.serve(end, role, peer=peer, upstream=upstream, dial=dial, restored=restored)

        self.nursery.start_soon(serve)
        self.network.owes_trio = True


LEAVING_SECONDS = 5.0


async def _run(scene: Scene, network: Network, seconds: float) -> Outcome:
    async with trio.open_nursery() as nursery:
        world = World(scene, network, nursery, random.Random(scene.seed))
        world.build()
        await network.run(seconds)
        for sidecar in world.sidecars.values():
            sidecar.look_at_replicas()
        for leave in world.leaving:
            leave()
        world.silence()
        await network.run(seconds + LEAVING_SECONDS)
        world.look_who_is_left()
        nursery.cancel_scope.cancel()
    world.look_what_is_alive()
    return Outcome(world, seconds)
