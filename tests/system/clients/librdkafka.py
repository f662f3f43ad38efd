"""A client of librdkafka, run as a process of its own: transactions with every compression, then a group that grows.

Arguments as those of Client.java: bootstrap.servers, topic, group.protocol, records of each transaction. Of each codec
three transactions are produced, the second of which is aborted; then two consumers of one group read what was
committed, the second of which joins when a quarter is read. Every line on standard output is an event:

    committed|aborted CODEC SHA256     a record, when its transaction has ended
    assigned first|second COUNT        so many partitions, after a rebalance
    consumed first|second SHA256       a record, once for its partition and offset
"""

from __future__ import annotations

import hashlib
import random
import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


def value(codec: str, number: int) -> bytes:
    """Half random, half a repeated word, of up to 4 kB: something to compress and something that cannot be."""
    chance = random.Random(f"{codec}-{number}")
    size = chance.randrange(20, 4020)
    word = f"{codec}-{number} ".encode()
    return (word * size)[: size // 2] + chance.randbytes(size - size // 2)


def produce(servers: str, topic: str, codec: str, count: int) -> int:
    """Return how many records were committed."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "compression.type": codec,
            "transactional.id": f"{topic}-{codec}",
            "linger.ms": 5,
        }
    )
    producer.init_transactions()
    for turn in range(3):
        producer.begin_transaction()
        values = [value(codec, turn * count + i) for i in range(count)]
        for number, each in enumerate(values):
            producer.produce(topic, key=str(number), value=each)
        aborts = turn == 1
        if aborts:
            # Otherwise what is not sent yet would never be.
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
        for each in values:
            say("aborted" if aborts else "committed", codec, digest(each))
    return 2 * count


class Member:
    """One consumer of the group."""

    def __init__(self, name: str, servers: str, topic: str, protocol: str) -> None:
        self.name = name
        self.has_partitions = False
        settings = {
            "bootstrap.servers": servers,
            "group.id": f"{topic}-group",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "client.id": name,
        }
        if protocol == "classic":
            settings["heartbeat.interval.ms"] = 200
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def read(self) -> list[Message]:
        messages = self._consumer.consume(10, timeout=0.05)
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
        if messages:
            self._consumer.commit(asynchronous=False)
        return list(messages)

    def pause(self) -> None:
        """Read nothing more, but take part in the group."""
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        self._consumer.resume(self._consumer.assignment())

    def close(self) -> None:
        self._consumer.close()

    def _assigned(self, _consumer: Consumer, partitions: list[object]) -> None:
        self.has_partitions = self.has_partitions or bool(partitions)
        say("assigned", self.name, len(partitions))

    def _revoked(self, _consumer: Consumer, _partitions: list[object]) -> None:
        """What was read is committed already."""


def consume(servers: str, topic: str, protocol: str, committed: int) -> None:
    seen: set[tuple[int, int]] = set()
    members = [Member("first", servers, topic, protocol)]
    while len(seen) < committed or not members[-1].has_partitions or len(members) < 2:
        for member in members:
            for message in member.read():
                place = (message.partition(), message.offset())
                if place not in seen:
                    seen.add(place)
                    say("consumed", member.name, digest(message.value()))
        if len(members) < 2 and len(seen) >= committed // 4:
            # It leaves something for the second, however long that takes to join.
            members[0].pause()
            members.append(Member("second", servers, topic, protocol))
        elif members[-1].has_partitions:
            members[0].resume()
    for member in members:
        member.close()


def main(servers: str, topic: str, protocol: str, count: str) -> None:
    committed = sum(produce(servers, topic, codec, int(count)) for codec in CODECS)
    consume(servers, topic, protocol, committed)


if __name__ == "__main__":
    main(*sys.argv[1:])
