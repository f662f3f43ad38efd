"""The mirror of Mirror.java by librdkafka: see there.

The partitions that are behind are assigned when they are resumed, and "behind" tells what came in 10 ms, since each
poll brings one record.
"""

from __future__ import annotations

import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Message, Producer, TopicPartition

SETTLES_SECONDS = 1.0
TELLS_SECONDS = 0.01
_stops, _resumed = threading.Event(), threading.Event()


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")


def fill(servers: str, topic: str, behind: int, count: int, size: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for _ in range(count):
        for partition in range(1, behind + 1):
            while True:
                try:
                    producer.produce(topic, bytes(size), partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
    producer.flush()


def write_tail(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    while not _stops.wait(0.005):
        producer.produce(topic, str(time.monotonic_ns()).encode(), partition=0)
        producer.poll(0)
    producer.flush()


def reader(servers: str, topic: str, who: str) -> Consumer:
    """Return a consumer that reads partition 0 from its end on."""
    consumer = Consumer({"bootstrap.servers": servers, "client.id": who, "group.id": who, "enable.auto.commit": False})
    consumer.incremental_assign([TopicPartition(topic, 0, OFFSET_END)])
    return consumer


def polled(consumer: Consumer) -> Message | None:
    message = consumer.poll(0.1)
    if message is not None and message.error():
        raise KafkaException(message.error())
    return message


def late_ns(message: Message) -> int:
    return time.monotonic_ns() - int(message.value() or b"0")


def look_on(servers: str, topic: str) -> None:
    consumer = reader(servers, topic, "onlooker")
    while not _stops.is_set():
        message = polled(consumer)
        if message is not None and _resumed.is_set():
            say("onlooker", late_ns(message))
    consumer.close()


def consume(consumer: Consumer, topic: str, behind: int, expected: int, seconds: float) -> None:
    settles = time.monotonic() + SETTLES_SECONDS
    following: dict[int | None, int] = {}
    read = size = 0
    told_at = 0.0
    while read < expected:
        now = time.monotonic()
        if not _resumed.is_set() and now > settles + seconds:
            others = [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(1, behind + 1)]
            consumer.incremental_assign(others)
            _resumed.set()
        message = polled(consumer)
        if message is not None:
            partition, offset = message.partition(), message.offset() or 0
            wanted = following.get(partition, 0 if partition else offset)
            if offset != wanted:
                say("wrong", f"{partition}: offset {offset}, expected {wanted}")
            following[partition] = offset + 1
            if partition:
                read += 1
                size += len(message.value() or b"")
            elif now > settles:
                say("beside" if _resumed.is_set() else "alone", late_ns(message))
        if size and (time.monotonic() > told_at + TELLS_SECONDS or read == expected):
            say("behind", round(time.time() * 1000), size)
            size, told_at = 0, time.monotonic()
    consumer.close()


def main(servers: str, topic: str, who: str, *numbers: str) -> None:
    behind, count, size, seconds = map(int, numbers)
    fill(servers, topic, behind, count, size)
    threads = [threading.Thread(target=each, args=(servers, topic)) for each in (write_tail, look_on)]
    for thread in threads:
        thread.start()
    try:
        consume(reader(servers, topic, who), topic, behind, behind * count, seconds)
    finally:
        _stops.set()
        for thread in threads:
            thread.join()
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
