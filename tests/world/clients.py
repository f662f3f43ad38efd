"""Clients of a listener, and peers that nobody wants: consumers that never read, storms of connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lab.embedded.session_values import Ask
from protocol.session.requests import SessionRequest

from .fetcher import Fetcher
from .frames import FramedPeer
from .messages import FetchOptions, fetch_request, keys_of, produce_request

if TYPE_CHECKING:
    from .broker import Broker
    from .clock import Network
    from .ledger import Ledger
    from .pipes import End
    from .scene import World

CONSUMER = -1
CONSUMER_VERSION = 11


class Client(NamedTuple):
    """`kind`: consumer, producer, or deaf, which fetches and never reads. `rate`: bytes per second of a producer,
    fetches per second of a deaf consumer."""

    kind: str
    leader: int
    client_id: str
    topics: dict[str, int]
    host: int = 900
    rate: float = 27.0
    begins: float = 0.0

    def join(self, world: World) -> None:
        world.network.at(self.begins, self._join, world)

    def _join(self, world: World) -> None:
        broker = world.broker(self.leader)
        keys = keys_of(self.topics, CONSUMER_VERSION)
        if self.kind == "consumer":
            options = FetchOptions(CONSUMER_VERSION, CONSUMER, self.client_id)
            name = self.client_id
            while name in world.fetchers:
                name += "'"
            consumer = Fetcher(
                world.network, world.ledger, broker, keys, options, name=name,
                connect=lambda fetcher: world.dial(self.host, self.leader, fetcher),
            )  # fmt: skip
            world.fetchers[name] = consumer
            world.leaving.append(consumer.stop)
            consumer.start()
        elif self.kind == "producer":
            producer = Producer(world.network, world.dial(self.host, self.leader), world.ledger, broker, self)
            world.leaving.append(producer.leave)
        else:
            deaf = Deaf(world.network, world.dial(self.host, self.leader), self)
            world.deaf.append(deaf)
            world.leaving.append(deaf.leave)


class Producer(FramedPeer):
    """Writes one batch after the other to its first partition, acks=1, at its rate or as the throttle time allows."""

    def __init__(self, network: Network, end: End, ledger: Ledger, broker: Broker, client: Client) -> None:
        super().__init__(network, end)
        self._client, self._ledger = client, ledger
        (topic, _), *_ = client.topics.items()
        self._log = broker.log((topic, 0))
        self._topic = topic
        self._sent = self._log.end
        self._number = 0
        self.answered = 0
        self._send()

    def _send(self) -> None:
        if self.is_over:
            return
        size = self._log.sizes[self._sent % len(self._log.sizes)]
        records = self._log.read(self._sent * self._log.records, size)
        self._number += 1
        self._sent += 1
        self._due = self.network.now + size / self._client.rate
        self.write(produce_request(self._client.client_id, self._topic, 0, records, self._number))

    def came(self, frame: bytes) -> None:
        self.answered += 1
        if int.from_bytes(frame[:4]) != self._number:
            self._ledger.complain(self.network.now, f"{self._client.client_id} was answered what it did not ask")
        throttled = int.from_bytes(frame[-4:]) / 1000
        self.network.at(max(self._due, self.network.now + throttled), self._send)

    def lost(self) -> None:
        self.end.close()


class Deaf(FramedPeer):
    """Asks again and again for all of its partitions, and never reads an answer."""

    def __init__(self, network: Network, end: End, client: Client) -> None:
        super().__init__(network, end)
        self.reads_from = float("inf")
        self._client = client
        self._keys = keys_of(client.topics, CONSUMER_VERSION)
        self._number = 0
        network.soon(self._ask)

    def _ask(self) -> None:
        if self.is_over:
            return
        self._number += 1
        request = SessionRequest(CONSUMER_VERSION, dict.fromkeys(self._keys, Ask(0, 2**20, 0, -1, 0)), 0, -1)
        options = FetchOptions(CONSUMER_VERSION, CONSUMER, self._client.client_id)
        self.write(fetch_request(options, request, self._number))
        self.network.at(self.network.now + 1 / self._client.rate, self._ask)

    def came(self, frame: bytes) -> None:
        raise AssertionError("it never reads")

    def lost(self) -> None:
        self.end.close()


class Caller(FramedPeer):
    """One of a storm: it dials, says some bytes at most, and goes."""

    def __init__(self, network: Network, end: End, begins_with: bytes, *, resets: bool, stays: float) -> None:
        super().__init__(network, end)
        self._resets = resets
        if begins_with:
            self.write(begins_with)
        network.at(network.now + stays, self._go)

    def _go(self) -> None:
        if self._resets and not self.is_over:
            self.end.reset()
        else:
            self.leave()

    def came(self, frame: bytes) -> None:
        """Nobody reads it."""

    def lost(self) -> None:
        self.end.close()
